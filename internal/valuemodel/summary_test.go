package valuemodel_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/valuemodel"
)

var update = flag.Bool("update", false, "write summary.json anew")

// The summary matches the tables. If it lacked an edge, stale answers would be served.
func TestSummary(t *testing.T) {
	servers, references := make(map[string]string), make(map[string]string)
	requires, shareable := make(map[string][]string), make(map[string]valuemodel.Sharing)
	flags, edges := make(map[string]bool), make(map[string]bool)
	for _, p := range allProviders() {
		for _, name := range p.Servers {
			servers[name] = p.Name
		}
		for _, ref := range referencesOf(p) {
			references[ref] = p.Name
		}
		for _, ref := range p.Shareable.Packages {
			if p.Stateful || !slices.Contains(referencesOf(p), ref) {
				t.Errorf("provider %s: shareable: %s", p.Name, ref)
			}
			shareable[ref] = p.Shareable
		}
		if len(p.Requires) > 0 {
			requires[p.Name] = p.Requires
		}
		all := slices.Clone(p.Requires)
		for _, m := range p.Modes {
			all = append(all, m.Flags...)
		}
		for _, flag := range all {
			flags[flag] = true
		}
		for _, l := range p.Tools {
			for _, e := range l.Invalidates {
				words := append([]string{e.Tool}, slices.Sorted(slices.Values(e.Match))...)
				edges[strings.Join(words, " ")] = true
			}
		}
	}
	want, err := json.MarshalIndent(map[string]any{
		"Servers": servers, "References": references, "Requires": requires, "Shareable": shareable,
		"Flags": slices.Sorted(maps.Keys(flags)), "Edges": slices.Sorted(maps.Keys(edges)),
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("summary.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("summary.json")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("want -, got + (go test . -run TestSummary -update writes it):\n%s", d)
	}
}
