package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/plan"
)

// A reference with a small mistake was sent to the tool unresolved, and a file contained
// "${a#/total}".
func TestSlipsAreDefects(t *testing.T) {
	const (
		aText   = `; {"$lit": "…"} leaves a text as it is`
		anObjct = `; {"$lit": {…}} leaves an object as it is`
	)
	object := func(wrote, step string) [2]string {
		return [2]string{`{"$ref":"` + wrote + `"}`, fmt.Sprintf(`%q: not a valid reference: want {"$ref": "%s#/json/pointer"}`, wrote, step) + anObjct}
	}
	const (
		within = `: a text with references in it is {"$tpl": "… ${a#/json/pointer} …"}, a value {"$ref": "a#/json/pointer"}` + aText
		whole  = `: a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}` + aText
	)
	for _, c := range [][2]string{
		object("a", "a"),
		object("a#total", "a"),
		object("a.x", "a"),
		object("a.items[0].n", "a"),
		object("a/x", "a"),
		object("a[0]", "a"),
		object("a#.x", "a"),
		object("a#/~2", "a"),
		object("#/a", "a"),
		object("#/a/x", "a"),
		object("/a/x", "a"),
		object("#/steps/a/x", "a"),
		object("steps.a.x", "a"),
		object("$.a.x", "a"),
		object("${a#/x}", "a"),
		object("later.x", "later"), // although that step was not parsed yet
		{`{"$ref":"a","default":1}`, `"a": not a valid reference: want {"$ref": "a#/json/pointer"}` + anObjct},
		{`{"$ref":"a#/x","title":"t"}`, `"a#/x": not a reference, because of the member "title": only "default" may be added` + anObjct},
		{`{"$ref":"$ref:a"}`, `"$ref:a": not a valid reference: want {"$ref": "step#/json/pointer"}` + anObjct},
		{`"$ref:a#/x"`, `"$ref:a#/x"` + whole},
		{`"$ref:a/x/0"`, `"$ref:a/x/0"` + whole},
		{`"id ${a#/total}"`, `"id ${a#/total}"` + within},
		{`"${a#/total}"`, `"${a#/total}"` + within},
		{`"\u0024{a#/total}"`, `"${a#/total}"` + within},
		{`"x ${a#}"`, `"x ${a#}"` + within},
		{`"x ${a#total}"`, `"x ${a#total}"` + within},
		{`"${HOME} ${b#x} ${a#/x}"`, `"${HOME} ${b#x} ${a#/x}"` + within},
		{`"${a#/x and on"`, `"${a#/x and on"` + within},
		{`"$${a#/x}"`, `"$${a#/x}"` + within},
		{`{"${a#/x}":1}`, `"${a#/x}": the name of a member cannot be a reference` + anObjct},
		{`[{"deep":["x",{"$ref":"a"}]}]`, `"a": not a valid reference: want {"$ref": "a#/json/pointer"}` + anObjct},
	} {
		p, defects := plan.Parse([]byte(steps(`{"id":"a","tool":"a"}`, `{"id":"put","tool":"a","arguments":{"text":`+c[0]+`}}`, `{"id":"later","tool":"a"}`)), parsing(t))
		if p != nil || len(defects) != 1 || defects[0].Message != c[1] || defects[0].Step != "put" || !strings.HasPrefix(defects[0].Pointer, "/steps/1/arguments/text") {
			t.Errorf("%s: got  %v\nwant %s", c[0], defects, c[1])
		}
	}
}

