package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/schema"
)

// results maps ids of steps to their results. A step with an empty result fails, with on_error
// "continue".
type results map[string]string

// last runs a plan with a step for each result and a last step "x". It returns the arguments of
// x's call, its state and reason, or the defects of the plan.
func (r results) last(members string, input *schema.Schema) string {
	var each []string
	for _, id := range slices.Sorted(maps.Keys(r)) {
		each = append(each, fmt.Sprintf(`{"id":%q,"tool":"give","on_error":"continue"}`, id))
	}
	p, defects := plan.Parse([]byte(steps(append(each, `{"id":"x","tool":"take",`+members+`}`)...)), plan.Options{
		Limits: unlimited,
		Find: func(name string) *plan.Tool {
			return &plan.Tool{Name: name, Writes: never, Input: map[string]*schema.Schema{"take": input}[name]}
		},
	})
	if defects != nil {
		var all []string
		for _, d := range defects {
			all = append(all, strings.TrimPrefix(d.Pointer, fmt.Sprintf("/steps/%d", len(r)))+": "+d.Message)
		}
		return strings.Join(all, "\n")
	}
	var got string
	report := (&plan.Runner{Limits: unlimited, Call: func(_ context.Context, c plan.Call) plan.Result {
		text := r[c.Step.ID]
		switch {
		case c.Step.ID == "x":
			got = string(c.Arguments)
			return resultOf("1")
		case text == "":
			return plan.Result{Err: "it fails"}
		case !json.Valid([]byte(text)):
			return resultOf(jsonrpc.AppendString(nil, text))
		}
		return plan.Result{Value: plan.Value{JSON: []byte(strings.TrimSpace(text)), Text: text}}
	}}).Run(context.Background(), p)
	if st := report.Steps[len(r)]; got == "" {
		return string(st.State) + ": " + st.Reason
	}
	return got
}

