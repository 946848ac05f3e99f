package plan_test

import (
	"encoding/json"
	"testing"

	"mcpschedd/internal/plan"
)

func TestCondition(t *testing.T) {
	look := given("a", `{"n": 5, "z": 0, "nz": -0.0e3, "t": true, "f": false, "null": null, "s": "open", "e": "", "l": [1, 2], "el": [ ],
		"o": {"x": 1, "y": [1.0]}, "eo": { }, "big": 9007199254740993, "items": [{"id": 1}, {}]}`)
	look["up"] = plan.Value{}
	for _, c := range []struct {
		name, raw string
		want      bool
		wrong     string
	}{
		{"a number", `"$ref:a.n"`, true, ""},
		{"zero", `"$ref:a.z"`, false, ""},
		{"zero however written", `"$ref:a.nz"`, false, ""},
		{"true", `{"$ref":"a#/t"}`, true, ""},
		{"false", `{"$ref":"a#/f"}`, false, ""},
		{"null", `{"$ref":"a#/null"}`, false, ""},
		{"text", `"$ref:a.s"`, true, ""},
		{"no text", `"$ref:a.e"`, false, ""},
		{"an array", `"$ref:a.l"`, true, ""},
		{"an empty array", `"$ref:a.el"`, false, ""},
		{"an object", `"$ref:a.o"`, true, ""},
		{"an empty object", `"$ref:a.eo"`, false, ""},
		{"missing", `{"$ref":"a#/gone"}`, false, ""},
		{"missing, by the guide", `"$ref:a.gone"`, false, ""},
		{"missing, with a default", `{"$ref":"a#/gone","default":1}`, true, ""},
		{"no step", `{"$ref":"b#"}`, false, ""},
		{"given up", `{"$ref":"up#/x"}`, false, ""},
		{"given up, with a default", `{"$ref":"up#/x","default":true}`, true, ""},
		{"of a list of calls", `"$result_a.t"`, true, ""},

		{"equal", `{"ref":"$ref:a.n","op":"eq","value":5}`, true, ""},
		{"equal however written", `{"ref":"$ref:a.n","op":"eq","value":0.5e1}`, true, ""},
		{"not equal", `{"ref":"$ref:a.n","op":"eq","value":"5"}`, false, ""},
		{"ne", `{"ref":"$ref:a.s","op":"ne","value":"closed"}`, true, ""},
		{"not ne", `{"ref":"$ref:a.s","op":"ne","value":"\u006fpen"}`, false, ""},
		{"no double would tell", `{"ref":"$ref:a.big","op":"eq","value":9007199254740992}`, false, ""},
		{"null is null", `{"ref":{"$ref":"a#/null"},"op":"eq","value":null}`, true, ""},
		{"null is not false", `{"ref":{"$ref":"a#/null"},"op":"eq","value":false}`, false, ""},
		{"objects in any order", `{"ref":"$ref:a.o","op":"eq","value":{"y":[1],"x":1.0}}`, true, ""},
		{"objects with more", `{"ref":"$ref:a.o","op":"eq","value":{"y":[1],"x":1,"z":null}}`, false, ""},
		{"objects with less", `{"ref":"$ref:a.o","op":"eq","value":{"x":1}}`, false, ""},
		{"objects with other names", `{"ref":"$ref:a.o","op":"eq","value":{"x":1,"z":[1]}}`, false, ""},
		{"arrays in order", `{"ref":"$ref:a.l","op":"eq","value":[2,1]}`, false, ""},
		{"longer arrays", `{"ref":"$ref:a.l","op":"eq","value":[1]}`, false, ""},
		{"shorter arrays", `{"ref":"$ref:a.l","op":"eq","value":[1,2,3]}`, false, ""},
		{"a literal", `{"ref":"$ref:a.s","op":"ne","value":{"$lit":"$ref:a.s"}}`, true, ""},
		{"an escaped one", `{"ref":"$ref:a.s","op":"eq","value":"$$ref:a.s"}`, false, ""},

		{"less", `{"ref":"$ref:a.n","op":"lt","value":5.0000001}`, true, ""},
		{"not less", `{"ref":"$ref:a.n","op":"lt","value":5}`, false, ""},
		{"more", `{"ref":"$ref:a.n","op":"gt","value":-1e400}`, true, ""},
		{"text before", `{"ref":"$ref:a.s","op":"lt","value":"p"}`, true, ""},
		{"text behind", `{"ref":"$ref:a.s","op":"gt","value":"ope"}`, true, ""},
		{"different types", `{"ref":"$ref:a.s","op":"lt","value":1}`, false, `/when/ref: "a#/s" lt: a string cannot be compared with a number`},
		{"null has no order", `{"ref":{"$ref":"a#/null"},"op":"lt","value":1}`, false, `/when/ref: "a#/null" lt: null cannot be compared with a number`},

		{"in", `{"ref":"$ref:a.s","op":"in","value":["closed","open"]}`, true, ""},
		{"in by value", `{"ref":"$ref:a.n","op":"in","value":[null,5.00]}`, true, ""},
		{"not in", `{"ref":"$ref:a.n","op":"in","value":["5",[5]]}`, false, ""},
		{"in nothing", `{"ref":"$ref:a.n","op":"in","value":[]}`, false, ""},

		{"exists", `{"ref":"$ref:a.s","op":"exists"}`, true, ""},
		{"null exists", `{"ref":"$ref:a.null","op":"exists","value":true}`, true, ""},
		{"does not exist", `{"ref":"$ref:a.gone","op":"exists"}`, false, ""},
		{"not there", `{"ref":"$ref:a.gone","op":"exists","value":false}`, true, ""},
		{"there", `{"ref":"$ref:a.s","op":"exists","value":false}`, false, ""},
		{"a default is not there", `{"ref":{"$ref":"a#/gone","default":1},"op":"exists"}`, false, ""},
		{"no step does not exist", `{"ref":"$ref:b","op":"exists"}`, false, ""},
		{"what was given up does not exist", `{"ref":"$ref:up","op":"exists","value":false}`, true, ""},
		{"not in each", `{"ref":{"$ref":"a#/items/*/id"},"op":"exists"}`, false, ""},

		{"missing is not equal", `{"ref":"$ref:a.gone","op":"eq","value":null}`, false, ""},
		{"nor different", `{"ref":"$ref:a.gone","op":"ne","value":1}`, false, ""},
		{"nor less", `{"ref":"$ref:a.gone","op":"lt","value":1}`, false, ""},
		{"nor among", `{"ref":"$ref:a.gone","op":"in","value":[null]}`, false, ""},
		{"but a default is", `{"ref":{"$ref":"a#/gone","default":0},"op":"lt","value":1}`, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cond, defects := plan.ParseCondition([]byte(c.raw), "/when")
			if defects != nil {
				t.Fatal(lines(defects))
			}
			got, err := cond.Holds(look.look)
			if got != c.want || wrong(err) != c.wrong {
				t.Errorf("got %t, %v; want %t, %s", got, err, c.want, c.wrong)
			}
		})
	}
}

