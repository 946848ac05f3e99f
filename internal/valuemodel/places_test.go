package valuemodel_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/call"
	"mcpschedd/internal/valuemodel"
)

// narrow returns a rule by which the tool write changes only what its edges name.
func narrow(edges ...valuemodel.Edge) []valuemodel.Rule {
	return []valuemodel.Rule{rule("write", "c:1", valuemodel.Layer{Class: valuemodel.MutatesExternal, Invalidates: edges, InvalidatesOnly: yes})}
}

func hits(e call.Effect, reads []call.Place) bool {
	return slices.ContainsFunc(e.Places, func(p call.Place) bool { return slices.Contains(reads, p) })
}

func TestWritesHitTheReadersTheyMust(t *testing.T) {
	tests := []struct {
		name        string
		match       []string
		write, read string
		want        bool
	}{
		{"all of the tool's", nil, `{"id":1}`, `{"id":2}`, true},
		{"the same", []string{"id"}, `{"id":1}`, `{"id":1}`, true},
		{"another", []string{"id"}, `{"id":1}`, `{"id":2}`, false},
		{"one of two is another", []string{"owner", "id"}, `{"owner":"a","id":1}`, `{"owner":"b","id":1}`, false},
		{"both the same, in any order", []string{"owner", "id"}, `{"owner":"a","id":1}`, `{"id":1,"owner":"a"}`, true},
		{"swapped", []string{"owner", "id"}, `{"owner":"a","id":"b"}`, `{"owner":"b","id":"a"}`, false},
		{"run together", []string{"owner", "id"}, `{"id":"c","owner":"ab"}`, `{"id":"ca","owner":"b"}`, false},
		{"missing in the read", []string{"id"}, `{"id":1}`, `{}`, true},
		{"missing in the write", []string{"id"}, `{}`, `{"id":1}`, true},
		{"missing in both", []string{"id"}, `{}`, `{}`, true},
		{"null in the read", []string{"id"}, `{"id":1}`, `{"id":null}`, true},
		{"a list in the write", []string{"id"}, `{"id":[1]}`, `{"id":2}`, true},
		{"an object in the read", []string{"id"}, `{"id":1}`, `{"id":{"n":2}}`, true},
		{"half missing in the read", []string{"owner", "id"}, `{"owner":"a","id":1}`, `{"owner":"b"}`, true},
	}
	for _, tt := range tests {
		models, _ := valuemodel.Compile(narrow(valuemodel.Edge{Tool: "up/re?d", Match: tt.match}))
		u := valuemodel.Upstream{Name: "up"}
		effect := models.Resolve(u, "write", valuemodel.Hints{}).Writes(arguments(t, tt.write))
		u.Domain = "there.example" // so that the two tools have only the edge in common
		reads := models.Resolve(u, "read", valuemodel.Hints{}).Reads(arguments(t, tt.read))
		if got := hits(effect, reads); got != tt.want {
			t.Errorf("%s: invalidated: got %v, want %v", tt.name, got, tt.want)
		}
		if other := models.Resolve(valuemodel.Upstream{Name: "other", Domain: "there.example"}, "read", valuemodel.Hints{}); hits(effect, other.Reads(arguments(t, tt.read))) {
			t.Errorf("%s: a tool of another upstream was invalidated", tt.name)
		}
	}
}

