package proxy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is a rule of the store taken out of the code.
type mutant struct {
	name  string
	file  string   // from the folder of all packages
	texts []string // each that is replaced, followed by what stands in its place
}

var mutants = []mutant{
	// The bump alone would not be missed at arrival, for what is in the air is not
	// served; nor would that be at the same time. Without both, a write does not
	// show before its end.
	{"bump at arrival", "dedup/pending.go", []string{
		"		s.depart(s.epochs.at(place)) // the change at arrival\n", "		_ = place\n",
		"		s.land(m)\n", "		s.epochs.bump(m)\n",
	}},
	{"bump at the end", "dedup/pending.go", []string{
		"	s.epochs.bump(m) // the change at the end\n", "",
	}},
	{"check when served", "dedup/serve.go", []string{
		"s.epochs.current(e.epoch, e.places, q.Places) // the check when served\n", "true\n",
	}},
	{"check when joined", "dedup/serve.go", []string{
		"s.epochs.current(f.epoch, f.query.Places, q.Places) // the check when joined\n", "true\n",
	}},
	{"write in the air", "dedup/epoch.go", []string{
		"	if m.air != 0 { // a change under way", "	if m.air < 0 { // a change under way",
	}},
	{"scope", "proxy/classify.go", []string{
		"	scope := j.s.scope\n", "	scope := everyone\n",
	}},
	{"unknown outcome", "proxy/upstreamcall.go", []string{
		"		passage.Doubt()\n", "		passage.End()\n",
	}},
	{"task under way", "proxy/tasks.go", []string{
		"	write.Doubt()\n	t.mu.Lock()\n", "	write.End()\n	t.mu.Lock()\n",
	}},
}

// TestInvariantMutants shows that TestInvariant can fail: without any one of the
// rules it does, and says why. That the rules stand where they are taken out is
// looked at in every run.
func TestInvariantMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			overlay := m.overlay(t)
			if os.Getenv("MCPSCHEDD_SOAK") != "1" {
				return
			}
			run := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-run", "^TestInvariant$", "-count", "1",
				"mcpschedd/internal/proxy", "-rapid.shrinktime", "1s", "-rapid.nofailfile") // ends at the first fault
			out, err := run.CombinedOutput()
			said := strings.Contains(string(out), "stale answer") || strings.Contains(string(out), "answer of another principal")
			if err == nil || !said {
				t.Errorf("without %q TestInvariant found nothing wrong (%v):\n%s", m.name, err, out)
			}
		})
	}
}

// overlay makes the mutant, and returns the file that puts it in the place of
// the code.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file)))
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(code)
	for pair := range slices.Chunk(m.texts, 2) {
		if n := strings.Count(changed, pair[0]); n != 1 {
			t.Fatalf("%s: found %d times, want once, for the code has moved on:\n%s", m.file, n, pair[0])
		}
		changed = strings.Replace(changed, pair[0], pair[1], 1)
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mutated, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