func TestConditionDefects(t *testing.T) {
	const (
		wantRef  = `want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}`
		wantCond = `want a reference, or {"ref": a reference, "op": "eq", "ne", "lt", "gt", "in" or "exists", "value": …}`
	)
	for _, c := range []struct{ name, raw, want string }{
		{"a constant", `true`, `/when: ` + wantCond + `, have a boolean`},
		{"a text", `"a.ok"`, `/when: ` + wantRef + `, have "a.ok"`},
		{"a slip in a reference", `"$ref:a[0]"`, `/when: "$ref:a[0]": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"an object with a reference of another form", `{"$ref":"a"}`, `/when: ` + wantRef + `, have an object`},
		{"nothing in it", `{}`, "/when: " + wantCond},
		{"no JSON", `{`, `/when: invalid JSON`},
		{"an unknown operation", `{"ref":"$ref:a","op":"ge","value":1}`, `/when/op: want one of eq, ne, lt, gt, in, exists`},
		{"no operation", `{"ref":"$ref:a","op":1,"value":1}`, `/when/op: want one of eq, ne, lt, gt, in, exists`},
		{"a member too many", `{"ref":"$ref:a","op":"eq","val":1,"value":1}`, `/when: "val": not known; want "ref", "op" and "value"`},
		{"a member twice", `{"ref":"$ref:a","op":"eq","op":"ne","value":1}`, `/when: "op": duplicate member`},
		{"no value", `{"ref":"$ref:a","op":"eq"}`, `/when/value: eq: want a value to compare with`},
		{"no reference", `{"ref":"a#/x","op":"exists"}`, `/when/ref: ` + wantRef + `, have "a#/x"`},
		{"in no array", `{"ref":"$ref:a","op":"in","value":"abc"}`, `/when/value: in: want an array, have a string`},
		{"no order", `{"ref":"$ref:a","op":"lt","value":null}`, `/when/value: lt: want a number or a string, have null`},
		{"exists with a number", `{"ref":"$ref:a","op":"exists","value":1}`, `/when/value: exists: want true, false or nothing, have a number`},
		{"two references", `{"ref":"$ref:a","op":"eq","value":"$ref:b"}`, `/when/value: want a value without references`},
		{"a slip in the value", `{"ref":"$ref:a","op":"eq","value":"x $ref:b"}`, `/when/value: "x $ref:b": a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`},
		{"all at once", `{"ref":1,"op":"x","value":"$ref:b","y":1}`, `/when/ref: ` + wantRef + ", have 1\n/when/op: want one of eq, ne, lt, gt, in, exists\n/when/value: want a value without references\n" +
			`/when: "y": not known; want "ref", "op" and "value"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cond, defects := plan.ParseCondition([]byte(c.raw), "/when")
			if got := lines(defects); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if cond != nil {
				t.Error("got a condition with defects")
			}
		})
	}
}

