package plan_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/plan"
)

// FuzzParse checks that any input yields either a plan that can run or defects.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{
		guideComparison, guideSummary, guideErrors, `{}`, `{"steps":[]}`, `[]`, `{"steps":[{"id":"a","tool":"a"}],"output_steps":["a"]}`,
		steps(`{"id":"x","tool":"list"}`, `{"id":"y","tool":"get_issue","for_each":{"$ref":"x#/items"},"arguments":{"number":{"$ref":"item#/number"}},"max_items":3}`),
		steps(`{"id":"x","tool":"create_issue"}`, `{"id":"y","tool":"get_issue","arguments":{"number":"$ref:x.n"},"when":{"ref":"$ref:x","op":"exists"}}`),
		steps(`{"id":"x","tool":"a","depends_on":["y"]}`, `{"id":"y","tool":"a","depends_on":["x"],"on_error":"default","default":{"a":[1]}}`),
		steps(`{"id":"w","tool":"create_issue","arguments":{"a":{"$ref":"r.token"},"b":"x ${r#/y}","${r#":{"$ref":"#/r","default":1}}}`, `{"id":"r","tool":"get_issue"}`),
		steps(`{"id":"w","tool":"create_issue","arguments":{"a":"$ref:v"}}`, `{"id":"v","tool":"create_issue"}`, `{"id":"r","tool":"get_issue","arguments":{"number":1}}`),
		steps(`{"id":"x","tool":"shell","arguments":{"command":"ls"},"optional":true,"value":1e9,"timeout":"5s","retry":2}`),
	} {
		f.Add([]byte(raw), true)
		f.Add([]byte(raw), false)
	}
	o := parsing(f)
	f.Fuzz(func(t *testing.T, raw []byte, params bool) {
		o := o
		if params {
			o.Params = []byte(`{"x":[1],"y":null}`)
		}
		before := bytes.Clone(raw)
		p, defects := plan.Parse(raw, o)
		if !bytes.Equal(raw, before) {
			t.Error("the plan was changed")
		}
		if (p == nil) != (len(defects) > 0) {
			t.Fatalf("got plan %v, defects %v", p, defects)
		}
		if text := defects.Error(); p == nil && strings.Count(text, "\n") != min(len(defects), 51) {
			t.Errorf("got %q of %d defects", text, len(defects))
		}
		if p != nil {
			well(t, p)
			expected(t, p, o.Limits)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	o := parsing(b)
	for _, n := range []int{3, 100} {
		var each []string
		for i := range n {
			refs := ""
			if i > 2 {
				refs = fmt.Sprintf(`,"a":"$ref:s%d.items.0.number","b":{"$ref":"s%d#/total"}`, i-1-i%2, i-2-i%2)
			}
			if i%5 == 3 {
				refs = ""
			}
			each = append(each, fmt.Sprintf(`{"id":"s%d","tool":"list","arguments":{"query":"is:open number %d","limit":10%s}}`, i, i, refs))
		}
		raw := []byte(steps(each...))
		o.Depth = 0
		b.Run(fmt.Sprintf("steps=%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, defects := plan.Parse(raw, o); len(defects) > 0 {
					b.Fatal(defects)
				}
			}
		})
	}
	writes := []byte(steps(strings.Split(strings.Repeat(`{"id":"w%","tool":"create_issue"};`, 100), ";")[:100]...))
	for i := range 100 {
		writes = bytes.Replace(writes, []byte("%"), fmt.Append(nil, i), 1)
	}
	b.Run("writes=100", func(b *testing.B) {
		for b.Loop() {
			if _, defects := plan.Parse(writes, o); len(defects) > 0 {
				b.Fatal(defects)
			}
		}
	})
}

// BenchmarkNearest parses a plan of unknown tools, with ten thousand known names.
func BenchmarkNearest(b *testing.B) {
	o := parsing(b)
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("server%d__get_%c_thing_%d", i%40, 'a'+i%26, i))
	}
	o.Names = func() []string { return names }
	var each []string
	for i := range 100 {
		each = append(each, fmt.Sprintf(`{"id":"s%d","tool":"servre%d__gte_a_thing_%d"}`, i, i, i*100))
	}
	raw := []byte(steps(each...))
	for b.Loop() {
		if _, defects := plan.Parse(raw, o); len(defects) != 100 {
			b.Fatal(len(defects))
		}
	}
}