// A text that names no step of the plan is not a reference.
func TestSlipsOfOthersStay(t *testing.T) {
	for _, value := range []string{
		`{"$ref":"#/definitions/x"}`, `{"$ref":"#/$defs/a"}`, `{"$ref":"#"}`, `{"$ref":"https://example.com/a#/x"}`, `{"$ref":"common.json"}`,
		`{"$ref":"b"}`, `{"$ref":"b.x"}`, `{"$ref":"aa"}`, `{"$ref":"a-b"}`, `{"$ref":"a b"}`, `{"$ref":"a: b"}`, `{"$ref":"item"}`, `{"$ref":"params.x"}`,
		`{"$ref":"a","type":"string"}`, `{"$ref":["a"]}`, `{"$ref":""}`, `{"$ref":"$"}`, `{"$ref":"b#/x","title":1}`,
		`"${b#prefix}"`, `"${a}"`, `"${a%%x}"`, `"${a:-x}"`, `"${aa#x} ${#a} $a#"`, `"a#/x"`, `"${"`, `"${a"`, `"${item#x}"`, `"${params#x}"`, `"${#}"`,
		`{"$lit":"${a#/x}"}`, `{"$lit":{"$ref":"a"}}`, `{"a":{"$lit":{"$ref":"a.x"}}}`,
	} {
		p, defects := plan.Parse([]byte(steps(`{"id":"a","tool":"a"}`, `{"id":"put","tool":"a","arguments":{"x":`+value+`}}`)), parsing(t))
		switch {
		case p == nil:
			t.Errorf("%s: %v", value, defects)
		case p.Steps[1].Arguments.Constant() == nil:
			t.Errorf("%s: it is not left as it is", value)
		}
	}
}

// item, index and params are targets where they are defined.
func TestSlipsInScope(t *testing.T) {
	for name, wrong := range map[string]bool{"item": true, "index": true, "params": true, "other": false} {
		for _, value := range []string{`{"$ref":"` + name + `.x"}`, `"${` + name + `#/x}"`} {
			o := parsing(t)
			o.Params = []byte(`{"x":1}`)
			raw := steps(`{"id":"a","tool":"a"}`, `{"id":"each","tool":"a","for_each":{"$ref":"a#"},"arguments":{"v":`+value+`}}`)
			if _, defects := plan.Parse([]byte(raw), o); (len(defects) == 1) != wrong {
				t.Errorf("%s: got %v, want that it is wrong: %v", value, defects, wrong)
			}
		}
	}
	_, defects := plan.Parse([]byte(steps(`{"id":"a","tool":"a"}`, `{"id":"b","tool":"a","for_each":{"$ref":"a.items"},"when":{"ref":{"$ref":"a"},"op":"eq","value":"${a#/x}"}}`)), parsing(t))
	told(t, defects, []string{
		`step "b" at /steps/1/when/ref: "a": not a valid reference: want {"$ref": "a#/json/pointer"}; {"$lit": {…}} leaves an object as it is`,
		`step "b" at /steps/1/when/value: "${a#/x}": a text with references in it is {"$tpl": "… ${a#/json/pointer} …"}, a value {"$ref": "a#/json/pointer"}; {"$lit": "…"} leaves a text as it is`,
		`step "b" at /steps/1/for_each: "a.items": not a valid reference: want {"$ref": "a#/json/pointer"}; {"$lit": {…}} leaves an object as it is`,
	})
}

// Each form that a message suggests is a valid reference.
func TestSlipsAreMended(t *testing.T) {
	for _, wrote := range []string{"a", "a.b", "a[0][1].c", "a/~", "#/a/~2/~01", "a..b", "a#b#c", "a['x y']", `a[\"x\"]`, "a." + strings.Repeat("x.", 20)} {
		_, defects := plan.Parse([]byte(steps(`{"id":"a","tool":"a"}`, `{"id":"b","tool":"a","arguments":{"x":{"$ref":"`+wrote+`"}}}`)), parsing(t))
		if len(defects) != 1 {
			t.Fatalf("%s: got %v", wrote, defects)
		}
		_, meant, _ := strings.Cut(defects[0].Message, "want ")
		meant, _, _ = strings.Cut(meant, "; {\"$lit")
		p, defects := plan.Parse([]byte(steps(`{"id":"a","tool":"a"}`, `{"id":"b","tool":"a","arguments":{"x":`+meant+`}}`)), parsing(t))
		if p == nil || len(p.Steps[1].Needs) != 1 {
			t.Errorf("%s: told to write %s: %v", wrote, meant, defects)
		}
	}
}
