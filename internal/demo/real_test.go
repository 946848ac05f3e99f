//go:build unix

package demo_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/demo"
)

// The session through the real program, not the small proxy that stands in for it
// elsewhere. Waits are what the tools take in life, so that nothing depends on how
// busy this machine is; only that think times leave room for guesses does.
func TestRealSession(t *testing.T) {
	bin, err := filepath.Abs(filepath.Join("..", "..", "bin", "test", "mcpschedd")) // linked again only when the program has changed
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", bin, "mcpschedd/cmd/mcpschedd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// What is played is no work of this user, and nothing for where theirs is sent to.
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the collector was told of %s", r.URL) }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	keep := filepath.Join(t.TempDir(), "kept for later")
	var out, log bytes.Buffer
	err = demo.Run(t.Context(), demo.Options{Stdout: &out, Stderr: &log, JSON: true, Speed: 8, Executable: bin, Keep: keep})
	if err != nil { // also if an answer differs
		t.Fatalf("%v\n%s", err, &log)
	}
	var r struct {
		Calls []struct {
			Tool      string
			Arguments map[string]any
			ReadOnly  bool `json:"read_only"`
			Answered  string
		}
		Stats demo.Account
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	var all, hidden time.Duration // of the calls that only read
	answered := map[string]int{}
	for i, c := range r.Calls {
		answered[c.Answered]++
		early := c.Answered == "hit" || c.Answered == "joined"
		if early && !c.ReadOnly {
			t.Errorf("call %d, %s: a write that was answered without its server", i+1, c.Tool)
		}
		if !c.ReadOnly {
			continue
		}
		wait := demo.Latency(c.Tool, c.Arguments)
		all += wait
		if early {
			hidden += wait
		}
	}
	if hidden < all/2 {
		t.Errorf("of %v of waiting for calls that only read, %v is hidden; want at least half", all, hidden)
	}
	if want := "\n  mcpschedd stats '" + keep + "/events'\n"; !strings.Contains(log.String(), want) {
		t.Errorf("got %s, want %q in it", &log, want)
	}
	var kept struct{ Totals struct{ Calls int } }
	text, err := exec.Command(bin, "stats", "--json", filepath.Join(keep, "events")).Output()
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || kept.Totals.Calls != len(r.Calls) {
		t.Errorf("got a record of %d calls, %v; want %d", kept.Totals.Calls, err, len(r.Calls))
	}
	totals := r.Stats.Totals
	if totals.Amplification > 1.5 {
		t.Errorf("got %.2f calls to the servers per call, want at most 1.5", totals.Amplification)
	}
	if totals.Calls != len(r.Calls) || totals.Stored != answered["hit"] || totals.Joined != answered["joined"] || totals.Fetched != answered["fetched"] {
		t.Errorf("its account %+v is not what its answers say: %v", totals, answered)
	}
	if wasted, _ := demo.Wasted(&r.Stats); totals.Prefetch.Used == 0 || wasted < 0 || totals.HiddenMs <= 0 {
		t.Errorf("guesses: got %+v, want some used, and what they hid", totals)
	}
	if t.Failed() {
		t.Logf("%s", &out)
	}
}
