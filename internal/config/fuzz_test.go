package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"mcpschedd/internal/config"
	"mcpschedd/internal/valuemodel"
)

// FuzzParse checks properties of any input: parsing is deterministic; problems are sorted and have
// a line of the file; a line inserted at the top moves every position down by one line and changes
// nothing else; an unknown key at the end adds one problem; and a valid configuration satisfies
// the guarantees on which other packages rely.
func FuzzParse(f *testing.F) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "problems.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		if strings.HasSuffix(file.Name, ".toml") {
			f.Add(file.Data)
		}
	}
	for _, path := range []string{"../../configs/pipeline_config.toml", "testdata/earlier.toml"} {
		data, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, problems := try(t, data)
		again, problemsAgain := try(t, data)
		if diff := cmp.Diff(problems, problemsAgain) + cmp.Diff(c, again, cmpopts.IgnoreFields(config.Config{}, "Models")); diff != "" {
			t.Fatalf("parsed a second time:\n%s", diff)
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, p := range problems {
			if p.File != "f.toml" || p.Line < 1 || p.Line > lines || p.Message == "" {
				t.Errorf("got %+v, want a line of a file of %d lines, and a message", p, lines)
			}
		}
		if !slices.IsSortedFunc(problems, func(a, b config.Problem) int { return a.Line - b.Line }) {
			t.Errorf("got problems out of order: %v", problems)
		}
		if len(data) < 1<<20-1000 && !strings.HasPrefix(string(data), "\ufeff") {
			moved(t, data, c, problems)
		}
		if c != nil {
			promises(t, c)
		}
	})
}

func try(t *testing.T, data []byte) (*config.Config, []config.Problem) {
	c, err := config.Default().Parse("f.toml", data)
	if err == nil {
		return c, nil
	}
	broken, ok := errors.AsType[*config.Error](err)
	if !ok || len(broken.Problems) == 0 || c != nil {
		t.Fatalf("got %v, %T %v, want no value and a *config.Error of problems", c, err, err)
	}
	return nil, broken.Problems
}

func moved(t *testing.T, data []byte, c *config.Config, problems []config.Problem) {
	below, problemsBelow := try(t, append([]byte("# above\n"), data...))
	var want []config.Problem
	for _, p := range problems {
		p.Line++
		want = append(want, p)
	}
	if diff := cmp.Diff(want, problemsBelow); diff != "" {
		t.Errorf("a line further down (-want +got):\n%s", diff)
	}
	if c == nil {
		return
	}
	moved := cmp.Options{source, cmpopts.IgnoreFields(valuemodel.Rule{}, "Source", "Sources")}
	if diff := cmp.Diff(c, below, moved); diff != "" {
		t.Errorf("a line further down:\n%s", diff)
	}
	for key, line := range c.Positions {
		if got := below.Positions[key]; got != line+1 {
			t.Errorf("a line further down: %s: got line %d, want %d", key, got, line+1)
		}
	}
	_, more := try(t, append(slices.Clone(data), "\n[no_such_section]\n"...))
	if len(more) != 1 || more[0].Key != "no_such_section" || more[0].Line != strings.Count(string(data), "\n")+2 {
		t.Errorf("an unknown section at the end: got %v, want one more problem", more)
	}
}

// promises checks what other packages rely on in a valid configuration, independently of check.
func promises(t *testing.T, c *config.Config) {
	for _, u := range c.Upstreams {
		if u.Name == "" || strings.Contains(u.Name, "__") || strings.Trim(u.Name, "_") != u.Name || (u.Command == "") == (u.URL == "") || u.Instances == "" {
			t.Errorf("got the upstream %+v", u)
		}
		if c.Positions[config.Key("upstreams", u.Name)] < 1 || u.Timeout < 0 {
			t.Errorf("%s: got no line, or timeout %v", u.Name, u.Timeout)
		}
	}
	for _, p := range []float64{c.Enrichment.MinProbability, c.Enrichment.InlineFrom, c.Plan.Reserve} {
		if !(p >= 0 && p <= 1) {
			t.Errorf("got a share of %v, want 0 to 1", p)
		}
	}
	for _, tool := range c.Tools {
		for _, f := range tool.FollowUps {
			if !(f.Probability >= 0 && f.Probability <= 1) {
				t.Errorf("%s: got the follow-up %+v", tool.Pattern, f)
			}
		}
	}
	if c.SchemaVersion != 1 || c.Enrichment.Wait > 150*time.Millisecond || c.Server.MaxMessageBytes < 1024 {
		t.Errorf("got version %d, prefetch timeout %v, message size %v", c.SchemaVersion, c.Enrichment.Wait, c.Server.MaxMessageBytes)
	}
}