func TestSpellingsOfOneValue(t *testing.T) {
	same := [][]string{
		{`42`, `42.0`, `4.2e1`, `4.2E+1`, `"42"`, `" 42 "`, `420e-1`, `"+42"`, `"042"`, `42.000`, `"./42"`},
		{`0`, `-0`, `0.0`, `0e9`, `"0"`},
		{`true`, `"true"`, `"TRUE"`},
		{`"Straße"`, `"STRAße"`}, {`"Kelvin"`, `"\u212aelvin"`}, {`"ſet"`, `"SET"`},
		{`"a/b"`, `"./a/b"`, `"a//b"`, `"a/b/"`, `"A\\b"`, `"a/./b"`, `"a/x/../b"`, `" a/b"`},
		{`""`, `"."`, `" "`, `"./"`},
		{`9007199254740993`, `"9007199254740993"`, `9007199254740993.0`},
		{`1e400`, `10e399`}, {`-5`, `"-5.0"`},
		{`"caf\u00e9"`, `"café"`, `"CAFÉ"`, `"cafe\u0301"`, `"caf%C3%A9"`, `"cafe%CC%81"`, `"ca\u200bfe\u200d\u0301"`},
		{`"a/c"`, `"a%2Fc"`, `"a%2fc"`, `"a%252Fc"`, `"a%25252Fc"`, `"a\uff05\uff12\uff26c"`, `"a\uff0fc"`, `"a%5Cc"`},
		{`"/z/y"`, `"file:///z/y"`, `"FILE:///z/y"`, `"file://localhost/z/y"`, `"file:/z/y"`, `"file:///z%2Fy"`},
		{`7`, `"#7"`, `"\uff17"`, `"\uff037"`, `"# 7"`, `"%37"`, `"7\u200b"`, `"\ufeff7"`},
	}
	apart := []string{
		`42`, `420`, `-42`, `"42a"`, `"a"`, `"a/b"`, `"ab"`, `true`, `false`, `9007199254740993`,
		`1e999999999`, `"0x2a"`, `"1e"`, `"e1"`, `"-"`, `"+-1"`, `"4 2"`, `".."`, `"1.2.3"`, `"%zz"`, `"50%"`, `"7#"`, `"file"`, `"a+b"`, `"a b"`,
	}
	models, _ := valuemodel.Compile(narrow(valuemodel.Edge{Tool: "read", Match: []string{"id"}}))
	u := valuemodel.Upstream{Name: "up"}
	write, read := models.Resolve(u, "write", valuemodel.Hints{}), models.Resolve(u, "read", valuemodel.Hints{})
	alike := func(a, b string) bool {
		return hits(write.Writes(arguments(t, `{"id":`+a+`}`)), read.Reads(arguments(t, `{"id":`+b+`}`)))
	}
	for _, group := range same {
		for _, a := range group {
			for _, b := range group {
				if !alike(a, b) {
					t.Errorf("%s and %s: got two values, want one", a, b)
				}
			}
		}
	}
	for i, a := range apart {
		for _, b := range apart[i+1:] {
			if alike(a, b) {
				t.Errorf("%s and %s: got one value, want two", a, b)
			}
		}
	}
}