func TestTemplate(t *testing.T) {
	give := results{
		"a": ` {"id": 7, "s": "say \"hi\"\n", "n": null, "f": false, "a/b": {"~": 2}, "": 4, "*": 5, "b c": 6,
			"list": [ {"id": 1, "tags": ["x"]}, {"id": 2.50, "tags": []} ], "some": [{"id":1}, {}]} `,
		"evil": `{"x": "$ref:a", "y": {"$ref": "a#/id"}, "z": {"$tpl": "${a#/id}"}, "$lit": "$result_a"}`,
		"10":   `"ten"`, "text": "25 degrees", "up": "",
	}
	const missing = `failed: /steps/5/arguments/v: `
	for raw, want := range map[string]string{
		// the guide's
		`"$ref:a.id"`: `7`, `"$ref:text"`: `"25 degrees"`, `"$ref:a.list"`: `[{"id":1,"tags":["x"]},{"id":2.50,"tags":[]}]`, `"$ref:a.list.1.id"`: `2.50`,
		`"$ref:a.gone.deeper"`: `null`, `"$ref:text.temp"`: `null`, `"$ref:a.n"`: `null`, `"$ref:a.f"`: `false`, `"$result_10"`: `"ten"`, `"\u0024ref:a.id"`: `7`,
		`"$ref:a.a/b.~"`: `2`, `"$ref:a.list.*.id"`: `[1,2.50]`, `"$ref:a.some.*.id"`: `[1,null]`, `["$ref:a.id",{"a":["$ref:10","y"]}]`: `[7,{"a":["ten","y"]}]`,
		// pointers
		`{"$ref":"a#/list/1/id"}`: `2.50`, `{"$ref":"a#/list/*/id"}`: `[1,2.50]`, `{"$ref":"a#/list/*/tags/*"}`: `[["x"],[]]`, `{"$ref":"a#/*"}`: `5`,
		`{"$ref":"a#/a~1b/~0"}`: `2`, `{"$ref":"a#/"}`: `4`, `{"$ref":"a#/b c"}`: `6`,
		`{"$ref":"a#/gone","default":{"x": "$ref:b"}}`: `{"x":"$ref:b"}`, `{"default":null,"$ref":"a#/gone"}`: `null`, `{"$ref":"a#/n","default":1}`: `null`,
		`{"$ref":"a#/some/*/id","default":0}`: `[1,0]`, `{"$ref":"a#/gone/*","default":[]}`: `[]`,
		`{"$ref":"up#/x/y"}`: `null`, `"$ref:up.x"`: `null`, `{"$ref":"up#/x","default":1}`: `1`,
		`{"$ref":"a#/gone"}`:      missing + `"a#/gone" refers to nothing: the members there are id, s, n, f, a/b, , …`,
		`{"$ref":"a#/some/*/id"}`: missing + `"a#/some/*/id" refers to nothing: it is in {}`,
		`{"$ref":"a#/list/01"}`:   missing + `"a#/list/01" refers to nothing: it is in [ {"id": 1, "tags": ["x"]}, {"id": 2.50, "tags": []} ]`,
		`{"$ref":"a#/id/*"}`:      missing + `"a#/id/*" refers to nothing: it is in 7`,
		// texts
		`{"$tpl":"id ${a#/id}: ${a#/s}"}`: `"id 7: say \"hi\"\n"`, `{"$tpl":"<${a#/n}> ${a#/f} ${a#/list/*/id}"}`: `"<> false [1,2.50]"`,
		`{"$tpl":"$${a#/id} $ {x} } ${a#/id}"}`: `"${a#/id} $ {x} } 7"`, `{"$tpl":"$$${a#/id}, $5 $$$${x}"}`: `"$7, $5 $${x}"`, `{"$tpl":""}`: `""`,
		// literals
		`{"$lit":{"$ref":"a#", "x":["$ref:a",{"$lit":1}]}}`: `{"$ref":"a#","x":["$ref:a",{"$lit":1}]}`, `["$$ref:a","$$result_1","$$$ref:a"]`: `["$ref:a","$result_1","$$ref:a"]`,
		`["see $result_dir/x","$results","ref:a","$$","${HOME} ${#} ${zz#/x}","a#/x"]`:                        `["see $result_dir/x","$results","ref:a","$$","${HOME} ${#} ${zz#/x}","a#/x"]`,
		`{"c":{"$ref":"#/definitions/x"},"b":{"$ref":"common.json#/x","t":1},"a":{"$ref":{"type":"string"}}}`: `{"c":{"$ref":"#/definitions/x"},"b":{"$ref":"common.json#/x","t":1},"a":{"$ref":{"type":"string"}}}`,
		`[1e400, 1.0, 9007199254740993, -0, "\u00e9\/ é", "\ud800"]`:                                          `[1e400,1.0,9007199254740993,-0,"\u00e9\/ é","\ud800"]`,
		`["${zz.x} $zz.x {{zz}} $10.50 $a ${a_b} {{b c}}",{"$lit":"${a} {{a#/x}} $a.x"}]`:                     `["${zz.x} $zz.x {{zz}} $10.50 $a ${a_b} {{b c}}","${a} {{a#/x}} $a.x"]`,
		// a result is not searched
		`["$ref:evil",{"$tpl":"${evil#/x}"}]`: `[{"x":"$ref:a","y":{"$ref":"a#/id"},"z":{"$tpl":"${a#/id}"},"$lit":"$result_a"},"$ref:a"]`,
	} {
		got, ok := strings.CutPrefix(give.last(`"arguments":{"v":`+raw+`}`, nil), `{"v":`)
		if ok {
			got = strings.TrimSuffix(got, "}")
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", raw, got, want)
		}
	}
}

// The arguments as a whole may be a reference or a literal, but they are an object.
func TestTemplateOfAll(t *testing.T) {
	give := results{"a": `{"x":{"y":1},"text":"{}"}`, "up": ""}
	for raw, want := range map[string]string{
		`{"$ref":"a#/x"}`: `{"y":1}`, `{"$lit":{"$tpl":"z"}}`: `{"$tpl":"z"}`, `"{\"$ref\":\"a#/x\"}"`: `{"y":1}`,
		`{"$ref":"a#/text"}`: `failed: not called: want an object as arguments, have string`,
		`{"$ref":"a#/*"}`:    `failed: /steps/2/arguments: "a#/*" refers to nothing: the members there are x, text`,
		`{"$ref":"up#"}`:     `failed: not called: want an object as arguments, have null`,
		`{"$lit":5}`:         `/arguments: want an object, have number from {"$lit":5}`,
		`{"$tpl":"{}"}`:      `/arguments: want an object, have string from {"$tpl":"{}"}`,
		`{"$tpl":"${a#/x}"}`: `/arguments: want an object, have string from {"$tpl":"${a#/x}"}`,
		`{"$tpl":5}`:         `/arguments/$tpl: want a string, have 5`,
	} {
		if got := give.last(`"arguments":`+raw, nil); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", raw, got, want)
		}
	}
}

