// Package mutant takes a rule out of the code, so that the test of that rule can be
// shown to fail without it.
//
// A rule is found by what it is and not by its text: the calls of a method, the
// comparisons with a field, what a field is set to, in the functions that some other
// function reaches. So code that is moved, split or formatted anew keeps its mutants,
// and a rule that is no longer there is an error:
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

// Mutant is a rule that is taken out, and the test that fails without it.
type Mutant struct {
	Name string
	Cuts []Cut
	Test string   // of the package whose test calls [Mutant.Check]
	Says string   // what the test must say when it fails
	Args []string // for it, beside -run
	Env  []string // likewise
}

// Cut is one kind of place in the code, all of which are replaced. Exactly one of Call,
// Compare, Read, Set and Value is given. What belongs to another package than In has
// that package's name before it: "dedup.PendingWrite.End".
type Cut struct {
	In string // the package, below internal

	Call    string // calls of this function or method: "epochs.bump"
	Compare string // comparisons with this field: "mark.pending"
	Read    string // expressions that read this field
	Set     string // statements that assign to this field
	Value   string // what this field is given in a literal, or assigned

	With   string   // only calls with an argument that is this field: "entry.epoch"; "": all
	Under  []string // only in these functions and what they reach in the package; a type stands for its methods; none: everywhere
	Except []string // and not in these functions; a type stands for its methods

	// Becomes takes the place's place: $& is the place's text, $1 the first argument of a
	// call, $x what stands before the dot of the method that is called or the field that
	// is set.
	Becomes string
}

// What a place may become.
const (
	Nothing = "if false { $& }"
	True    = "($& || true)"
	False   = "($& && false)"
)

// Check sees to it that all places of the rule are there. A soak run takes the rule
// out, and the test must fail and say why.
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

// overlay writes the changed files, and the file that puts them in the place of the code.
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

// apply returns the changed files of the mutant, by their paths.
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
				return nil, fmt.Errorf("%s: two cuts of %q meet at %q", src.path, m.Name, src.code[e.from:e.to])
			}
			code = slices.Replace(code, e.from, e.to, []byte(e.text)...)
		}
		changed[src.path] = code
	}
	return changed, nil
}
