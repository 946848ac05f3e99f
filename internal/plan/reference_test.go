package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/plan"
)

func TestParseRef(t *testing.T) {
	deep := strings.Repeat("/a", 65)
	for _, c := range []struct {
		name, raw string
		want      *plan.Ref
		wrong     string
	}{
		{"the guide's, of all", `"$ref:weather_tokyo"`, &plan.Ref{Step: "weather_tokyo", Null: true}, ""},
		{"of a field", `"$ref:weather_tokyo.temp"`, &plan.Ref{Step: "weather_tokyo", Pointer: "/temp", Null: true}, ""},
		{"of a nested one", `"$ref:user_data.address.city"`, &plan.Ref{Step: "user_data", Pointer: "/address/city", Null: true}, ""},
		{"an id with a hyphen", `"$ref:get-weather.first-name"`, &plan.Ref{Step: "get-weather", Pointer: "/first-name", Null: true}, ""},
		{"an element", `"$ref:a.items.0"`, &plan.Ref{Step: "a", Pointer: "/items/0", Null: true}, ""},
		{"a name to be escaped", `"$ref:a.x~y/z"`, &plan.Ref{Step: "a", Pointer: "/x~0y~1z", Null: true}, ""},
		{"a name in other letters", `"$ref:a.größe"`, &plan.Ref{Step: "a", Pointer: "/größe", Null: true}, ""},
		{"of a list of calls", `"$result_10"`, &plan.Ref{Step: "10", Null: true}, ""},
		{"with a field", `"$result_1.id"`, &plan.Ref{Step: "1", Pointer: "/id", Null: true}, ""},
		{"written with an escape", `"\u0024ref:a"`, &plan.Ref{Step: "a", Null: true}, ""},
		{"a pointer", `{"$ref": "a#/items/0/id"}`, &plan.Ref{Step: "a", Pointer: "/items/0/id"}, ""},
		{"to all", ` {"$ref":"a#"} `, &plan.Ref{Step: "a"}, ""},
		{"with a default", `{"$ref":"a#/x","default":[1, "$ref:b"]}`, &plan.Ref{Step: "a", Pointer: "/x", Default: []byte(`[1,"$ref:b"]`)}, ""},
		{"with null for a default", `{"default":null,"$ref":"a#/x"}`, &plan.Ref{Step: "a", Pointer: "/x", Default: []byte(`null`)}, ""},

		{"no id", `"$ref:"`, nil, `/at: "$ref:": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"a blank", `"$ref: a"`, nil, `/at: "$ref: a": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"brackets", `"$ref:a[0]"`, nil, `/at: "$ref:a[0]": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"brackets behind a field", `"$ref:a.items[0].id"`, nil, `/at: "$ref:a.items[0].id": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"an empty field", `"$ref:a..b"`, nil, `/at: "$ref:a..b": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"a full stop", `"$ref:a."`, nil, `/at: "$ref:a.": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"prose behind it", `"$ref:a.temp degrees"`, nil, `/at: "$ref:a.temp degrees": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"more text behind it", `"$ref:a, please"`, nil, `/at: "$ref:a, please": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"two of them", `"$ref:a.x.$ref:b"`, nil, `/at: "$ref:a.x.$ref:b": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"a path", `"$result_dir/file"`, nil, `/at: "$result_dir/file": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"a bare pointer", `"a#/x"`, nil, `/at: want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}, have "a#/x"`},
		{"an id alone", `"a"`, nil, `/at: want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}, have "a"`},
		{"another value", `[1]`, nil, `/at: want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}, have an array`},
		{"JSON Schema's", `{"$ref":"#/definitions/x"}`, nil, `/at: want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}, have an object`},
		{"a member too many", `{"$ref":"a#","defualt":1}`, nil, `/at: want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}, have an object`},
		{"the two forms in one", `{"$ref":"$ref:a.x"}`, nil, `/at: "$ref:a.x": not a valid reference: want {"$ref": "step#/json/pointer"}; {"$lit": {…}} leaves an object as it is`},
		{"a member twice", `{"$ref":"a#","$ref":"b#"}`, nil, `/at: "$ref": duplicate member`},
		{"a member of the default twice", `{"$ref":"a#","default":[{"x":1,"x":2}]}`, nil, `/at/default/0: "x": duplicate member`},
		{"no JSON", `{"$ref":`, nil, `/at: invalid JSON`},
		{"far too deep", `{"$ref":"a#` + deep + `"}`, nil, `/at: "a#` + deep[:58] + `…": leads into more than 64 values`},
		{"far too many fields", `"$ref:a` + strings.ReplaceAll(deep, "/", ".") + `"`, nil, `/at: "a#/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a…": leads into more than 64 values`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, defects := plan.ParseRef([]byte(c.raw), "/at")
			if c.want != nil {
				c.want.At = "/at"
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("want-, got+:\n%s", diff)
			}
			if got := lines(defects); got != c.wrong {
				t.Errorf("got  %s\nwant %s", got, c.wrong)
			}
		})
	}
}

