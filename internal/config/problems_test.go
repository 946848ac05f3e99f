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
	c, err := config.Default().Parse(name, data)
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

// TestLaterProblems checks that problems of compiled rules and plans are merged with the others by
// line, without those of keys that already have a problem.
func TestLaterProblems(t *testing.T) {
	const file = `[tools.a]
speculate = 7
follow_up = [
  { tool = "b", args = { x = "$arg.y" } },
  { tool = "b/" },
]
[tools."aa/"]
colour = "red"
[tools."ab/"]
[plans.p]
steps = [{ id = "a" }]
[upstreams.x]
command = "x"
provider = "gihub"
`
	_, err := config.Default().Parse("f.toml", []byte(file))
	want := `f.toml:2: tools.a.speculate: want true or false, have 7
f.toml:4: tools.a.follow_up[0].args.x: binding "$arg.y": want $args or $result, or $$ for a literal $
f.toml:5: tools.a.follow_up[1].tool: want "TOOL" or "NAME/TOOL", have "b/"
f.toml:8: tools."aa/".colour: unknown key; known here: classify, cost_model, disclosure, fail_fast_after_n, field_groups, follow_up, invalidates, invalidates_only, rate_limit_host, side_effect_class, speculate, validate, value_class, volatile
f.toml:9: tools."ab/": want "TOOL", "NAME/TOOL" or a glob such as "github/get_*", have "ab/"
f.toml:11: plans.p.steps[0]: missing member "tool"
f.toml:14: upstreams.x.provider: no provider model is named "gihub"; did you mean "github"?`
	if err == nil {
		t.Fatal("got no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestErrorJoinsItsProblems(t *testing.T) {
	_, err := config.Default().Parse("f.toml", []byte("a = 1\nb = 2\n"))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "f.toml:1: a: ") || !strings.HasPrefix(lines[1], "f.toml:2: b: ") {
		t.Errorf("got %q, want one line each for a and b", err)
	}
}
