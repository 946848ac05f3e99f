//go:build unix

package demo_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mcpschedd/internal/demo"
)

// The session through the real program, not the small proxy that stands in for it
// elsewhere. Waits are what the tools take in life, so that nothing depends on how
// busy this machine is; only that think times leave room for guesses does.
func TestRealSession(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "mcpschedd")
	if out, err := exec.Command("go", "build", "-o", bin, "mcpschedd/cmd/mcpschedd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var out, log bytes.Buffer
	err := demo.Run(t.Context(), demo.Options{Stdout: &out, Stderr: &log, JSON: true, Speed: 8, Executable: bin})
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
