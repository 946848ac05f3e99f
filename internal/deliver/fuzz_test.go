package deliver_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
)

var results = []string{
	shown, `{"content":[]}`, `{ "content" : [ ] , "x":1e400 }`, `{}`, `null`, `[]`,
	`{"c\u006fntent":[1,"]",{"a":[]}],"_meta":{"]":"}"}}`,
	`{"content":[{"type":"text","text":"\"]}\\"}],"isError":false,"resultType":"complete"}`,
	`{"content":[],"content":[]}`,
}

func FuzzHint(f *testing.F) {
	for _, result := range results {
		f.Add([]byte(result), "Read(a]\nb)")
	}
	f.Fuzz(func(t *testing.T, result []byte, name string) {
		if !jsonrpc.Valid(result) {
			return
		}
		out := deliver.Hint(result, []string{deliver.Name(name, nil), deliver.Name("Read", []byte("{}"))})
		onlyAdded(t, result, out)
		if !bytes.Equal(out, result) && !deliver.Plain(result) {
			t.Errorf("%s became %s", result, out)
		}
	})
}

func FuzzInline(f *testing.F) {
	for _, result := range results {
		f.Add([]byte(result), answer(`{"url":1,"a":[{"b_url":2}]}`, "text"), `{"a":"x"}`, 50, "url")
	}
	model := groups(map[string][]string{"-debug": {"url", "*_url"}})
	model.Cost.MaxKB = 0.1
	f.Fuzz(func(t *testing.T, result, added []byte, arguments string, budget int, keyword string) {
		if !jsonrpc.Valid(result) || !jsonrpc.Valid(added) || !jsonrpc.Valid([]byte(arguments)) || arguments[0] != '{' || strings.Contains(arguments, "\n") {
			return
		}
		add := []deliver.Addition{{"one", arguments, added, model}, {"two", arguments, added, nil}}
		out, which := deliver.Inline(result, add, budget, []string{keyword})
		onlyAdded(t, result, out)
		if len(which) == 0 {
			if !bytes.Equal(out, result) {
				t.Errorf("nothing added, and %s became %s", result, out)
			}
			return
		}
		sum := 0
		for block := range jsonrpc.Elements(jsonrpc.Get(out, "content")) {
			inlined := jsonrpc.Get(jsonrpc.Get(block, "_meta"), "mcpschedd/inlined")
			text, _ := jsonrpc.String(jsonrpc.Get(block, "text"))
			if inlined != nil && strings.Contains(string(jsonrpc.Get(inlined, "tool")), "o") {
				sum += deliver.Tokens([]byte(text))
			}
		}
		if sum > budget && !strings.Contains(string(result), "mcpschedd") {
			t.Errorf("got %d tokens, want at most %d", sum, budget)
		}
	})
}

// onlyAdded checks that out is result with blocks appended to its content.
func onlyAdded(t *testing.T, result, out []byte) {
	t.Helper()
	if bytes.Equal(result, out) {
		return
	}
	if !jsonrpc.Valid(out) {
		t.Fatalf("%s became %s, which is no JSON", result, out)
	}
	rest := func(of []byte) (all []string) {
		for m := range jsonrpc.Members(of) {
			if string(m.Name) != "content" {
				all = append(all, string(m.Raw))
			}
		}
		return all
	}
	if diff := cmp.Diff(rest(result), rest(out)); diff != "" {
		t.Fatalf("%s became %s (-want +got):\n%s", result, out, diff)
	}
	before, after := jsonrpc.Get(result, "content"), jsonrpc.Get(out, "content")
	var old, now [][]byte
	for e := range jsonrpc.Elements(before) {
		old = append(old, e)
	}
	for e := range jsonrpc.Elements(after) {
		now = append(now, e)
	}
	if len(now) <= len(old) {
		t.Fatalf("%s became %s, without another block", result, out)
	}
	for i, e := range old {
		if !bytes.Equal(e, now[i]) {
			t.Errorf("block %d: %s became %s", i, e, now[i])
		}
	}
}

// Trimming removes the same fields as trimming the decoded value would, and keeps the bytes of the
// rest.
func FuzzTrim(f *testing.F) {
	for _, text := range []string{
		`{"url":1,"a":[{"b_url":2,"c":{"user":{"id":1,"x":2}}}]}`,
		"[ {\"url\" : [ ] , \"a\" : 1.0 } , [[ ]] ]", `{"user":{"id":{"id":1}},"id":2}`, `"url"`, `{"ur\u006c":"]}"}`,
	} {
		f.Add(text)
	}
	model := groups(map[string][]string{"-out": {"url", "*_url"}, "+in": {"my_url"}})
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		got, dropped := trimmed(t, text, model, nil)
		if !jsonrpc.Valid([]byte(text)) {
			if got != text {
				t.Errorf("%q is no JSON, and became %q", text, got)
			}
			return
		}
		if len(dropped) == 0 && got != text {
			t.Errorf("no field was omitted, and %q became %q", text, got)
		}
		want := without(decoded(t, text), 32)
		if diff := cmp.Diff(want, decoded(t, got)); diff != "" {
			t.Errorf("%s became %s (-want +got)\n%s", text, got, diff)
		}
		if !subsequence(got, text) {
			t.Errorf("%s became %s, which is not a subsequence of it", text, got)
		}
	})
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// without removes the fields that Trim must omit, in the model of FuzzTrim.
func without(v any, levels int) any {
	if levels == 0 {
		return v
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = without(v[i], levels-1)
		}
	case map[string]any:
		for name, member := range v {
			if name == "url" || strings.HasSuffix(name, "_url") && name != "my_url" {
				delete(v, name)
				continue
			}
			v[name] = without(member, levels-1)
		}
	}
	return v
}

// subsequence reports whether part is a subsequence of what.
func subsequence(part, what string) bool {
	for i := range len(part) {
		at := strings.IndexByte(what, part[i])
		if at < 0 {
			return false
		}
		what = what[at+1:]
	}
	return true
}
