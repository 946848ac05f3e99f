package speculate_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

func TestStatsJSON(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	bets(t, s, host, 2, call.Late)
	d.Harm(host, s, speculate.ForegroundWait, 1500*time.Microsecond)
	got, err := json.Marshal(d.Stats())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"issued":2,"expected":1,"used":2,"late":2,"wasted":0,"compared":0,"dropped":0,"preempted":0,"hung":0,"panics":0,` +
		`"refused":{},"watched":0,"watched_true":0,` +
		`"harm":{"foreground_wait_ms":1.5,"rate_limited":0,"evictions":0,"questions":0},` +
		`"under_way":0,"hosts":{"api.example.com":2},"sessions_by_level":[0,0,1,0,0],"level_changes":2}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Arguments name hosts, and every session may have an upstream of its own.
func TestManyHostsAndUpstreams(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	for range 3 {
		d.Harm("bad.example.com", nil, speculate.RateLimited, 0)
	}
	for i := range 5000 {
		s.Room(fmt.Sprint(i), uint64(i))
		d.Began(uint64(i), 1, "t", false, start)
		d.Ended(uint64(i), 1, start)
	}
	if hosts, lines, _ := d.Remembered(); hosts != 1024 || lines != 1024 {
		t.Errorf("idle: got %d hosts and %d upstreams", hosts, lines)
	}
	wantRoom(t, s, "bad.example.com", "1 2 false") // not forgotten

	for i := range 5000 {
		d.Began(uint64(i), 1, "t", false, start) // and never ends
		d.Harm(fmt.Sprint(i), nil, speculate.RateLimited, 0)
	}
	hosts, lines, changes := d.Remembered()
	if hosts != 4096 || lines != 4096 || changes != 256 {
		t.Errorf("in use: got %d hosts, %d upstreams and %d changes", hosts, lines, changes)
	}
	if got := d.Stats().Changes; got != 5001 {
		t.Errorf("got %d changes counted", got)
	}
}
