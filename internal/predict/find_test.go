package predict_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

func path(t testing.TB, binding string) []valuemodel.Step {
	t.Helper()
	b, err := valuemodel.ParseBinding(binding)
	if err != nil {
		t.Fatal(err)
	}
	return b.Path
}

// The number of values is bounded even for expensive documents.
func TestFindIsBounded(t *testing.T) {
	nested := func(open, shut string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) }
	wide := "[" + strings.TrimSuffix(strings.Repeat(`{"a":[{"a":[{"a":1},{"a":2}]}]},`, 3000), ",") + "]"
	tests := []struct{ name, binding, document string }{
		{"deep arrays", "$result..a", nested("[", "]", 9000)},
		{"deep objects, several times over", "$result..a..a..a..a", nested(`{"a":`, "}", 9000)},
		{"a long list", "$result[*]", "[" + strings.Repeat("1,", 100000) + "1]"},
		{"lists in lists", "$result[*].a[*].a[*].a", wide},
		{"lists in lists, anywhere", "$result..a..a..a", wide},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, _ := predict.Find([]byte(test.document), path(t, test.binding))
			if len(found) > predict.MaxFound {
				t.Errorf("found %d, want at most %d", len(found), predict.MaxFound)
			}
		})
	}
}

// find returns the same values, in the same order, as a simple evaluator without bounds.
func FuzzFind(f *testing.F) {
	for _, s := range [][2]string{
		{"$result.items[*].number", `{"items":[{"number":1},{"number":"2"},{"x":null},{"number":null}]}`},
		{"$result..a", `{"a":{"a":1,"b":[{"a":2},[[{"a":3}]]]},"c":{"a":[4]}}`},
		{"$result..a[*]..b", `[{"a":[{"b":1},{"b":{"b":2}}]}]`},
		{"$result[1].x", `[0,{"x":1e400},2]`},
		{`$result["odd.name"][0]`, `{"odd.name":["\ud800"]}`},
		{"$result", `9007199254740993`},
		{"$result", "0\v"}, // no white space of JSON
		{"$result..a", `{"a":1,"a":2,"\u0061":3}`},
	} {
		f.Add(s[0], []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, binding string, document []byte) {
		b, err := valuemodel.ParseBinding(binding)
		if err != nil || b.From != valuemodel.Result || len(document) == 0 {
			return
		}
		found, cut := predict.Find(document, b.Path) // must not panic, even if the document is invalid
		document = bytes.Trim(document, " \t\r\n")
		if !jsonrpc.Valid(document) {
			return
		}
		if cut {
			return
		}
		root, ok := parse(document)
		if !ok {
			return
		}
		var want []string
		for _, n := range root.find(b.Path) {
			if s := n.text; s != "null" && s != `""` && len(s) <= 8<<10 {
				want = append(want, s)
			}
		}
		for i := range found {
			found[i] = compact(found[i])
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s of %s: got %v, want %v", binding, document, found, want)
		}
	})
}

// node is a JSON value in the simple evaluator.
type node struct {
	text     string // compact
	object   bool
	names    []string
	children []node
}

func compact(s string) string {
	var out bytes.Buffer
	if json.Compact(&out, []byte(s)) != nil {
		return s
	}
	return out.String()
}

func parse(document []byte) (node, bool) {
	n := node{text: compact(string(document))}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	begin, err := d.Token()
	if err != nil {
		return n, false
	}
	n.object = begin == json.Delim('{')
	if !n.object && begin != json.Delim('[') {
		return n, true
	}
	for d.More() {
		if n.object {
			name, err := d.Token()
			if err != nil {
				return n, false
			}
			n.names = append(n.names, fmt.Sprint(name))
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return n, false
		}
		child, ok := parse(raw)
		if !ok {
			return n, false
		}
		n.children = append(n.children, child)
	}
	return n, true
}

func (n node) find(path []valuemodel.Step) []node {
	if len(path) == 0 {
		return []node{n}
	}
	var out []node
	for i, child := range n.children {
		switch s := path[0]; {
		case s.Deep:
			if n.object && n.names[i] == s.Name {
				out = append(out, child.find(path[1:])...)
			}
			out = append(out, child.find(path)...)
		case s.Name != "":
			if n.object && n.names[i] == s.Name {
				return child.find(path[1:])
			}
		case !n.object && (s.All || s.Index == i):
			out = append(out, child.find(path[1:])...)
		}
	}
	return out
}
