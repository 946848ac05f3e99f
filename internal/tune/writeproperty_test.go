package tune_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"pgregory.net/rapid"

	"mcpschedd/internal/tune"
)

// tools are those that configurations and layers are about.
var tools = []string{"github/list_issues", "github/get_issue", "wiki/search", "ünï/cö\"dé", "lone"}

// key spells a key in one of the ways in which it can be.
func spell(t *rapid.T, key string) string {
	bare := regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(key)
	switch {
	case bare && rapid.Bool().Draw(t, "bare"):
		return key
	case !strings.ContainsAny(key, "'") && rapid.Bool().Draw(t, "literal"):
		return "'" + key + "'"
	}
	return toml.Key{key + " "}.String()[:len(toml.Key{key + " "}.String())-2] + `"` // always quoted
}

// written is a random configuration: the blocks of some tools in random shapes, with
// comments and blank lines all over.
func written(t *rapid.T) string {
	var top, rest []string
	noise := func() string {
		return rapid.SampledFrom([]string{"", "", "# a remark\n", "\n", "\n# about what follows\n", "#[tools.x]\n#speculate = true\n"}).Draw(t, "noise")
	}
	behind := func() string { return rapid.SampledFrom([]string{"", "", " # mine", "\t#"}).Draw(t, "behind") }
	pairs := func(prefix string, brace bool) []string {
		var all []string
		for _, kv := range [][2]string{
			{"speculate", "true"}, {"value_class", `"critical"`}, {"fail_fast_after_n", "3"},
			{"cost_model.typical_kb", "9.5"}, {"cost_model.max_kb", "40"},
		} {
			if rapid.IntRange(0, 3).Draw(t, kv[0]) == 0 {
				all = append(all, prefix+kv[0]+" = "+kv[1])
			}
		}
		list := func(key string, items []string) {
			if rapid.IntRange(0, 2).Draw(t, key) > 0 {
				return
			}
			n := rapid.IntRange(0, len(items)).Draw(t, "n")
			open, between, end := "[", ", ", "]"
			if !brace && rapid.Bool().Draw(t, "lines") {
				open, between, end = "[\n  # list\n  ", ", # one\n  ", "\n  # end\n]"
				if n > 0 && rapid.Bool().Draw(t, "trailing") {
					end = " , # last" + end
				}
			} else if n > 0 && rapid.Bool().Draw(t, "trailing comma") {
				end = ",]"
			}
			all = append(all, prefix+key+" = "+open+strings.Join(items[:n], between)+end)
		}
		list("invalidates", []string{`"search"`, `{ tool = 'get_issue', match = ["n"] }`})
		list("follow_up", []string{`{tool="get_issue",probability=0.9}`, `{ tool = "get_issue", args = { n = "$args.n" }, max = 1 }`})
		return all
	}
	for _, tool := range tools {
		name := spell(t, tool)
		switch rapid.IntRange(0, 6).Draw(t, "shape") {
		case 0: // none
		case 1: // dotted, in the root
			for _, p := range pairs("tools."+name+".", false) {
				top = append(top, noise()+p+behind())
			}
		case 2: // in braces, in the root
			top = append(top, noise()+"tools."+name+" = {"+strings.Join(pairs("", true), ", ")+"}"+behind())
		case 3, 4: // a header
			rest = append(rest, noise()+"[tools."+name+"]"+behind())
			indent := rapid.SampledFrom([]string{"", "  ", "\t"}).Draw(t, "indent")
			for _, p := range pairs("", false) {
				rest = append(rest, noise()+indent+p+behind())
			}
		case 5: // headers of what is inside
			rest = append(rest, noise()+"[tools."+name+".cost_model]"+behind(), "max_kb = 40"+behind())
			if rapid.Bool().Draw(t, "itself") {
				rest = append(rest, "[ tools . "+name+" ]", "speculate = true")
			}
		case 6: // arrays of tables
			for i := range rapid.IntRange(1, 2).Draw(t, "tables") {
				rest = append(rest, noise()+"[[tools."+name+".follow_up]]"+behind(), fmt.Sprintf("tool = \"t%d\"", i)+behind())
				if rapid.Bool().Draw(t, "args") {
					rest = append(rest, "[tools."+name+".follow_up.args]", `n = "$args.n"`)
				}
			}
			if rapid.Bool().Draw(t, "both") {
				rest = append(rest, "[[tools."+name+".invalidates]]", `tool = "search"`)
			}
		}
	}
	if rapid.Bool().Draw(t, "enrichment") {
		rest = append(rest, "[enrichment]", `mode = "on" # yes`)
	}
	text := strings.Join(append(top, rest...), "\n") + rapid.SampledFrom([]string{"", "\n", "\n\n# the end", "\n# the end\n"}).Draw(t, "end")
	if rapid.Bool().Draw(t, "crlf") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if rapid.Bool().Draw(t, "bom") {
		text = "\ufeff" + text
	}
	return text
}