// A reference with a small mistake is a defect. Otherwise it would be sent to the tool as a text.
func TestSlips(t *testing.T) {
	const (
		notWhole = `a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}`
		invalid  = `not a valid reference: want {"$ref": "a#/x"}, with nothing beside it`
	)
	give := results{"a": "1", "ref": "1"}
	for raw, want := range map[string]string{
		`"see $ref:a.x"`: notWhole, `"$ref:a[0]"`: notWhole, `"$ref:"`: notWhole, `"$ref: a"`: notWhole, `"$ref:a..b"`: notWhole, `" $ref:a"`: notWhole, `"${a#/x}"`: notWhole,
		`"${HOME} ${a#/x}"`: notWhole, `"${a}"`: notWhole, `"x ${a.total} y"`: notWhole, `"${a[0].total}"`: notWhole, `"{{a[0]}}"`: notWhole, `"$a.total"`: notWhole, `"{{a#/total}}"`: notWhole, `"{{ a.total }}"`: notWhole, `"{{a}}"`: notWhole,
		`{"$tpl":"a $ref:a.x"}`: notWhole, `{"$ref":"a"}`: `want {"$ref": "a#"}`, `{"$ref":"$ref:ref.y"}`: `want {"$ref": "ref#/y"}`, `{"$ref":"a.l[0].n"}`: `want {"$ref": "a#/l/0/n"}`, `{"$ref":"a#/x.y","z":1}`: `want {"$ref": "a#/x.y"}`, `{"$ref":"a.x"}`: invalid, `{"$ref":"#/a/x"}`: invalid, `{"$ref":"$ref:a.x"}`: invalid, `{"$ref":"a#x"}`: invalid,
		`{"$ref":"a#/x","title":1}`: invalid, `{"$tpl":"${a.x}"}`: `want ${step#/json/pointer}`, `{"$tpl":"a ${a#/x"}`: `want ${step#/json/pointer}`, `{"$tpl":1}`: "want a string, have 1",
		`{"$tpl":"x","default":1}`: `"$tpl" has to be the only member`, `{"$lit":"x","y":1}`: `"$lit" has to be the only member`, `{"y":1,"\u0079":2}`: `"y": duplicate member`,
		`{"$ref":"zz#"}`: `unknown step "zz"`, `"$ref:x.y"`: "refers to itself", `"$ref:item.y"`: `"item" is defined only in`, `"$ref:params.y"`: "there are no parameters",
		`[` + strings.Repeat(`"$ref:a",`, 20_000) + `"$ref:a"]`: "more than 2000 references", strings.Repeat("[", 64) + strings.Repeat("]", 64): "nested deeper than 64 values",
	} {
		if got := give.last(`"arguments":{"v":`+raw+`}`, nil); !strings.Contains(got, want) {
			t.Errorf("%.100s:\ngot  %s\nwant %s", raw, got, want)
		}
	}
}

