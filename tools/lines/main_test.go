package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var house = filepath.Join("testdata", "house")

func TestCensus(t *testing.T) {
	got, err := take(house)
	if err != nil {
		t.Fatal(err)
	}
	wide := []Wide{{"Many", 0, 26}, {"Wide", 16, 2 + 1 + 3}}
	want := &Census{
		Product: []*Package{
			{Name: "cmd/run", Files: 1, Lines: 6, Comment: 1. / 5, LineP90: 61, FuncP90: 3},
			{Name: "internal/wide", Files: 3, Lines: 94, Comment: 14. / 80, LineP90: 30, FuncP90: 5, Exported: 6, Wide: wide, Mutexes: 2, Tests: 5},
		},
		Total: &Package{Name: "product", Files: 4, Lines: 100, Comment: 15. / 85, LineP90: 42, FuncP90: 5, Exported: 6, Mutexes: 2, Tests: 5,
			Wide: []Wide{{"internal/wide.Many", 0, 26}, {"internal/wide.Wide", 16, 6}}},
		Page:    []File{{"internal/wide/page/page.html", 2}},
		Tables:  []File{{"internal/wide/words.toml", 3}},
		Tools:   []*Package{{Name: "gauge", Files: 1, Lines: 4, Comment: 1. / 3, LineP90: 27, FuncP90: 1}},
		Scripts: []File{{"tools/gauge/gauge.sh", 2}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Package{}), cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
}

func TestPrint(t *testing.T) {
	text, again := printed(t, house), printed(t, house)
	if text != again {
		t.Errorf("the second run printed\n%s, the first\n%s", again, text)
	}
	for _, want := range []string{"files  lines", "100", "product", "16 fields    6 methods  internal/wide.Wide", "page.html", "words.toml", "gauge.sh"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%swant %q in it", text, want)
		}
	}
}

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{{"-no"}, {house, house}, {filepath.Join(house, "nothing")}, {t.TempDir()}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
}

func printed(t *testing.T, args ...string) string {
	t.Helper()
	var b strings.Builder
	if err := run(t.Context(), args, &b, io.Discard); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