// proposals is a random layer; version tells two of them apart that say other things
// of the same.
func proposals(t *rapid.T, version int) tune.Layer {
	var l tune.Layer
	some := func(tool string, lines ...tune.Line) {
		b := tune.Block{Tool: tool}
		for _, line := range lines {
			if rapid.Bool().Draw(t, tool+line.Key) {
				line.Evidence = fmt.Sprintf("n=%d \n[x] # \x1b\u2028", version)
				line.Advice = rapid.IntRange(0, 3).Draw(t, "advice") == 0
				b.Lines = append(b.Lines, line)
			}
		}
		if len(b.Lines) > 0 {
			l.Blocks = append(l.Blocks, b)
		}
	}
	few := rapid.SliceOfNDistinct(rapid.SampledFrom(tools), 1, 3, rapid.ID[string]).Draw(t, "tools")
	for _, tool := range few {
		some(tool,
			tune.Line{Key: "speculate", Value: "false"},
			tune.Line{Key: "fail_fast_after_n", Value: fmt.Sprint(5 + version)},
			tune.Line{Key: "cost_model.typical_kb", Value: fmt.Sprintf("%d.5", version)},
			tune.Line{Key: "cost_model.latency_ms_p50", Value: fmt.Sprint(100 * version)},
			tune.Line{Key: "follow_up", Value: fmt.Sprintf(`{ tool = "get_issue", probability = 0.%d, args = { n = "$result.items[*].n" }, max = 3 }`, version)},
			tune.Line{Key: "follow_up", Value: fmt.Sprintf(`{ tool = "t0", probability = 0.%d }`, version)},
			tune.Line{Key: "invalidates", Value: `"other/x"`},
			tune.Line{Key: "invalidates", Value: `{ tool = "y", match = ["a", "b"] }`},
		)
	}
	some("", tune.Line{Key: "mode", Value: `"shadow"`}, tune.Line{Key: "max_age", Value: fmt.Sprintf(`"%ds"`, version)})
	return l
}

// parsed is what a file says.
func parsed(t *rapid.T, text []byte) map[string]any {
	tree := map[string]any{}
	if _, err := toml.Decode(strings.TrimPrefix(string(text), "\ufeff"), &tree); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return tree
}

// keeps fails unless all that was said is still said, lists only being longer.
func keeps(t *rapid.T, path string, was, is any) {
	switch was := was.(type) {
	case map[string]any:
		now, ok := is.(map[string]any)
		if !ok {
			t.Fatalf("%s: was a table, is %v", path, is)
		}
		for key, v := range was {
			keeps(t, path+"."+key, v, now[key])
		}
	case []any, []map[string]any:
		old, now := reflect.ValueOf(was), reflect.ValueOf(is)
		if !now.IsValid() || now.Kind() != reflect.Slice || now.Len() < old.Len() {
			t.Fatalf("%s: was %v, is %v", path, was, is)
		}
		for i := range old.Len() {
			keeps(t, fmt.Sprint(path, "[", i, "]"), old.Index(i).Interface(), now.Index(i).Interface())
		}
	default:
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%s: was %v, is %v", path, was, is)
		}
	}
}

// subsequence reports whether text holds all bytes of part, in their order.
func subsequence(part, text []byte) bool {
	for _, c := range text {
		if len(part) > 0 && part[0] == c {
			part = part[1:]
		}
	}
	return len(part) == 0
}