func TestCoerce(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type":"object","properties":{
		"text":{"type":"string"},"number":{"type":"number"},"whole":{"type":"integer"},"yes":{"type":"boolean"},
		"texts":{"type":"array","items":{"type":"string"}},"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]},
		"text or number":{"type":["string","number"]},"text or whole":{"type":["string","integer"]},"text or object":{"type":["string","object"]},
		"text or null":{"anyOf":[{"type":"string"},{"type":"null"}]},"choice":{"enum":["42","2"]},"any":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	give := results{
		"v": `{"n": 42, "big": 9007199254740993, "half": 2.50, "dot": 1.0, "b": true, "null": null, "o": {"x": [1, 2]}, "l": [1, "a", null, 2.5],
			"42": "42", "1e3": "1e3", "007": "007", "sp": " 42", "true": "true", "obj": "{\"a\":1}"}`,
		"n": "42\n", "o": "{\"a\": [1,  2]}\n", "quoted": `"hi"`, "plain": "hi there",
	}
	for raw, want := range map[string]string{
		`{"text":"$ref:v.n"}`: `{"text":"42"}`, `{"text":"$ref:v.big"}`: `{"text":"9007199254740993"}`, `{"text":"$ref:v.half"}`: `{"text":"2.50"}`, `{"text":"$ref:v.b"}`: `{"text":"true"}`,
		`{"text":"$ref:v.o"}`: `{"text":"{\"x\":[1,2]}"}`, `{"text":"$ref:v.l"}`: `{"text":"[1,\"a\",null,2.5]"}`,
		`{"number":"$ref:v.42","whole":"$ref:v.42"}`: `{"number":42,"whole":42}`, `{"whole":"$ref:v.1e3"}`: `{"whole":1e3}`, `{"yes":"$ref:v.true"}`: `{"yes":true}`,
		`{"whole":"$ref:v.dot"}`: `{"whole":1.0}`, `{"text or number":"$ref:v.n"}`: `{"text or number":42}`, `{"text or whole":"$ref:v.half"}`: `{"text or whole":"2.50"}`,
		`{"text or null":"$ref:v.n"}`: `{"text or null":"42"}`, `{"choice":"$ref:v.n"}`: `{"choice":"42"}`, `{"any":"$ref:v.n","more":"$ref:v.42"}`: `{"any":42,"more":"42"}`,
		`{"texts":{"$ref":"v#/o/x"}}`: `{"texts":["1","2"]}`, `{"texts":["$ref:v.n","b"]}`: `{"texts":["42","b"]}`, `{"pair":["$ref:v.n","$ref:v.42"]}`: `{"pair":["42",42]}`,
		`{"text":"$ref:n"}`: `{"text":"42\n"}`, `{"text":"$ref:o"}`: `{"text":"{\"a\": [1,  2]}\n"}`, `{"text or object":"$ref:o"}`: `{"text or object":{"a":[1,2]}}`, `{"any":"$ref:o"}`: `{"any":{"a":[1,2]}}`,
		`{"text":"$ref:quoted"}`: `{"text":"\"hi\""}`, `{"any":"$ref:quoted"}`: `{"any":"hi"}`, `{"text":"$ref:plain"}`: `{"text":"hi there"}`, `{"text":{"$tpl":"${o#}!"}}`: `{"text":"{\"a\": [1,  2]}\n!"}`,
		`{"text":{"$ref":"v#/gone","default":1}}`: `{"text":"1"}`,
		// what does not fit is not sent
		`{"text":"$ref:v.gone"}`: "failed: not called: text: want string, have null (input schema of take); /steps/5/arguments/text: \"v#/gone\" refers to nothing: the members there are n, big, half, dot, b, null, …", `{"text":"$ref:v.null"}`: "failed: not called: text: want string, have null (input schema of take)", `{"whole":"$ref:v.007"}`: "failed: not called: whole: want integer, have string (input schema of take)",
		`{"whole":"$ref:v.sp","yes":"$ref:v.n"}`: "failed: not called: whole: want integer, have string; yes: want boolean, have number (input schema of take)",
	} {
		if got := give.last(`"arguments":`+raw, s); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", raw, got, want)
		}
	}
	for raw, want := range map[string]string{
		`{"whole":"1","text":"$ref:v"}`:    `/arguments/whole: want integer, have string (input schema of "take")`,
		`{"whole":{"$tpl":"${v#/n}"}}`:     `/arguments/whole/$tpl: want integer, and "$tpl" is always a string (input schema of "take")`,
		`{"whole":{"$ref":"v.n"}}`:         `/arguments/whole: "v.n": not a valid reference: want {"$ref": "v#/n"}, with nothing beside it but a "default"; {"$lit": {…}} leaves an object as it is`,
		`{"texts":["a","$ref:v.n","b",7]}`: `/arguments/texts/3: want string, have number (input schema of "take")`,
	} {
		if got := give.last(`"arguments":`+raw, s); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", raw, got, want)
		}
	}
}

