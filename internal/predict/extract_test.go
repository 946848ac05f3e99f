package predict_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
)

func TestExtract(t *testing.T) {
	tests := []struct {
		name, result, path string
		want               []string
	}{
		{"members", `{"a":{"b":"x"}}`, "$.a.b", []string{"x"}},
		{"lists keep their order, each value once", `[{"id":3},{"id":1},{"id":3}]`, "$[*].id", []string{"3", "1"}},
		{"each value once, whatever other lists it is in", `{"a":"x","b":"x","c":"x","d":"x","e":"x","f":"x","g":["x","x","y"]}`, "$.g[*]", []string{"x", "y"}},
		{"members named like keys", `{"HAT001":{"n":1},"HAT002":{"n":2}}`, "$.{key}", []string{"HAT001", "HAT002"}},
		{"below members named like keys", `{"HAT001":{"n":1},"HAT002":{"n":2}}`, "$.*.n", []string{"1", "2"}},
		{"numbers as written", `[9007199254740993,1.50]`, "$[*]", []string{"9007199254740993", "1.50"}},
		{"escapes", `["a\"bé\n"]`, "$[*]", []string{"a\"bé\n"}},
		{"cut off", `[{"id":"a"},{"id":"b"},{"i`, "$[*].id", []string{"a", "b"}},
		{"cut off in a number", `{"a":{"n":[1,2,34`, "$.a.n[*]", []string{"1", "2"}},
		{"cut off in an escape", `{"a":"x","b":["\`, "$.a", []string{"x"}},
		{"as Python prints it", `{'a': ['it\'s', "it's", 'a "b"'], 'n': None, 'ok': True}`, "$.a[*]", []string{"it's", `a "b"`}},
		{"rows as Python prints them, cut off", `[{'id': 1, 'is': False}, {'id': 2, 'i`, "$[*].id", []string{"1", "2"}},
		{"text after what Python prints", `['a', 'b'] are in src/a.go`, "#path", []string{"src/a.go"}},
		{"JSON after a heading", "Backend metadata:\n\n{\n  \"tables\": [{\"name\": \"a\"}, {\"name\": \"b\"}]\n}", "$.tables[*].name", []string{"a", "b"}},
		{"the heading", "Files in src/x.go:\n[{\"n\": 1}]", "#path", []string{"src/x.go"}},
		{"JSON before a remark", "[{\"id\": 12}]\n\nSee src/a.go", "$[*].id", []string{"12"}},
		{"the remark", "[{\"id\": 12}]\n\nSee src/a.go", "#path", []string{"src/a.go"}},
		{"JSON after a heading, cut off", "Rows:\n[{\"id\": \"a\"}, {\"id\": \"b", "$[*].id", []string{"a"}},
		{"several objects", "{\"id\": \"a\"}\n{\"id\": \"b\"}\n\n{\"id\": \"c\"}", "$[*].id", []string{"a", "b", "c"}},
		{"JSON after a log line", "[INFO] connected\n{\"id\": \"a\"}", "$.id", []string{"a"}},
		{"a reference", "[1] first\n{\"id\": \"a\"}", "$.id", nil},
		{"JSON in a line", "found {\"id\": \"a\"}", "$.id", nil},
		{"neither JSON nor Python", `[see below] {'a': 'b'}`, "$.a", nil},
		{"lines", "src/a.go\nsrc/b.go\n", "#line", []string{"src/a.go", "src/b.go"}},
		{"grep", "src/a.go:12:func x()\nsrc/a.go:30:y\nb.go:1:z", "#grep", []string{"src/a.go", "b.go"}},
		{"numbered lines", "    1→see docs/x.md\n    2\tand b.md", "#path", []string{"docs/x.md", "b.md"}},
		{"listing", "[DIR] sub\n[FILE] a b.txt", "#entry", []string{"sub", "a b.txt"}},
		{"tree", "├── cmd/\n│   └── main.go", "#entry", []string{"cmd", "main.go"}},
		{"list with remarks", "Found 2:\n- sales (Project: p)\n- parts (none)", "#entry", []string{"sales", "parts"}},
		{"identifiers", "ENT-258 fixes #42", "#id", []string{"ENT-258", "42"}},
		{"hashes", "commit 4cd45ea", "#id", []string{"4cd45ea"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := predict.Extract([]byte(test.result), nil).List(test.path)
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("%s: %s", test.path, d)
			}
		})
	}
}

// Wherever a result is cut off, its values are the first ones of the whole.
func TestCutOffAnywhere(t *testing.T) {
	for _, whole := range []string{
		`{"n":10,"items":[{"id":-2.5e3,"tags":["a,b","]}'"]},{"id":"\\\"é","tags":[]},{"id":123}],"last":true}`,
		`{'n': 10, 'items': [{'id': 1.5, 'tags': ['it\'s "b"', "]}'"]}, {'id': None}, {'id': '\\', 'tags': []}, {'id': 123}]}`,
	} {
		all := predict.Extract([]byte(whole), nil)
		for cut := range len(whole) {
			some := predict.Extract([]byte(whole[:cut]), nil)
			for _, path := range []string{"$.n", "$.items[*].id", "$.items[*].tags[*]"} {
				got, want := some.List(path), all.List(path)
				if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
					t.Errorf("%s: %s: got %q, want the first of %q", whole[:cut], path, got, want)
				}
			}
			if cut == len(whole)-1 && some.Len() != all.Len() {
				t.Errorf("%s: got %d values, want %d", whole[:cut], some.Len(), all.Len())
			}
		}
	}
}

// hostile returns results that are not too long to be read.
func hostile() map[string]string {
	all := map[string]string{
		"deep":        strings.Repeat(`[{"a":`, 50_000),
		"one line":    strings.Repeat("x/y.go ", 10<<20/7),
		"one word":    strings.Repeat("a/", 5<<20),
		"quotes":      strings.Repeat(`"`, 1<<20),
		"backslashes": `["` + strings.Repeat(`\`, 1<<20),
		"members":     "{" + strings.Repeat(`"a1":1,`, 1<<17),
		"number":      "[" + strings.Repeat("9", 1<<20) + "]",
		"no UTF-8":    strings.Repeat("\xff/\xfe.go\n", 1<<17),
		"new lines":   strings.Repeat("\n", 1<<20),
		"many":        "[" + strings.Repeat(`{"id":"abc"},`, 1<<17),
		"surrogates":  `[{"id":"\ud800"},{"id":"\udfff\ud800"},{"\ud83d":"\ud83d\ude00"}]`,
		"odd Unicode": "[\"\u202eabc\u2028\u0000\", \"e\u0301\u0301\u0301\", \"\ufeff\uffff\"]\x00\u2029/\u200d.go\n" + strings.Repeat("\u0301", 1<<16),
		"numbers":     `[{"n":1e999},{"n":-0},{"n":0.1e-9999},{"n":123456789012345678901234567890123456789012345},{"n":1E+0000000000000000000000000000000000000000000001}]`,
		"names":       "{" + strings.Repeat(`"`+strings.Repeat("n", 4000)+`":{`, 200),
		"texts":       strings.Repeat("{'a':1}\n", 1<<17),
	}
	for name, text := range all {
		all[name] = text[:min(len(text), predict.MaxRead)]
	}
	return all
}

// Allocations and values are bounded for every result.
func TestHostileResultsAreBounded(t *testing.T) {
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			content := []byte(text)
			if n := testing.AllocsPerRun(1, func() { predict.Extract(content, content) }); n > 200_000 {
				t.Errorf("got %.0f allocations", n)
			}
			if n := predict.Extract(content, content).Len(); n > 4096 {
				t.Errorf("got %d values", n)
			}
		})
	}
}

// Sessions with hostile results and hostile arguments make a bounded number of allocations and
// candidates, and a state of bounded size that can be loaded.
func TestHostileSessionsAreBounded(t *testing.T) {
	arguments := []string{
		`{}`, `{"a":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`,
		`{"path":"` + strings.Repeat("x/", 1<<20) + `"}`, `{"n":` + strings.Repeat("9", 1<<16) + `}`,
		`{"` + strings.Repeat("n", 60_000) + `":{"` + strings.Repeat("m", 3000) + `":1,"b":2,"c":3}}`,
		`{"id":"\ud800"}`, `{"` + strings.Repeat(`a":1,"`, 1000) + `b":2}`, `not JSON at all`, ``,
	}
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			m := learner(learning{Target: reads})
			play := func() {
				p := begin(t, m)
				for i, a := range arguments {
					p.s.Call(predict.Call{ID: uint64(2 * i), Turn: 2 * i, Tool: "list", Arguments: a, At: p.now})
					p.s.Result(predict.Result{ID: uint64(2 * i), Text: []byte(text), Structured: []byte(text), Size: len(text), At: p.now})
					if got := p.s.Candidates(p.now); len(got) > 256 {
						t.Fatalf("got %d candidates", len(got))
					}
					p.s.Call(predict.Call{ID: uint64(2*i + 1), Turn: 2*i + 1, Tool: strings.Repeat("get", 1+i*100), Arguments: a, At: p.now})
				}
				p.s.End()
			}
			if n := testing.AllocsPerRun(1, play); n > 2_000_000 {
				t.Errorf("got %.0f allocations for %d calls", n, 2*len(arguments))
			}
			kept, _ := m.Merge(predict.State{})
			if held := len(kept.Server) + len(kept.Values); held > 4<<20 {
				t.Errorf("got a state of %d bytes", held)
			}
			if _, err := model().Merge(kept); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzExtract(f *testing.F) {
	for _, s := range []string{`{"a":[1,"b",{"c":null}]}`, "a.go:1: x\n[FILE] y", "[a](b.md)", `["\ud800"]`} {
		f.Add(s, `{"id":"x"}`)
	}
	f.Fuzz(func(t *testing.T, result, arguments string) {
		canonical, ok := jsonrpc.AppendCanonical(nil, []byte(arguments))
		if !ok {
			t.Skip()
		}
		m := learner(learning{Target: reads})
		for range 3 {
			p := begin(t, m)
			p.call("list", string(canonical), result)
			for _, c := range p.s.Candidates(p.now) {
				again, ok := jsonrpc.AppendCanonical(nil, []byte(c.Key.Arguments))
				if !ok || string(again) != c.Key.Arguments {
					t.Fatalf("candidate %q is not canonical", c.Key.Arguments)
				}
			}
			p.call("get", string(canonical), result)
			p.s.End()
		}
	})
}