// FuzzCondition compares conditions with the meaning of their operators.
func FuzzCondition(f *testing.F) {
	f.Add(`1`, `1.0`)
	f.Add(`[1,{"a":2}]`, `[1,{"a":2e0}]`)
	f.Add(`"a"`, `"b"`)
	f.Add(`{"a":1,"a":2}`, `{"a":2}`)
	f.Add(`1e999999999999999999999`, `1e999999999999999999998`)
	f.Fuzz(func(t *testing.T, data, value string) {
		if plan.ParseCondition([]byte(data), ""); !json.Valid([]byte(data)) {
			return // no call returns this
		}
		holds := func(op, value string) (holds, known bool) {
			c, defects := plan.ParseCondition([]byte(`{"ref":{"$ref":"a#"},"op":"`+op+`","value":{"$lit":`+value+`}}`), "")
			if defects != nil {
				return false, false
			}
			holds, err := c.Holds(given("a", data).look)
			return holds, err == nil
		}
		eq, known := holds("eq", value)
		if !known {
			return
		}
		if ne, _ := holds("ne", value); ne == eq {
			t.Errorf("%s and %s: eq %t, ne %t", data, value, eq, ne)
		}
		if in, ok := holds("in", "[0,"+value+"]"); ok && eq && !in {
			t.Errorf("%s is %s, but not in [0,%[2]s]", data, value)
		}
		lt, ordered := holds("lt", value)
		if gt, ok := holds("gt", value); ok != ordered || ordered && (lt && gt || lt == eq && gt == eq || eq && (lt || gt)) {
			t.Errorf("%s and %s: lt %t, eq %t, gt %t", data, value, lt, eq, gt)
		}
	})
}
