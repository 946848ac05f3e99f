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

// TestProblems holds the text of every kind of mistake, with its place.
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

// findings is everything said about a file, one line each.
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

func TestErrorJoinsItsProblems(t *testing.T) {
	_, err := config.Parse("f.toml", []byte("a = 1\nb = 2\n"))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "f.toml:1: a: ") || !strings.HasPrefix(lines[1], "f.toml:2: b: ") {
		t.Errorf("got %q, want one line each for a and b", err)
	}
}
