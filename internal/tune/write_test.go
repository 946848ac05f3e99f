package tune_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"mcpschedd/internal/tune"
)

var update = flag.Bool("update", false, "write what comes out into the test data")

// proposed are the layers of the cases below.
func layer(blocks ...tune.Block) tune.Layer { return tune.Layer{Blocks: blocks} }

func block(tool string, lines ...tune.Line) tune.Block { return tune.Block{Tool: tool, Lines: lines} }

var usual = layer(block("github/list_issues",
	tune.Line{Key: "speculate", Value: "false", Evidence: "2 of 40 used"},
	tune.Line{Key: "cost_model.typical_kb", Value: "4.2", Evidence: "n=120"},
	tune.Line{Key: "follow_up", Value: `{ tool = "get_issue", probability = 0.42, args = { n = "$result.items[*].number" }, max = 3 }`, Evidence: "n=90"},
	tune.Line{Key: "invalidates", Value: `"search_issues"`, Evidence: "n=7"},
	tune.Line{Key: "cost_model.freshness_ttl_s", Value: "60", Evidence: "n=50", Advice: true},
))

// TestMerge holds one file a case: how it was, and how it is.
func TestMerge(t *testing.T) {
	files, err := filepath.Glob("testdata/merge/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			before := string(a.Files[0].Data)
			m, err := tune.Merge([]byte(before), usual, tune.MergeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := string(m.Text)
			if len(m.Kept) > 0 {
				got += "# kept\n# " + strings.Join(m.Kept, "\n# ") + "\n"
			}
			if *update {
				a.Files = []txtar.File{a.Files[0], {Name: "after.toml", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(a.Files[1].Data), got); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			again, err := tune.Merge(m.Text, usual, tune.MergeOptions{})
			if err != nil || again.Changes > 0 || string(again.Text) != string(m.Text) {
				t.Errorf("merged once more: %d changes, %v:\n%s", again.Changes, err, again.Text)
			}
		})
	}
}