// lines formats defects as place: message.
func lines(defects plan.Defects) string {
	var all []string
	for _, d := range defects {
		all = append(all, d.Pointer+": "+d.Message)
	}
	return strings.Join(all, "\n")
}

// results are the results of steps by id.
type results map[string]plan.Value

func (r results) look(ref *plan.Ref) (plan.Value, error) {
	v, ok := r[ref.Step]
	if !ok {
		return plan.Value{}, errors.New("it did not run")
	}
	return v, nil
}

// given returns results from id, value, id, value.
func given(values ...string) results {
	r := make(results)
	for i := 0; i < len(values); i += 2 {
		r[values[i]] = plan.Value{JSON: []byte(values[i+1])}
	}
	return r
}

func TestResolveRef(t *testing.T) {
	const list = ` {"n": 3, "*": 1, "a/b": {"~": 2}, "": 4, "items": [ {"id": 1, "tags": ["x"]}, {"id": 2.50, "tags": []} ], "some": [{"id":1}, {}], "e": [], "null": null} `
	for _, c := range []struct{ name, ref, want, wrong string }{
		{"all of it", `{"$ref":"a#"}`, strings.TrimSpace(list), ""},
		{"a member", `{"$ref":"a#/n"}`, `3`, ""},
		{"an escaped name", `{"$ref":"a#/a~1b/~0"}`, `2`, ""},
		{"the guide's of the same", `"$ref:a.a/b.~"`, `2`, ""},
		{"an empty name", `{"$ref":"a#/"}`, `4`, ""},
		{"an element", `{"$ref":"a#/items/1/id"}`, `2.50`, ""},
		{"the guide's of the same", `"$ref:a.items.1.id"`, `2.50`, ""},
		{"null", `{"$ref":"a#/null"}`, `null`, ""},
		{"each element", `{"$ref":"a#/items/*/id"}`, `[1,2.50]`, ""},
		{"each, by the guide", `"$ref:a.items.*.id"`, `[1,2.50]`, ""},
		{"each as it is", `{"$ref":"a#/e/*"}`, `[]`, ""},
		{"each of each", `{"$ref":"a#/items/*/tags/*"}`, `[["x"],[]]`, ""},
		{"a name that is a star", `{"$ref":"a#/*"}`, `1`, ""},
		{"a number for a default in one", `{"$ref":"a#/some/*/id","default":0}`, `[1,0]`, ""},
		{"null for one, by the guide", `"$ref:a.some.*.id"`, `[1,null]`, ""},
		{"a default for all", `{"$ref":"a#/none/*/id","default":[]}`, `[]`, ""},
		{"missing, with a default", `{"$ref":"a#/none","default":{"x": "$ref:b"}}`, `{"x":"$ref:b"}`, ""},
		{"missing, with null for a default", `{"$ref":"a#/none","default":null}`, `null`, ""},
		{"there, with a default", `{"$ref":"a#/null","default":1}`, `null`, ""},
		{"missing, by the guide", `"$ref:a.none.deeper"`, `null`, ""},
		{"no step, with a default", `{"$ref":"z#/x","default":1}`, `1`, ""},
		{"given up", `{"$ref":"up#/x/y"}`, `null`, ""},
		{"given up, with a default", `{"$ref":"up#/x/y","default":1}`, `1`, ""},
		{"given up, by the guide", `"$ref:up.x"`, `null`, ""},

		{"missing", `{"$ref":"a#/none"}`, "", `/at: "a#/none" refers to nothing: it is an object of "n", "*", "a/b", "", "items", "some", "…"`},
		{"missing in one", `{"$ref":"a#/some/*/id"}`, "", `/at: "a#/some/*/id" refers to nothing: "/some/*" is an empty object`},
		{"an element too many", `{"$ref":"a#/items/2/id"}`, "", `/at: "a#/items/2/id" refers to nothing: "/items" is an array of 2`},
		{"no index", `{"$ref":"a#/items/01"}`, "", `/at: "a#/items/01" refers to nothing: "/items" is an array of 2`},
		{"into a number", `{"$ref":"a#/n/x"}`, "", `/at: "a#/n/x" refers to nothing: "/n" is a number`},
		{"each of a number", `{"$ref":"a#/n/*"}`, "", `/at: "a#/n/*" refers to nothing: "/n" is a number`},
		{"into a text", `{"$ref":"text#/x"}`, "", `/at: "text#/x" refers to nothing: it is a string`},
		{"no step", `{"$ref":"z#/x"}`, "", `/at: "z#/x" refers to nothing: it did not run`},
		{"no step, by the guide", `"$ref:z.x"`, "", `/at: "z#/x" refers to nothing: it did not run`},
	} {
		t.Run(c.name, func(t *testing.T) {
			look := given("a", list, "text", `"25 degrees"`)
			look["up"] = plan.Value{}
			ref, defects := plan.ParseRef([]byte(c.ref), "/at")
			if defects != nil {
				t.Fatal(lines(defects))
			}
			got, err := plan.ResolveRef(ref, look.look)
			if string(got.JSON) != strings.ReplaceAll(c.want, `"…"`, `…`) {
				t.Errorf("got %s, want %s", got.JSON, c.want)
			}
			if wrong(err) != strings.ReplaceAll(c.wrong, `"…"`, `…`) {
				t.Errorf("got error %s\nwant %s", wrong(err), c.wrong)
			}
			if _, missing := errors.AsType[*plan.Missing](err); missing != strings.Contains(c.wrong, "refers to nothing") {
				t.Errorf("got %T", err)
			}
		})
	}
}