func merge(t *rapid.T, text []byte, l tune.Layer) tune.Merged {
	m, err := tune.Merge(text, l, tune.MergeOptions{})
	if err != nil {
		t.Fatalf("%v, merging %+v into:\n%s", err, l.Blocks, text)
	}
	return m
}

// says is what a file says of a proposal: the value of its key, or whether its list
// has the element.
func says(tree map[string]any, tool string, line tune.Line) (have, want any) {
	x := map[string]any{}
	if _, err := toml.Decode("x = "+line.Value, &x); err != nil {
		panic(err)
	}
	at := any(tree)
	path := []string{"enrichment"}
	if tool != "" {
		path = []string{"tools", tool}
	}
	for _, part := range append(path, strings.Split(line.Key, ".")...) {
		table, _ := at.(map[string]any)
		at = table[part]
	}
	if line.Key == "follow_up" || line.Key == "invalidates" {
		list := reflect.ValueOf(at)
		for i := 0; at != nil && i < list.Len(); i++ {
			e := list.Index(i).Interface()
			if name, ok := x["x"].(string); ok && reflect.DeepEqual(e, map[string]any{"tool": name}) {
				return name, name // as a table
			}
			if reflect.DeepEqual(e, x["x"]) {
				return e, e
			}
		}
		return nil, x["x"]
	}
	return at, x["x"]
}

// TestMergeKeepsWhatIsThere merges layers into configurations in all their shapes.
func TestMergeKeepsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := []byte(written(t))
		was := parsed(t, before)
		l := proposals(t, 1)
		m := merge(t, before, l)
		is := parsed(t, m.Text)
		keeps(t, "", was, is)
		if !subsequence(before, m.Text) {
			t.Fatalf("not all of\n%s\nis in\n%s", before, m.Text)
		}
		for line := range strings.Lines(string(before)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") && !strings.Contains(string(m.Text), line) {
				t.Fatalf("comment %q is gone from\n%s", line, m.Text)
			}
		}
		if strings.Contains(string(before), "\r\n") && strings.Contains(strings.ReplaceAll(string(m.Text), "\r\n", ""), "\n") {
			t.Fatalf("line ends of two kinds: %q", m.Text)
		}
		missing := 0
		for _, b := range l.Blocks {
			for _, line := range b.Lines {
				have, want := says(is, b.Tool, line)
				old, _ := says(was, b.Tool, line)
				switch {
				case line.Advice && old == nil && have != nil && !reflect.DeepEqual(have, old):
					t.Fatalf("advice %v of %s has become a setting:\n%s", line, b.Tool, m.Text)
				case !line.Advice && !reflect.DeepEqual(have, want):
					missing++
				}
			}
		}
		if missing != len(m.Kept) {
			t.Fatalf("%d proposals are not in the file, %d are said to give way: %q\n%s", missing, len(m.Kept), m.Kept, m.Text)
		}
		if again := merge(t, m.Text, l); again.Changes > 0 || string(again.Text) != string(m.Text) {
			t.Fatalf("merged once more:\n%s\nbefore:\n%s", again.Text, m.Text)
		}
	})
}

// TestMergeBringsUpToDate merges a layer over an earlier one: what the earlier one set
// is replaced, what the user set is not.
func TestMergeBringsUpToDate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := []byte(written(t))
		was := parsed(t, before)
		first := merge(t, before, proposals(t, 1))
		l := proposals(t, 2)
		m := merge(t, first.Text, l)
		is := parsed(t, m.Text)
		keeps(t, "", was, is)
		direct := merge(t, before, l)
		for _, b := range l.Blocks {
			for _, line := range b.Lines {
				have, want := says(is, b.Tool, line)
				by, _ := says(parsed(t, direct.Text), b.Tool, line)
				if !line.Advice && reflect.DeepEqual(by, want) && !reflect.DeepEqual(have, want) {
					t.Fatalf("%s %s: have %v, want %v in\n%s\nkept: %q", b.Tool, line.Key, have, want, m.Text, m.Kept)
				}
			}
		}
		if again := merge(t, m.Text, l); again.Changes > 0 {
			t.Fatalf("merged once more:\n%s\nbefore:\n%s", again.Text, m.Text)
		}
	})
}
