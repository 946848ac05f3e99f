package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"mcpschedd/internal/config"
)

var update = flag.Bool("update", false, "write what is found into testdata/problems.txtar")

// TestProblems checks the text and the position of every kind of problem.
func TestProblems(t *testing.T) {
	path := filepath.Join("testdata", "problems.txtar")
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		name, ok := strings.CutSuffix(archive.Files[i].Name, ".toml")
		if !ok || archive.Files[i+1].Name != name+".want" {
			t.Fatalf("%s: want NAME.toml followed by NAME.want", archive.Files[i].Name)
		}
		t.Run(name, func(t *testing.T) {
			got := findings(name+".toml", archive.Files[i].Data)
			if *update {
				archive.Files[i+1].Data = []byte(got)
				return
			}
			if diff := cmp.Diff(string(archive.Files[i+1].Data), got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// findings returns the problems or warnings of a file, one per line.
func findings(name string, data []byte) string {
	var b strings.Builder
	c, err := config.Parse(name, data)
	if broken, ok := errors.AsType[*config.Error](err); ok {
		for _, p := range broken.Problems {
			b.WriteString(p.String() + "\n")
		}
		return b.String()
	}
	if err != nil {
		return "no *config.Error: " + err.Error() + "\n"
	}
	for _, w := range c.Warnings {
		w.Message = "warning: " + w.Message
		b.WriteString(w.String() + "\n")
	}
	return b.String()
}

// TestValidator checks that the problems of a Validator are merged with the others: by line,
// and without those of a key that already has a problem.
func TestValidator(t *testing.T) {
	const file = `[tools.a]
speculate = 7
follow_up = [
  { tool = "b", args = { x = "$args.y" } },
  { tool = "b/" },
]
[tools.aa]
colour = "red"
`
	find := func(c *config.Config) []config.Problem {
		return []config.Problem{
			c.Problem("tools.aa", "the one is too much"), // a key inside the block already has a problem
			c.Problem("tools.a.speculate", "said already"),
			c.Problem("tools.a.speculate.x", "within it"),
			c.Problem("tools.a.follow_up[0].args.x", "one of %d", len(c.Tools)),
			c.Problem("tools.a.follow_up[0].tool.nowhere", "stands near"),
			c.Problem("nowhere", "stands at the top"),
		}
	}
	_, err := config.Parse("f.toml", []byte(file), find)
	want := `f.toml:1: nowhere: stands at the top
f.toml:2: tools.a.speculate: want true or false, have 7
f.toml:2: tools.a.speculate.x: within it
f.toml:4: tools.a.follow_up[0].args.x: one of 2
f.toml:4: tools.a.follow_up[0].tool.nowhere: stands near
f.toml:8: tools.aa.colour: unknown key; known here: classify, cost_model, disclosure, fail_fast_after_n, field_groups, follow_up, invalidates, invalidates_only, rate_limit_host, side_effect_class, speculate, validate, value_class, volatile`
	if err == nil {
		t.Fatal("got no error")
	}
	got := err.Error()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestErrorJoinsItsProblems(t *testing.T) {
	_, err := config.Parse("f.toml", []byte("a = 1\nb = 2\n"))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "f.toml:1: a: ") || !strings.HasPrefix(lines[1], "f.toml:2: b: ") {
		t.Errorf("got %q, want one line each for a and b", err)
	}
}