func TestCondition(t *testing.T) {
	give := results{"a": `{"n": 5, "z": 0, "nz": -0.0e3, "t": true, "f": false, "null": null, "s": "open", "e": "", "l": [1, 2], "el": [ ],
		"o": {"x": 1, "y": [1.0]}, "eo": { }, "big": 9007199254740993, "e17": 1e17, "items": [{"id": 1}, {}]}`, "up": ""}
	when := func(condition string) string {
		got := give.last(`"when":`+condition+`,"arguments":{"v":1}`, nil)
		return strings.NewReplacer(`{"v":1}`, "true", "skipped: when: false", "false").Replace(got)
	}
	const gone = `: "a#/gone" refers to nothing: the members there are n, z, nz, t, f, null, …`
	for want, conditions := range map[string][]string{
		"true": {
			`"$ref:a.n"`, `{"$ref":"a#/t"}`, `"$ref:a.s"`, `"$ref:a.l"`, `"$ref:a.o"`, `{"$ref":"a#/gone","default":1}`, `{"$ref":"up#/x","default":true}`,
			`{"ref":"$ref:a.n","op":"eq","value":5}`, `{"ref":"$ref:a.n","op":"eq","value":0.5e1}`, `{"ref":"$ref:a.s","op":"ne","value":"closed"}`, `{"ref":{"$ref":"a#/null"},"op":"eq","value":null}`,
			`{"ref":"$ref:a.o","op":"eq","value":{"y":[1],"x":1.0}}`, `{"ref":"$ref:a.s","op":"ne","value":{"$lit":"$ref:a.s"}}`,
			`{"ref":"$ref:a.n","op":"lt","value":5.0000001}`, `{"ref":"$ref:a.n","op":"gt","value":-1e400}`, `{"ref":"$ref:a.s","op":"lt","value":"p"}`,
			`{"ref":"$ref:a.s","op":"in","value":["closed","open"]}`, `{"ref":"$ref:a.n","op":"in","value":[null,5.00]}`, `{"ref":"$ref:a.s","op":"exists"}`, `{"ref":"$ref:a.null","op":"exists","value":true}`, `{"ref":"$ref:a.s","op":"exists","value":null}`,
			`{"ref":"$ref:a.gone","op":"exists","value":false}`, `{"ref":"$ref:up","op":"exists","value":false}`, `{"ref":{"$ref":"a#/gone","default":0},"op":"lt","value":1}`,
			`{"ref":"$ref:a.e17","op":"eq","value":100000000000000000}`, `{"ref":"$ref:a.e17","op":"in","value":[100000000000000000]}`,
			`{"ref":"$ref:a.big","op":"gt","value":9007199254740992}`, `{"ref":"$ref:a.big","op":"lt","value":9007199254740994}`, `{"ref":"$ref:a.big","op":"lt","value":1e400}`,
		},
		"false": {
			`"$ref:a.z"`, `"$ref:a.nz"`, `{"$ref":"a#/f"}`, `{"$ref":"a#/null"}`, `"$ref:a.e"`, `"$ref:a.el"`, `"$ref:a.eo"`, `{"$ref":"up#/x"}`,
			`{"ref":"$ref:a.s","op":"ne","value":"\u006fpen"}`, `{"ref":"$ref:a.big","op":"eq","value":9007199254740992}`, `{"ref":"$ref:a.l","op":"eq","value":[2,1]}`,
			`{"ref":"$ref:a.n","op":"lt","value":5}`, `{"ref":"$ref:a.n","op":"in","value":["5",[5]]}`, `{"ref":"$ref:a.n","op":"in","value":[]}`, `{"ref":"$ref:a.gone","op":"exists"}`,
			`{"ref":"$ref:a.s","op":"exists","value":false}`, `{"ref":{"$ref":"a#/gone","default":1},"op":"exists"}`, `{"ref":{"$ref":"a#/items/*/id"},"op":"exists"}`,
			`{"ref":"$ref:a.null","op":"eq","value":"5"}`, `{"ref":"$ref:a.n","op":"eq","value":1e400}`,
		},
		`false: /steps/2/when` + gone: {`{"$ref":"a#/gone"}`, `"$ref:a.gone"`},
		`false: /steps/2/when/ref` + gone: {
			`{"ref":"$ref:a.gone","op":"eq","value":null}`, `{"ref":"$ref:a.gone","op":"ne","value":1}`, `{"ref":"$ref:a.gone","op":"lt","value":1}`, `{"ref":"$ref:a.gone","op":"in","value":[null]}`,
		},
		`false: "a#/n" is of type number, and value of type string`:                                              {`{"ref":"$ref:a.n","op":"eq","value":"5"}`},
		`failed: when: /steps/2/when/ref: "a#/s" lt: cannot compare string with value, which is of another type`: {`{"ref":"$ref:a.s","op":"lt","value":1}`},
		`/when: want a reference, or {"ref": a reference, "op": …, "value": …}, have true`:                       {`true`},
		`/when: want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}, have "a.ok"`: {`"a.ok"`},
		`/when/op: want one of eq, ne, lt, gt, in, exists; gt is >, lt is <`:                                     {`{"ref":"$ref:a","op":">","value":1}`, `{"ref":"$ref:a"}`, `{"ref":"$ref:a","op":1,"value":1}`},
		`/when/val: unknown member; did you mean "value"?`:                                                       {`{"ref":"$ref:a","op":"exists","val":true}`},
		`/when/value: eq: want a value to compare with`:                                                          {`{"ref":"$ref:a","op":"eq"}`},
		`/when/value: in: want an array, have string`:                                                            {`{"ref":"$ref:a","op":"in","value":"abc"}`},
		`/when/value: lt: want a number or a string, have null`:                                                  {`{"ref":"$ref:a","op":"lt","value":null}`},
		`/when/value: exists: want true, false or nothing, have number`:                                          {`{"ref":"$ref:a","op":"exists","value":1}`},
		`/when/value: want a value without references`:                                                           {`{"ref":"$ref:a","op":"eq","value":"$ref:up"}`},
	} {
		for _, raw := range conditions {
			if got := when(raw); got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", raw, got, want)
			}
		}
	}
}

