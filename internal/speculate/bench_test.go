package speculate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/speculate"
)

// BenchmarkObserved measures what observing adds to a call with an answer of 1 KB, which must stay
// at most 20 µs. The worker's own time is not included.
func BenchmarkObserved(b *testing.B) {
	body := fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, strings.Repeat("x", 1000))
	var took []time.Duration
	var d *fixture
	var c *speculate.Session
	lease := at1(newShelf(b))
	for n := 0; b.Loop(); n++ {
		if n%1000 == 0 { // a session with more calls in progress is not observed
			if d != nil {
				d.Close()
			}
			d = newFixture()
			c = d.client(b, "one")
		}
		call := &speculate.Call{Session: c, Lease: lease, At: time.Now(), Turn: n, Tool: "get", Arguments: fmt.Appendf(nil, `{"n":%d}`, n), Host: host}
		began := time.Now()
		if !d.Called(call) {
			b.Fatal("a call is not observed")
		}
		d.Answered(call, speculate.Result{At: began, Complete: true, Body: body, Took: time.Millisecond}, nil)
		took = append(took, time.Since(began))
	}
	d.Close()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/median")
}
