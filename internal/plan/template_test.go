package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/plan"
	"mcpschedd/internal/schema"
)

// template parses a template that has no defects.
func template(t testing.TB, raw string) *plan.Template {
	t.Helper()
	tpl, defects := plan.ParseTemplate([]byte(raw), "")
	if defects != nil {
		t.Fatalf("%s: %s", raw, lines(defects))
	}
	return tpl
}

func resolve(t testing.TB, raw string, look plan.Lookup, want *schema.Schema) string {
	t.Helper()
	got, err := template(t, raw).Fill(look, want, 0)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return string(got)
}

// TestGuide has every example and rule of the guide's reference syntax.
func TestGuide(t *testing.T) {
	look := given(
		"weather_tokyo", `{"temp": 25, "condition": "sunny", "city": "Tokyo"}`,
		"weather_london", `{"temp": 11.50, "condition": "rain"}`,
		"user_data", `{"name": "Ada", "address": {"city": "London", "zip": null}, "tags": ["a", "b"], "admin": false}`,
		"text", `"The weather is 25 degrees and \"sunny\""`,
		"info", `"[INFO] started"`, "digits", `"02134"`, "a", `1`, "b", `[2]`, "c", `true`,
	)
	for _, c := range []struct{ name, raw, want string }{
		{"comparison", `{"data_a": "$ref:weather_tokyo", "data_b": "$ref:weather_london"}`,
			`{"data_a":{"temp":25,"condition":"sunny","city":"Tokyo"},"data_b":{"temp":11.50,"condition":"rain"}}`},
		{"summary", `{"data": ["$ref:a", "$ref:b", "$ref:c"]}`, `{"data":[1,[2],true]}`},
		{"a field", `{"t": "$ref:weather_tokyo.temp"}`, `{"t":25}`},
		{"a nested field", `{"city": "$ref:user_data.address.city"}`, `{"city":"London"}`},
		{"an object goes in as structure", `"$ref:user_data.address"`, `{"city":"London","zip":null}`},
		{"an array too", `"$ref:user_data.tags"`, `["a","b"]`},
		{"plain text as a string", `{"x": "$ref:text"}`, `{"x":"The weather is 25 degrees and \"sunny\""}`},
		{"text that looks like an array", `["$ref:info"]`, `["[INFO] started"]`},
		{"text of digits", `["$ref:digits"]`, `["02134"]`},
		{"a missing field is null", `{"x": "$ref:user_data.phone", "y": "$ref:user_data.address.street.name"}`, `{"x":null,"y":null}`},
		{"a field of a text is null", `{"x": "$ref:text.temp"}`, `{"x":null}`},
		{"a field that is null", `{"x": "$ref:user_data.address.zip"}`, `{"x":null}`},
		{"a boolean", `{"x": "$ref:user_data.admin"}`, `{"x":false}`},
		{"no reference", `{"location": "Tokyo"}`, `{"location":"Tokyo"}`},
		{"no arguments", `{}`, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := resolve(t, c.raw, look.look, nil); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestTemplate(t *testing.T) {
	look := given(
		"a", ` { "id" : 7, "s": "say \"hi\"\n", "n": null, "list": [ {"id": 1}, {"id": 2} ], "f": false } `,
		"evil", `{"x": "$ref:a", "y": {"$ref": "a#/id"}, "z": {"$tpl": "${a#/id}"}, "$lit": "$result_a"}`,
		"1", `"one"`, "10", `"ten"`,
	)
	for _, c := range []struct{ name, raw, want string }{
		{"a pointer", `{"id": {"$ref": "a#/list/1/id"}}`, `{"id":2}`},
		{"an array of members", `{"ids": {"$ref": "a#/list/*/id"}}`, `{"ids":[1,2]}`},
		{"a default", `{"x": {"$ref": "a#/none", "default": "$ref:a"}}`, `{"x":"$ref:a"}`},
		{"of a list of calls", `["$result_1", "$result_10"]`, `["one","ten"]`},
		{"written with an escape", `["\u0024ref:a.id", {"\u0024tpl": "\u0024{a#/id}"}]`, `[7,"7"]`},
		{"in the middle", `[1, {"a": ["$ref:a.id", "x"]}, "y"]`, `[1,{"a":[7,"x"]},"y"]`},
		{"among constants", `[1, "b", [2], {"c": 3}, "$ref:a.id", 4, 5, {"$lit": "$ref:a"}, "$ref:a.f"]`, `[1,"b",[2],{"c":3},7,4,5,"$ref:a",false]`},
		{"the whole of it", `"$ref:a.list"`, `[{"id":1},{"id":2}]`},

		{"text", `{"$tpl": "id ${a#/id}: ${a#/s}"}`, `"id 7: say \"hi\"\n"`},
		{"text of null and of a boolean", `{"$tpl": "<${a#/n}> ${a#/f}"}`, `"<> false"`},
		{"text of a structure", `{"$tpl": "${a#/list} ${a#/list/*/id}"}`, `"[{\"id\":1},{\"id\":2}] [1,2]"`},
		{"nothing but a reference", `{"$tpl": "${a#/id}"}`, `"7"`},
		{"a brace for itself", `{"$tpl": "$${a#/id} $ {x} } ${a#/id}"}`, `"${a#/id} $ {x} } 7"`},
		{"a dollar and a reference", `{"$tpl": "$$${a#/id}, $5 $"}`, `"$7, $5 $"`},
		{"two dollars and a brace", `{"$tpl": "$$$${a#/id}"}`, `"$${a#/id}"`},
		{"text without references", `{"$tpl": "x $${HOME}"}`, `"x ${HOME}"`},
		{"no text", `{"$tpl": ""}`, `""`},
		{"a mark in it", `{"$tpl": "$$ref:a.b $$result_1 $result_ ${a#/id}"}`, `"$ref:a.b $result_1 $result_ 7"`},

		{"literal", `{"$lit": {"$ref": "a#", "x": ["$ref:a", {"$tpl": "${"}, {"$lit": 1}]}}`, `{"$ref":"a#","x":["$ref:a",{"$tpl":"${"},{"$lit":1}]}`},
		{"literal within", `{"x": {"$lit": "$ref:a"}, "y": "$ref:a.id"}`, `{"x":"$ref:a","y":7}`},
		{"escaped", `["$$ref:a", "$$result_1", "$$$ref:a", "$$ref: and $ref:b", "$$ref:"]`, `["$ref:a","$result_1","$$ref:a","$ref: and $ref:b","$ref:"]`},
		{"no mark", `["$result_", "see $result_ here", "$results", "$ref", "ref:a", "$$", "${a#/id}", "a#/id"]`, `["$result_","see $result_ here","$results","$ref","ref:a","$$","${a#/id}","a#/id"]`},
		{"JSON Schema's references", `{"a": {"$ref": "#/definitions/x"}, "b": {"$ref": "common.json#/x"}, "c": {"$ref": "a#", "title": 1}, "d": {"$ref": {"type": "string"}}, "e": {"$ref": "a"}, "f": {"$ref": "a#x"}, "g": {"$ref":"a#/~2"}, "h": {"$ref":"a b#"}}`,
			`{"a":{"$ref":"#/definitions/x"},"b":{"$ref":"common.json#/x"},"c":{"$ref":"a#","title":1},"d":{"$ref":{"type":"string"}},"e":{"$ref":"a"},"f":{"$ref":"a#x"},"g":{"$ref":"a#/~2"},"h":{"$ref":"a b#"}}`},
		{"a reference beside one of JSON Schema's", `{"$ref": "#/definitions/x", "title": "$ref:a.id"}`, `{"$ref":"#/definitions/x","title":7}`},

		{"numbers as they were written", `[1e400, 1.0, 9007199254740993, -0, 1E+2, 0.10, "$ref:a.id"]`, `[1e400,1.0,9007199254740993,-0,1E+2,0.10,7]`},
		{"texts as they were written", `["\u00e9\/ é", "\ud800", "$ref:a.id"]`, `["\u00e9\/ é","\ud800",7]`},
		{"white space", " { \"a\" :\t[ ] ,\r\n \"b\" : { } , \"c\" : \" \" } ", `{"a":[],"b":{},"c":" "}`},
		{"white space around references", ` { "a" : [ "$ref:a.id" , { } ] } `, `{"a":[7,{}]}`},

		{"what is put in is data", `{"in": "$ref:evil", "t": {"$tpl": "${evil#/x}"}}`,
			`{"in":{"x":"$ref:a","y":{"$ref":"a#/id"},"z":{"$tpl":"${a#/id}"},"$lit":"$result_a"},"t":"$ref:a"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := resolve(t, c.raw, look.look, nil); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if constant := template(t, c.raw).Constant(); constant != nil && string(constant) != c.want {
				t.Errorf("constant %s, want %s", constant, c.want)
			} else if refs := template(t, c.raw).Refs(); (constant == nil) != (len(refs) > 0) {
				t.Errorf("constant %s with %d references", constant, len(refs))
			}
		})
	}
}

func TestTemplateDefects(t *testing.T) {
	const aLiteral = `; {"$lit": "…"} leaves a text as it is`
	for _, c := range []struct{ name, raw, want string }{
		{"within a text", `{"q": "see $ref:a.x.y."}`, `/t/q: "see $ref:a.x.y.": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}` + aLiteral},
		{"a result within a text", `["echo $result_dir/x"]`, `/t/0: "echo $result_dir/x": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}` + aLiteral},
		{"a mark without an id", `["use $ref: to refer"]`, `/t/0: "use $ref: to refer": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}` + aLiteral},
		{"white space before it", `[" $ref:a"]`, `/t/0: " $ref:a": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}` + aLiteral},
		{"in a name", `{"$ref:a": 1, "$result_1": 2, "$result_": 3}`,
			`/t: "$ref:a": the name of a member cannot be a reference; {"$lit": {…}} leaves an object as it is` + "\n" +
				`/t: "$result_1": the name of a member cannot be a reference; {"$lit": {…}} leaves an object as it is`},
		{"all at once", `{"a/b": ["$ref:", {"$tpl": 1}]}`,
			`/t/a~1b/0: "$ref:": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}` + aLiteral + "\n/t/a~1b/1/$tpl: want a string, have a number"},
		{"a text that does not end", `{"$tpl": "a ${b#/x"}`, `/t/$tpl: "${b#/x": want ${step#/json/pointer}; "$${" puts "${" into the text`},
		{"a text with the guide's path", `{"$tpl": "a ${b.x} c"}`, `/t/$tpl: "${b.x}": want ${step#/json/pointer}; "$${" puts "${" into the text`},
		{"a text with a step", `{"$tpl": "a ${b} c ${} ${ b# }"}`, `/t/$tpl: "${b}": want ${step#/json/pointer}; "$${" puts "${" into the text` + "\n" +
			`/t/$tpl: "${}": want ${step#/json/pointer}; "$${" puts "${" into the text` + "\n" + `/t/$tpl: "${ b# }": want ${step#/json/pointer}; "$${" puts "${" into the text`},
		{"a text with the guide's form", `{"$tpl": "a $ref:b.x c"}`, `/t/$tpl: "$ref:b.x c": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}` + aLiteral},
		{"a text with no pointer", `{"$tpl": "${b#x}"}`, `/t/$tpl: "${b#x}": want ${step#/json/pointer}; "$${" puts "${" into the text`},
		{"a text and more", `{"$tpl": "x", "default": 1}`, `/t: "$tpl" has to be the only member of its object`},
		{"a literal and more", `{"$lit": "x", "y": 1}`, `/t: "$lit" has to be the only member of its object`},
		{"a member twice", `{"a": 1, "a": 2}`, `/t: "a": duplicate member`},
		{"a member twice, in other letters", `{"a": 1, "\u0061": 2, "b": "$ref:a"}`, `/t: "a": duplicate member`},
		{"a member twice in a literal", `{"x": {"$lit": [{"a": 1, "a": 2}]}}`, `/t/x/$lit/0: "a": duplicate member`},
		{"no JSON", `{"a": }`, `/t: invalid JSON`},
		{"nothing", ``, `/t: invalid JSON`},
		{"two forms in one", `{"x": {"$ref": "$ref:a"}}`, `/t/x: "$ref:a": not a valid reference: want {"$ref": "step#/json/pointer"}; {"$lit": {…}} leaves an object as it is`},
		{"deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), `/t` + strings.Repeat("/0", 64) + `: nested deeper than 64 values`},
		{"deep, with a reference", strings.Repeat("[", 65) + `"$ref:a"` + strings.Repeat("]", 65), `/t` + strings.Repeat("/0", 64) + `: nested deeper than 64 values`},
		{"deep in a literal", strings.Repeat("[", 33) + `{"$lit":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + "}" + strings.Repeat("]", 33), `/t` + strings.Repeat("/0", 33) + "/$lit" + strings.Repeat("/0", 30) + `: nested deeper than 64 values`},
		{"as deep as JSON goes", strings.Repeat("[", 9999) + `"$ref:a"` + strings.Repeat("]", 9999), `/t` + strings.Repeat("/0", 64) + `: nested deeper than 64 values`},
		{"many references", "[" + strings.Repeat(`"$ref:a",`, 1000) + `"$ref:a"]`, `/t: more than 1000 references`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tpl, defects := plan.ParseTemplate([]byte(c.raw), "/t")
			if got := lines(defects); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if tpl != nil {
				t.Error("got a template with defects")
			}
		})
	}
	if _, defects := plan.ParseTemplate([]byte(`[`+strings.Repeat(`"x $ref:a",`, 3000)+`0]`), ""); len(defects) != 1001 {
		t.Errorf("got %d defects, want the first thousand, and that there are more", len(defects))
	}
	if tpl := template(t, strings.Repeat("[", 64)+`"$ref:a"`+strings.Repeat("]", 64)); len(tpl.Refs()) != 1 {
		t.Error("64 values deep is not deep enough")
	}
}

func TestTemplateRefs(t *testing.T) {
	tpl, defects := plan.ParseTemplate([]byte(`{"a/b": ["$ref:x.y", {"$tpl": "${x#} and ${z#/0}"}], "c": {"$ref": "w#", "default": "$ref:no"}, "d": {"$lit": "$ref:no"}}`), "/steps/0/arguments")
	if defects != nil {
		t.Fatal(lines(defects))
	}
	var got []string
	for _, r := range tpl.Refs() {
		got = append(got, fmt.Sprintf("%s at %s", r, r.At))
	}
	want := []string{
		"x#/y at /steps/0/arguments/a~1b/0", "x# at /steps/0/arguments/a~1b/1/$tpl", "z#/0 at /steps/0/arguments/a~1b/1/$tpl", "w# at /steps/0/arguments/c",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestResolveErrors(t *testing.T) {
	look := given("a", `{"x": "`+strings.Repeat("x", 100)+`", "n": "\u0001"}`, "deep", strings.Repeat("[", 9999)+strings.Repeat("]", 9999))
	for _, c := range []struct {
		name, raw string
		most      int
		want      string
	}{
		{"missing", `{"y": ["$ref:a.x", {"$ref": "a#/y"}]}`, 0, `/t/y/1: "a#/y" refers to nothing: it is an object of "x", "n"`},
		{"missing in a text", `{"$tpl": "${a#/y}"}`, 0, `/t/$tpl: "a#/y" refers to nothing: it is an object of "x", "n"`},
		{"no step", `["$ref:b.x"]`, 0, `/t/0: "b#/x" refers to nothing: it did not run`},
		{"too large", `["$ref:a.x"]`, 103, `/t: more than 103 bytes`},
		{"as large as may be", `["$ref:a.x"]`, 104, ``},
		{"often", `["$ref:a","$ref:a"]`, 200, `/t: more than 200 bytes`},
		{"a large text", `{"$tpl": "${a#/x}${a#/x}"}`, 150, `/t: more than 150 bytes`},
		{"a text that grows", `{"$tpl": "` + strings.Repeat("${a#/n}", 10) + `"}`, 40, `/t: more than 40 bytes`},
		{"a large constant", `["12345678901234567890"]`, 10, `/t: more than 10 bytes`},
		{"too deep", `[["$ref:deep"]]`, 0, `/t: nested too deep, or it contains a result that is not valid JSON`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tpl, defects := plan.ParseTemplate([]byte(c.raw), "/t")
			if defects != nil {
				t.Fatal(lines(defects))
			}
			got, err := tpl.Fill(look.look, nil, c.most)
			if wrong(err) != c.want {
				t.Errorf("got error %s, want %s", wrong(err), c.want)
			}
			if err != nil && got != nil {
				t.Errorf("got %s with an error", got)
			}
		})
	}
}

func TestCheckConstants(t *testing.T) {
	const issue = `{"properties":{"owner":{"type":"string"},"number":{"type":"integer"},"labels":{"type":"array","items":{"type":"string"}},
		"at":{"type":"object","properties":{"line":{"type":"integer"},"path":{"type":"string"}},"required":["line","path"]}},
		"required":["owner","number"],"additionalProperties":false}`
	s, err := schema.Compile([]byte(issue))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, raw, want string }{
		{"nothing known", `"$ref:a"`, ""},
		{"all constant", `{"owner":"o","number":1}`, ""},
		{"a wrong constant", `{"owner":"o","number":"1"}`, "/number: want integer, have string"},
		{"a reference in its place", `{"owner":"o","number":"$ref:a.n"}`, ""},
		{"a constant beside a reference", `{"owner":1,"number":"$ref:a.n"}`, "/owner: want string, have number"},
		{"a missing member", `{"number":"$ref:a.n"}`, "/owner: missing"},
		{"a member that is not known", `{"owner":"o","number":1,"repo":"$ref:a"}`, "/repo: not allowed"},
		{"an escaped text", `{"owner":"$$ref:a","number":1}`, ""},
		{"a text", `{"owner":{"$tpl":"${a#}"},"number":1,"labels":["x",{"$tpl":"${a#}"},2]}`, "/labels/2: want string, have number"},
		{"a text for a number", `{"owner":{"$tpl":"${a#}"},"number":{"$tpl":"${a#/n}"}}`, `/number: want integer, and "$tpl" is always a string; {"$ref": "step#/json/pointer"} is what it refers to`},
		{"a text for an element", `{"owner":"o","number":1,"labels":[{"$tpl":"${a#}"}]}`, ""},
		{"within", `{"owner":"o","number":1,"at":{"line":"$ref:a"}}`, "/at/path: missing"},
		{"behind constants", `{"owner":"o","number":1,"labels":["a","b","$ref:a.n","c",{"$ref":"a#"},"d","e",7]}`, "/labels/7: want string, have number"},
		{"all at once", `{"owner":7,"labels":["x",2,{"$tpl":"${a#}"}],"at":{"$tpl":"${a#}"},"a/b":1}`,
			`/at: want object, and "$tpl" is always a string; {"$ref": "step#/json/pointer"} is what it refers to` +
				"\n/a~1b: not allowed\n/labels/1: want string, have number\n/number: missing\n/owner: want string, have number"},
		{"a reference with a default", `{"owner":{"$ref":"a#","default":""},"number":1}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lines(template(t, c.raw).CheckConstants(s)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if all := template(t, c.raw).CheckConstants(nil); all != nil {
				t.Errorf("without a schema: %v", all)
			}
		})
	}
}

func BenchmarkTemplate(b *testing.B) {
	raw := []byte(`{"owner": "$ref:repo.owner.login", "number": {"$ref": "issues#/items/0/number"}, "body": {"$tpl": "about ${issues#/items/0/title}"}, "labels": ["bug", "new"]}`)
	look := given("repo", `{"owner": {"login": "o"}}`, "issues", `{"items": [{"number": 7, "title": "t"}]}`)
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			plan.ParseTemplate(raw, "/steps/0/arguments")
		}
	})
	tpl := template(b, string(raw))
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			tpl.Fill(look.look, nil, 1<<20)
		}
	})
	large := given("repo", "["+strings.Repeat(`{"number": 7, "title": "a title"},`, 30_000)+"1]")
	whole := template(b, `{"x": "$ref:repo"}`)
	b.Run("resolve 1 MB", func(b *testing.B) {
		b.SetBytes(int64(len(large["repo"].JSON)))
		for b.Loop() {
			whole.Resolve(large.look, nil, 0)
		}
	})
}