// FuzzTemplate fills random templates with random results. The arguments must be valid JSON, and
// references in results must not be resolved.
func FuzzTemplate(f *testing.F) {
	for _, raw := range []string{
		`{"data_a": "$ref:a", "data_b": "$ref:a.temp.0"}`, `["$result_a","$$ref:a","x $ref:b"]`, `{"$ref":"a#/*/*"}`, `{"$ref":"#/definitions/x"}`, `{"$tpl":"${"}`,
		`{"a":{"$ref":"a#/items/*/id","default":[1]},"b":{"$tpl":"x ${a#/p} $${y} $$${a#}"},"c":{"$lit":{"$ref":"s#"}}}`,
		`[1e400, -0, 1.0, "\ud800", "\u0024ref:a", {"a":1,"\u0061":2}]`, strings.Repeat(`[{"a":`, 40) + `"$ref:a"` + strings.Repeat("}]", 40),
	} {
		f.Add(raw, `{"items":[{"id":1},{"id":"$ref:a"}],"p":"${s#}","temp":[{"$tpl":"${a#}"}]}`)
	}
	f.Fuzz(func(t *testing.T, raw, data string) {
		if !jsonrpc.Valid([]byte(raw)) || !jsonrpc.Valid([]byte(data)) {
			return
		}
		give := results{"a": data, "b": `"2f0cde51"`}
		if got := give.last(`"arguments":{"v":`+raw+`}`, nil); strings.HasPrefix(got, "{") && !jsonrpc.Valid([]byte(got)) {
			t.Errorf("%q with %q: got %q", raw, data, got)
		}
		want := give.last(`"arguments":{"v":"$ref:b","w":{"$lit":`+raw+`}}`, nil)
		for _, evil := range []string{"$ref:a", "$result_a", "${a#}", "$$ref:a"} {
			give["b"] = `"` + evil + `"`
			if got := give.last(`"arguments":{"v":"$ref:b","w":{"$lit":`+raw+`}}`, nil); got != strings.Replace(want, "2f0cde51", evil, 1) {
				t.Errorf("with %s: got %s, want the same as with a harmless text: %s", evil, got, want)
			}
		}
	})
}