func wrong(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The original text is used only for a reference to the whole result.
func TestResolveRefKeepsText(t *testing.T) {
	look := results{"a": {JSON: []byte(`{"x": 1}`), Text: `{"x": 1}`}}
	for raw, want := range map[string]string{`{"$ref":"a#"}`: `{"x": 1}`, `{"$ref":"a#/x"}`: "", `{"$ref":"b#/x","default":1}`: ""} {
		ref, _ := plan.ParseRef([]byte(raw), "")
		got, err := plan.ResolveRef(ref, look.look)
		if err != nil || got.Text != want {
			t.Errorf("%s: got %q, %v; want %q", raw, got.Text, err, want)
		}
	}
}

// A default of 1 KB for each element of a large array would take gigabytes.
func TestDefaultsAreBounded(t *testing.T) {
	ref, _ := plan.ParseRef([]byte(`{"$ref":"a#/*/x","default":"`+strings.Repeat("x", 1000)+`"}`), "/at")
	_, err := plan.ResolveRef(ref, given("a", "["+strings.Repeat("0,", 20_000)+"0]").look)
	if want := `/at: "a#/*/x": too many defaults`; wrong(err) != want {
		t.Errorf("got %s, want %s", wrong(err), want)
	}
}

// The bytes of nested arrays were counted at each level, and a result of 3 MB was too large.
func TestStarsWithinStars(t *testing.T) {
	row := strings.Repeat("[", 63) + "1" + strings.Repeat("]", 63)
	array := "[" + strings.Repeat(row+",", 9_000) + row + "]"
	ref, _ := plan.ParseRef([]byte(`{"$ref":"a#`+strings.Repeat("/*", 64)+`","default":0}`), "/at")
	got, err := plan.ResolveRef(ref, given("a", array).look)
	if err != nil || string(got.JSON) != array {
		t.Errorf("got %d bytes and error %v, want the %d of the array", len(got.JSON), err, len(array))
	}
}

// White space does not count: inserted values are compact.
func TestBoundIsOfCompactJSON(t *testing.T) {
	look := given("a", `{"x": [`+strings.Repeat(" 1,\n", 100)+` 2 ]}`)
	for _, raw := range []string{`["$ref:a.x"]`, `[{"$ref":"a#/x/*"}]`} {
		if got, err := template(t, raw).Fill(look.look, nil, 210); err != nil || len(got) != 205 {
			t.Errorf("%s: got %d bytes, %v", raw, len(got), err)
		}
	}
}