// spellings draws one of the ways to write a value.
func spellings(t *rapid.T, value string, label string) string {
	switch rapid.IntRange(0, 9).Draw(t, label) {
	case 0:
		value = strings.ToUpper(value)
	case 1:
		value = "./" + value
	case 2:
		value += "/"
	case 3:
		value = " " + value + "\t"
	case 5:
		value = "#" + value
	case 6:
		value = fmt.Sprintf("%%%02x", value[0]) + value[1:]
	case 7:
		value = "\u200b" + value
	case 8:
		value = string(rune(value[0])+0xfee0) + value[1:] // a full-width character
	case 4:
		if strings.Trim(value, "0123456789") == "" {
			return strings.TrimLeft(value, "0") + "0e-1"
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A write with matching edges invalidates exactly the answers with equal values, in any spelling,
// or with values that are not known. If the write's own values are not known, it invalidates its
// whole domain and all answers of the tools that its edges name.
func TestPlacesAreSound(t *testing.T) {
	names := []string{"a", "b", "c"}
	value := rapid.StringMatching(`[1-9][0-9]{0,2}|[a-c]{1,2}`)
	rapid.Check(t, func(t *rapid.T) {
		match := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "match")
		pattern := rapid.SampledFrom([]string{"read", "up/read", "*", "re*", "*/read", "up/*"}).Draw(t, "pattern")
		models, _ := valuemodel.Compile(append(narrow(valuemodel.Edge{Tool: pattern, Match: match}),
			rule("noise", "c:2", valuemodel.Layer{Invalidates: []valuemodel.Edge{{Tool: "read", Match: []string{"a"}}, {Tool: "other"}}})))
		u := valuemodel.Upstream{Name: "up"}
		write := models.Resolve(u, "write", valuemodel.Hints{})
		u.Domain = "there.example" // so that the two tools have only the edge in common
		read := models.Resolve(u, "read", valuemodel.Hints{})

		theirs, ours := map[string]string{}, map[string]string{} // name → raw
		equal, wKnown, rKnown := true, true, true
		for _, name := range match {
			w, r := value.Draw(t, "write "+name), value.Draw(t, "read "+name)
			if rapid.Bool().Draw(t, "same "+name) {
				r = w
			}
			equal = equal && w == r
			theirs[name], ours[name] = spellings(t, w, "spelt"), spellings(t, r, "spelt")
			odd := rapid.SampledFrom([]string{"", "", "", "", "null", "[]", "{}", "gone"})
			if o := odd.Draw(t, "odd write"); o != "" {
				theirs[name], wKnown = o, false
			}
			if o := odd.Draw(t, "odd read"); o != "" {
				ours[name], rKnown = o, false
			}
		}
		args := func(m map[string]string) valuemodel.Arguments {
			return func(name string) []byte {
				if m[name] == "" || m[name] == "gone" {
					return nil
				}
				return []byte(m[name])
			}
		}
		effect, reads := write.Writes(args(theirs)), read.Reads(args(ours))
		if got, want := hits(effect, reads), equal || !wKnown || !rKnown; got != want {
			t.Fatalf("invalidated: got %v, want %v: write %v, read %v, edge %s %v", got, want, theirs, ours, pattern, match)
		}
		domain := slices.Contains(effect.Places, call.Place{Domain: "local"})
		if domain == wKnown {
			t.Fatalf("whole domain: %v, and its own arguments known: %v", domain, wKnown)
		}
		for _, p := range slices.Concat(effect.Places, reads) {
			if (p.Domain == "") == (p.Slot == 0) {
				t.Fatalf("got place %+v", p)
			}
		}
	})
}

func TestWritesChangeTheirDomainsUnlessNarrowed(t *testing.T) {
	remote := valuemodel.Upstream{Name: "up", URL: "https://a.example"}
	edge := valuemodel.Layer{Class: valuemodel.MutatesExternal, Invalidates: []valuemodel.Edge{{Tool: "x"}}}
	m := resolve(t, remote, "write", valuemodel.Hints{}, rule("*", "c:1", edge))
	e := m.Writes(unknown)
	if !slices.Contains(e.Places, call.Place{Domain: "a.example"}) || len(e.Places) != 2 || !e.Remote {
		t.Errorf("got %+v", e)
	}
	edge.InvalidatesOnly = yes
	narrowed := rule("*", "c:1", edge)
	if e := resolve(t, remote, "write", valuemodel.Hints{}, narrowed).Writes(unknown); len(e.Places) != 1 || e.Places[0].Slot == 0 {
		t.Errorf("narrowed: got %+v", e)
	}
	if e := resolve(t, remote, "", valuemodel.Hints{}, narrowed).Writes(unknown); !slices.Contains(e.Places, call.Place{Domain: "a.example"}) {
		t.Errorf("other requests of the upstream: got %+v", e)
	}
	if e := resolve(t, valuemodel.Upstream{Name: "up"}, "write", valuemodel.Hints{}).Writes(unknown); e.Remote || len(e.Places) != 1 {
		t.Errorf("a process: got %+v", e)
	}
}

// A write at one server invalidates reads at another server without a known provider, as the edges
// of all providers apply to it.
func TestEdgesOfEveryProviderAreCarried(t *testing.T) {
	models, _ := valuemodel.Compile(nil)
	write := models.Resolve(valuemodel.Upstream{Name: "a", Provider: "filesystem", Domain: "here"}, "move_file", valuemodel.Hints{})
	read := models.Resolve(valuemodel.Upstream{Name: "b", Domain: "there.example"}, "read_file", valuemodel.Hints{})
	if !hits(write.Writes(unknown), read.Reads(unknown)) {
		t.Error("not seen")
	}
}

// Reads does not allocate if no edge leads to the tool.
func TestReadsOfAToolNobodyNamesAllocatesNothing(t *testing.T) {
	m := resolve(t, valuemodel.Upstream{Name: "up"}, "t", valuemodel.Hints{})
	args := arguments(t, `{"id":1}`)
	if n := testing.AllocsPerRun(100, func() { m.Reads(args) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}
