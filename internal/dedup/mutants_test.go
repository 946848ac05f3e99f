package dedup_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a rule of the store taken out of the code.
type mutant struct {
	name, file string
	old, new   string
	says       string // what TestModel says without it; "": that an answer is stale
}

var mutants = []mutant{
	{
		name: "change at arrival", file: "pending.go",
		old: "		s.depart(s.epochs.at(place)) // the change at arrival\n",
		new: "		_ = place\n",
	},
	{
		name: "change at the end", file: "pending.go",
		old: "	s.epochs.bump(m) // the change at the end\n",
		new: "",
	},
	{
		name: "check when served", file: "serve.go",
		old: "	current := s.epochs.current(e.epoch, e.places, q.Places) // the check when served\n",
		new: "	current := true\n",
	},
	{
		name: "check when joined", file: "serve.go",
		old: "	current := s.epochs.current(f.epoch, f.query.Places, q.Places) // the check when joined\n",
		new: "	current := true\n",
	},
	{
		name: "write in the air", file: "epoch.go",
		old: "	if m.air != 0 {",
		new: "	if false {",
	},
	{
		name: "scope", file: "serve.go",
		old: "	now := s.clock()\n	e, backedOff :=",
		new: "	now := s.clock()\n	q.Key.Scope = \"*\"\n	e, backedOff :=",
	},
	{
		name: "reform", file: "epoch.go",
		old: "	s.epochs.world.air = s.passages // those from before the last reform included\n",
		new: "",
	},
	{
		name: "unknown outcome", file: "pending.go",
		old: "	wait := s.options.WriteSettle\n",
		new: "	wait := s.options.WriteSettle / 2\n",
	},
	{
		name: "trial not served", file: "query.go",
		old: "	return g != nil && q.Use.Trial // the trial rule\n", new: "	return false\n",
		says: "a trial is served",
	},
	{
		name: "trial of what has not changed", file: "trial.go",
		old: "	current := s.epochs.current(l.guessed.epoch, l.guessed.places, f.query.Places) // the check when compared\n",
		new: "	current := true\n", says: "a false accusation",
	},
	{
		name: "invalidated is wasted", file: "store.go",
		old:  "	s.wastedLocked(e.guess, why) // of what was stored\n",
		new:  "	if why == invalidated {\n		s.usedLocked(&Outcome{}, e.guess, call.Ready, 0)\n	}\n	s.wastedLocked(e.guess, why)\n",
		says: "wrong fate",
	},
	{
		name: "wasted in flight", file: "flight.go",
		old: "	f.store.wastedLocked(f.guess, why) // of what was in flight\n", new: "",
		says: "open ends",
	},
	{
		name: "ended scope", file: "flight.go",
		old: "	f.unkept, f.held = neverAsked, false // the end of a scope\n", new: "	f.unkept = neverAsked\n",
		says: "open ends",
	},
}

// TestMutants shows that TestModel can fail: without any one of the rules it
// does, and says why. That the rules stand where they are taken out is looked at
// in every run.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			overlay := m.overlay(t)
			if os.Getenv("MCPSCHEDD_SOAK") != "1" {
				return
			}
			run := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-run", "^TestModel$", "-count", "1",
				".", "-rapid.checks", "5000", "-rapid.shrinktime", "1s", "-rapid.nofailfile")
			says := cmp.Or(m.says, "stale answer")
			run.Env = append(os.Environ(), "MCPSCHEDD_SOAK=", onlyBlame+"="+says)
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), says) {
				t.Errorf("without %q TestModel does not say %q (%v):\n%s", m.name, says, err, out)
			}
		})
	}
}

// overlay makes the mutant, and returns the file that puts it in the place of
// the code.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(code), m.old); n != 1 {
		t.Fatalf("%s: found %d times, want once, for the code has moved on:\n%s", m.file, n, m.old)
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(code), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
