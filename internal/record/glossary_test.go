package record_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
)

// TestGlossaryNamesEveryReason: each reason for which the code declines a candidate, and each cause for
// which a prefetch is wasted, has words, and there are words for nothing else.
func TestGlossaryNamesEveryReason(t *testing.T) {
	reasons := append(constantsOf(t, "../enrich", "Reason"), constantsOf(t, "../dedup", "Refusal")...)
	causes := constantsOf(t, "../dedup", "cause")
	causes = slices.DeleteFunc(causes, func(s string) bool { return s == "consumed" || s == "compared" }) // not wasted
	for _, test := range []struct {
		what      string
		have, has []string
	}{
		{"reasons", append(reasons, "(other)"), slices.Collect(maps.Keys(record.Glossary().Reasons))},
		{"causes", causes, slices.Collect(maps.Keys(record.Glossary().Causes))},
	} {
		slices.Sort(test.have)
		if diff := cmp.Diff(slices.Compact(test.have), slices.Sorted(slices.Values(test.has))); diff != "" {
			t.Errorf("%s (-in the code +in glossary.json):\n%s", test.what, diff)
		}
	}
}

// constantsOf returns the values of a package's constants of a string type.
func constantsOf(t *testing.T, dir, typ string) (values []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ && len(spec.Values) == 1 {
				if value, ok := spec.Values[0].(*ast.BasicLit); ok {
					text, err := strconv.Unquote(value.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, text)
				}
			}
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("no constants of the type %s in %s", typ, dir)
	}
	return values
}
