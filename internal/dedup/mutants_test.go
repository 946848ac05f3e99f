package dedup_test

import (
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
}

var mutants = []mutant{
	{
		name: "change at arrival", file: "passage.go",
		old: "		s.depart(s.epochs.at(place)) // the change at arrival\n",
		new: "		_ = place\n",
	},
	{
		name: "change at the end", file: "passage.go",
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
		old: "	now := s.clock()\n	if e, backedOff :=",
		new: "	now := s.clock()\n	q.Key.Scope = \"*\"\n	if e, backedOff :=",
	},
	{
		name: "reform", file: "epoch.go",
		old: "	s.epochs.world.air = s.passages // those from before the last reform included\n",
		new: "",
	},
	{
		name: "unknown outcome", file: "passage.go",
		old: "	wait := s.options.WriteSettle\n",
		new: "	wait := s.options.WriteSettle / 2\n",
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
			run.Env = append(os.Environ(), "MCPSCHEDD_SOAK=")
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "stale answer") {
				t.Errorf("without %q TestModel found no stale answer (%v):\n%s", m.name, err, out)
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
