// Package mutant removes a rule from the code, to show that the rule's test fails without it.
//
// A rule is identified by what it does and not by its text: calls of a method, comparisons
// with a field, or assignments to a field, in the functions that given functions reach. So
// code that is moved, split or reformatted keeps its mutants, and a missing rule is an error:
//
//	mutant.Mutant{
//		Name: "second bump", Test: "TestModel", Says: "stale answer",
//		Cuts: []mutant.Cut{{In: "dedup", Call: "epochs.bump", Under: []string{"PendingWrite.End"}, Becomes: mutant.Nothing}},
//	}
package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Mutant is a rule to remove, and the test that fails without it.
type Mutant struct {
	Name string
	Cuts []Cut
	Test string   // in the package of the test that calls [Mutant.Check]
	Says string   // part of the output of the failing test
	Args []string // more arguments of go test
	Env  []string // more environment variables
}

// Cut selects places in the code to replace. Exactly one of Call, Compare, Read and Set
// must be set. Names from another package than In are qualified: "dedup.PendingWrite.End".
type Cut struct {
	In string // package, below internal

	Call    string // calls of this function or method: "epochs.bump"
	Compare string // comparisons with this field: "placeState.pending"
	Read    string // expressions that read this field
	Set     string // statements that assign to this field

	With   string   // only calls with this field as an argument: "entry.epoch"; "" means all calls
	Under  []string // only in these functions and those that they reach in the package; a type means its methods; nil means everywhere
	Except []string // not in these functions; a type means its methods

	// Becomes is the replacement: $& is the place's text, $1 the first argument of a call, and $x
	// the operand before the dot of the called method or the assigned field.
	Becomes string
}

// Common values of Cut.Becomes.
const (
	Nothing = "if false { $& }"
	True    = "($& || true)"
	False   = "($& && false)"
)

// Check checks that the rule's places exist. In a soak run it removes the rule, and the test
// must then fail and print Says.
func (m *Mutant) Check(t *testing.T) {
	changed, err := m.apply()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("MCPSCHEDD_SOAK") != "1" {
		return
	}
	args := append([]string{"test", "-vet=off", "-count=1", "-overlay", overlay(t, changed), "-run", "^" + m.Test + "$", "."}, m.Args...)
	run := exec.CommandContext(t.Context(), "go", args...)
	run.Env = append(append(os.Environ(), "MCPSCHEDD_SOAK="), m.Env...)
	out, err := run.CombinedOutput()
	if err == nil || !strings.Contains(string(out), m.Says) {
		t.Errorf("without %q %s does not say %q (%v):\n%s", m.Name, m.Test, m.Says, err, out)
	}
}

// overlay writes the changed files and the overlay file for go test, and returns the latter's
// path.
func overlay(t *testing.T, changed map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	replace := make(map[string]string)
	for path, code := range changed {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d_%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(replace[path], code, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// apply returns the changed files of the mutant, by path.
func (m *Mutant) apply() (map[string][]byte, error) {
	edits := make(map[*source][]edit)
	for _, c := range m.Cuts {
		p, err := load(c.In)
		if err != nil {
			return nil, err
		}
		found, err := p.find(c)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			edits[e.in] = append(edits[e.in], e)
		}
	}
	changed := make(map[string][]byte)
	for src, all := range edits {
		slices.SortFunc(all, func(a, b edit) int { return b.from - a.from })
		code := slices.Clone(src.code)
		for i, e := range all {
			if i > 0 && e.to > all[i-1].from {
				return nil, fmt.Errorf("%s: two cuts of %q overlap at %q", src.path, m.Name, src.code[e.from:e.to])
			}
			code = slices.Replace(code, e.from, e.to, []byte(e.text)...)
		}
		changed[src.path] = code
	}
	return changed, nil
}
