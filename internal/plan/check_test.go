package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/plan"
)

// All defects that a plan can have, with their messages.
func TestDefects(t *testing.T) {
	const (
		a    = `{"id":"a","tool":"a"}`
		list = `{"id":"list","tool":"list"}`
		loop = `{"id":"loop","tool":"list","for_each":"$ref:a.rows","arguments":{"x":"$ref:item"}}`
	)
	step := func(members string) string { return steps(`{"id":"s","tool":"a",` + members + `}`) }
	one := func(pointer, message string) []string {
		return []string{`step "s" at /steps/0` + pointer + `: ` + message}
	}
	for _, c := range []struct {
		name, raw string
		want      []string
	}{
		{"nothing", "", []string{"invalid JSON: unexpected end of JSON input after 0 bytes"}},
		{"half of it", `{"steps":[`, []string{"invalid JSON: unexpected end of JSON input after 9 bytes"}},
		{"half a character", "{\"steps\":\"\xe4\"}", []string{"invalid JSON: it is not UTF-8"}},
		{"an array", `[{"id":"a","tool":"a"}]`, []string{"want an object with steps, have an array"}},
		{"null", `null`, []string{"want an object with steps, have null"}},
		{"too deep", `{"steps":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, []string{"at /steps" + strings.Repeat("/0", 63) + ": nested deeper than 64 values"}},
		{"too long", `{"steps":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`, []string{"1048595 bytes: at most 1048576 are read ([plan].max_result_bytes)"}},
		{"no steps", `{}`, []string{"at /steps: want an array of objects with id and tool, have nothing"}},
		{"no array of steps", `{"steps":{"a":1},"output_steps":["a"]}`, []string{"at /steps: want an array of objects with id and tool, have an object"}},
		{"not one step", `{"steps":[ ]}`, []string{"at /steps: want at least one"}},
		{"a string for a step", `{"steps":["a"]}`, []string{"at /steps/0: want an object with id and tool, have a string"}},
		{"too many steps", steps(strings.Repeat(a+",", 100) + a), []string{"at /steps: 101 steps: a plan may have 100 ([plan].max_steps)"}},
		{"a member twice", `{"steps":[` + a + `],"dry_run":true,"dry_run":false}`, []string{`"dry_run": duplicate member`}},
		{"an unknown member", `{"stepz":[],"steps":[` + a + `]}`, []string{`at /stepz: unknown member; did you mean "steps"?`}},
		{"dry_run", `{"steps":[` + a + `],"dry_run":"yes"}`, []string{"at /dry_run: want true or false, have \"yes\""}},
		{"no budget", `{"steps":[` + a + `],"budget_tokens":0}`, []string{"at /budget_tokens: want a whole number of at least 1, have 0"}},
		{"a budget in words", `{"steps":[` + a + `],"budget_tokens":"5"}`, []string{`at /budget_tokens: want a whole number of at least 1, have "5"`}},

		{"no id", steps(`{"tool":"a"}`), []string{`at /steps/0: missing member "id"`}},
		{"no tool", steps(`{"id":"s"}`), one("", `missing member "tool"`)},
		{"an id that is a number", steps(`{"id":1,"tool":"a"}`), []string{"at /steps/0/id: want a string, have a number"}},
		{"an id that cannot be referred to", steps(`{"id":"a.b","tool":"a"}`), []string{`step "a.b" at /steps/0/id: want letters, digits, _ and -, at most 128 of them, have "a.b"`}},
		{"too long an id", steps(`{"id":"` + strings.Repeat("i", 129) + `","tool":"a"}`), []string{`step "` + strings.Repeat("i", 60) + `…" at /steps/0/id: want letters, digits, _ and -, at most 128 of them, have "` + strings.Repeat("i", 60) + `…"`}},
		{"no characters", steps(`{"id":"","tool":"a"}`), []string{`at /steps/0/id: want letters, digits, _ and -, at most 128 of them, have ""`}},
		{"a duplicate id", steps(a, list, a), []string{`step "a" at /steps/2/id: duplicate id: /steps/0 has it too`}},
		{"the id of items", steps(a, loop, `{"id":"item","tool":"a"}`), []string{`step "item" at /steps/2/id: "item" is reserved in a plan with for_each: no step can have that id`}},
		{"an unknown tool", steps(`{"id":"s","tool":"get_isue"}`), one("/tool", `unknown tool "get_isue"; did you mean "get_issue"?`)},
		{"a tool by another name", steps(`{"id":"s","tool":"mcp__hub__search"}`), one("/tool", `unknown tool "mcp__hub__search"; did you mean "github__search"?`)},
		{"a tool as the client calls it", steps(`{"id":"s","tool":"mcp__mcpschedd__github__search"}`), one("/tool", `unknown tool "mcp__mcpschedd__github__search"; did you mean "github__search"?`)},
		{"a tool like no other", steps(`{"id":"s","tool":"teleport"}`), one("/tool", `unknown tool "teleport"`)},
		{"a plan", steps(`{"id":"s","tool":"execute_tool_plan"}`), one("/tool", `a plan cannot contain a plan: "execute_tool_plan" is not a tool of a server`)},
		{"a plan as some clients call it", steps(`{"id":"s","tool":"mcp__mcpschedd__execute_tool_plan"}`), one("/tool", `a plan cannot contain a plan: "mcp__mcpschedd__execute_tool_plan" is not a tool of a server`)},
		{"a named plan", steps(`{"id":"s","tool":"plan__daily"}`), one("/tool", `a plan cannot contain a plan: "plan__daily" is not a tool of a server`)},
		{"a named plan as some clients call it", steps(`{"id":"s","tool":"mcp__mcpschedd__plan__daily"}`), one("/tool", `a plan cannot contain a plan: "mcp__mcpschedd__plan__daily" is not a tool of a server`)},
		{"a tool of the proxy", steps(`{"id":"s","tool":"mcpschedd_read_result"}`), one("/tool", `a plan cannot contain a plan: "mcpschedd_read_result" is not a tool of a server`)},

		{"an array of arguments", step(`"arguments":[1]`), one("/arguments", "want an object, or a string that contains one, have an array")},
		{"a string that holds none", step(`"arguments":"[1]"`), one("/arguments", "want an object, or a string that contains one, have an array")},
		{"a string that holds nothing of the kind", step(`"arguments":"{x}"`), one("/arguments", "want an object, or a string that contains one; this string is invalid JSON: invalid character 'x' looking for beginning of object key string after 1 bytes")},
		{"a string that is deep", step(`"arguments":"{\"a\":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}"`), one("/arguments/a"+strings.Repeat("/0", 63), "nested deeper than 64 values")},
		{"an argument twice", step(`"arguments":{"x":1,"x":2}`), []string{`at /steps/0/arguments: "x": duplicate member`}},
		{"an argument that is missing", steps(`{"id":"s","tool":"get_issue","arguments":{"repo":"r"}}`), one("/arguments/number", `missing (input schema of "get_issue")`)},
		{"all that is wrong with arguments", steps(`{"id":"s","tool":"get_issue","arguments":{"number":"x","repo":5,"a/b":0}}`), []string{
			`step "s" at /steps/0/arguments/a~1b: not allowed (input schema of "get_issue")`, `step "s" at /steps/0/arguments/number: want integer, have string (input schema of "get_issue")`,
			`step "s" at /steps/0/arguments/repo: want string, have number (input schema of "get_issue")`,
		}},
		{"an argument that is not known", steps(a, `{"id":"t","tool":"get_issue","arguments":{"number":"$ref:a.n","id":1}}`), []string{`step "t" at /steps/1/arguments/id: not allowed (input schema of "get_issue")`}},
		{"an argument of another type", steps(a, `{"id":"t","tool":"get_issue","arguments":{"number":1,"repo":7}}`), []string{`step "t" at /steps/1/arguments/repo: want string, have number (input schema of "get_issue")`}},

		{"an unknown step", steps(a, `{"id":"beta","tool":"a","arguments":{"x":["$ref:bet"]}}`, `{"id":"betb","tool":"a"}`), []string{`step "beta" at /steps/1/arguments/x/0: unknown step "bet"; did you mean "beta"?`}},
		{"as the brief has it", steps(`{"id":"z","tool":"a"}`, `{"id":"b","tool":"a","arguments":{"x":{"$ref":"zz#"}}}`), []string{`step "b" at /steps/1/arguments/x: unknown step "zz"; did you mean "z"?`}},
		{"itself", step(`"arguments":{"x":"$ref:s.y"}`), one("/arguments/x", "refers to itself")},
		{"itself, when", step(`"when":"$ref:s"`), one("/when", "refers to itself")},
		{"itself, before", step(`"depends_on":["s"]`), one("/depends_on/0", "waits for itself")},
		{"before no step", step(`"depends_on":["t"]`), one("/depends_on/0", `unknown step "t"`)},
		{"before one", step(`"depends_on":"t"`), one("/depends_on", "want an array of ids, have a string")},
		{"before a number", step(`"depends_on":[7]`), one("/depends_on/0", "want an id, have a number")},
		{"an item of nothing", step(`"arguments":{"x":"$ref:item.y"}`), one("/arguments/x", `"item" is defined only in the arguments of a step with for_each`)},
		{"an item of another step", steps(a, loop, `{"id":"t","tool":"a","arguments":{"x":"$ref:index"}}`), []string{`step "t" at /steps/2/arguments/x: "index" is defined only in the arguments of a step with for_each`}},
		{"an item when", step(`"for_each":{"$ref":"item#"},"when":"$ref:item"`), append(one("/when", `"item" is defined only in the arguments of a step with for_each`), one("/for_each", `"item" is defined only in the arguments of a step with for_each`)...)},
		{"within a number", steps(a, `{"id":"t","tool":"a","for_each":"$ref:a","arguments":{"x":{"$ref":"index#/x"}}}`), []string{`step "t" at /steps/1/arguments/x: "index" is a number: there is nothing at /x in it`}},
		{"params of none", step(`"arguments":{"x":{"$ref":"params#/x"}}`), one("/arguments/x", "there are no parameters: only a named plan has them")},

		{"outputs that are no list", `{"steps":[` + a + `],"output_steps":"a"}`, []string{"at /output_steps: want an array of ids, have a string"}},
		{"no outputs", `{"steps":[` + a + `],"output_steps":[]}`, []string{"at /output_steps: want at least one id, or omit the member for all steps"}},
		{"an unknown output", `{"steps":[{"id":"abc","tool":"a"}],"output_steps":["abd"]}`, []string{`at /output_steps/0: unknown step "abd"; did you mean "abc"?`}},
		{"an output twice", `{"steps":[` + a + `],"output_steps":["a","a"]}`, []string{`at /output_steps/1: "a" is listed twice`}},

		{"when", step(`"when":true`), one("/when", "")},
		{"for_each of a list", step(`"for_each":[1,2]`), one("/for_each", "")},
		{"max_items of one", step(`"max_items":5`), one("/max_items", "only a step with for_each has it")},
		{"max_parallel of one", step(`"max_parallel":5`), one("/max_parallel", "only a step with for_each has it")},
		{"too many items", steps(a, `{"id":"t","tool":"a","for_each":"$ref:a","max_items":10001}`), []string{`step "t" at /steps/1/max_items: want a whole number from 1 to 10000, have 10001`}},
		{"a timeout of nothing", step(`"timeout":"0s"`), one("/timeout", `want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have "0s"`)},
		{"a timeout in words", step(`"timeout":"5 sec"`), one("/timeout", `want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have "5 sec"`)},
		{"an endless timeout", step(`"timeout":1e300`), one("/timeout", `want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have 1e300`)},
		{"a timeout before now", step(`"timeout":-1`), one("/timeout", `want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have -1`)},
		{"milliseconds", step(`"timeout":5000`), one("/timeout", `want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have 5000`)},
		{"seconds as a text", step(`"timeout":"5"`), one("/timeout", `want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have "5"`)},
		{"half a try", step(`"retry":0.5`), one("/retry", "want a whole number from 0 to 5, have 0.5")},
		{"on_error", step(`"on_error":"ignore"`), one("/on_error", `want "fail", "skip", "default" or "continue", have "ignore"`)},
		{"a default of nothing", step(`"on_error":"default"`), one("/on_error", `"default" needs a member "default" with the value`)},
		{"a default without an error", step(`"default":[]`), one("/default", `stands in for a result only with "on_error": "default"`)},
		{"worth less than nothing", step(`"value":-1`), one("/value", "want a number from 0 to 1e+09, have -1")},
		{"more than sure", step(`"probability":1.1`), one("/probability", "want a number from 0 to 1, have 1.1")},
		{"more than any number", step(`"max_tokens":1e999`), one("/max_tokens", "want a whole number of at least 1, have 1e999")},
		{"no tokens", step(`"max_tokens":0`), one("/max_tokens", "want a whole number of at least 1, have 0")},
		{"a member of a step twice", step(`"id":"t"`), []string{`at /steps/0: "id": duplicate member`}},
		{"an unknown member of a step", step(`"dependson":[],"a/b":1`), append(one("/dependson", `unknown member; did you mean "depends_on"?`), one("/a~1b", "unknown member; there are id, tool, arguments, depends_on, when, for_each, …")...)},
		{"a write again", steps(`{"id":"s","tool":"create_issue","retry":1}`), one("/retry", `"create_issue" may change something: such a call is not retried`)},
		{"a write that may be left out", steps(`{"id":"s","tool":"create_issue","optional":true}`), one("/optional", `"create_issue" may change something: only reads are optional`)},

		{"two wait for each other", steps(`{"id":"x","tool":"a","depends_on":["y"]}`, `{"id":"y","tool":"a","arguments":{"x":"$ref:x"}}`), []string{`step "x" at /steps/0: cycle: x -> y -> x, each waits for the next`}},
		{
			"three, from the first one on", steps(a, `{"id":"x","tool":"a","when":"$ref:z","depends_on":["a"]}`, `{"id":"y","tool":"a","depends_on":["x"]}`, `{"id":"z","tool":"a","for_each":"$ref:y"}`),
			[]string{`step "x" at /steps/1: cycle: x -> z -> y -> x, each waits for the next`},
		},
		{
			"from the first one on, though another one leads there", steps(`{"id":"x","tool":"a","depends_on":["z"]}`, `{"id":"y","tool":"a","depends_on":["z"]}`, `{"id":"z","tool":"a","depends_on":["y"]}`),
			[]string{`step "y" at /steps/1: cycle: y -> z -> y, each waits for the next`},
		},
		{
			"two cycles", steps(`{"id":"x","tool":"a","depends_on":["y"]}`, `{"id":"y","tool":"a","depends_on":["x"]}`, `{"id":"v","tool":"a","depends_on":["w"]}`, `{"id":"w","tool":"a","depends_on":["v"]}`),
			[]string{`step "x" at /steps/0: cycle: x -> y -> x, each waits for the next`, `step "v" at /steps/2: cycle: v -> w -> v, each waits for the next`},
		},

		{"a member the result never has", steps(list, `{"id":"t","tool":"a","arguments":{"x":{"$ref":"list#/item"}}}`), []string{`step "t" at /steps/1/arguments/x: the result of "list" has nothing at "/item"; did you mean "items"?`}},
		{"a field the result never has", steps(list, `{"id":"t","tool":"a","arguments":{"x":"$ref:list.items.0.nummer"}}`), []string{`step "t" at /steps/1/arguments/x: the result of "list" has nothing at "/items/0/nummer"; did you mean "number"?`}},
		{"a member of an array", steps(list, `{"id":"t","tool":"a","arguments":{"x":{"$ref":"list#/items/number"}}}`), []string{`step "t" at /steps/1/arguments/x: the result of "list" has nothing at "/items/number"; there is an array: want an index or * in place of "number"`}},
		{"within a number of the result", steps(list, `{"id":"t","tool":"a","arguments":{"x":{"$tpl":"n: ${list#/total/x}"}}}`), []string{`step "t" at /steps/1/arguments/x/$tpl: the result of "list" has nothing at "/total/x"`}},
		{"for_each of a number", steps(list, `{"id":"t","tool":"a","for_each":{"$ref":"list#/total"}}`), []string{`step "t" at /steps/1/for_each: the result of "list" has no array there`}},
		{"a member of all items", steps(a, loop, `{"id":"t","tool":"a","arguments":{"x":"$ref:loop.total"}}`), []string{`step "t" at /steps/2/arguments/x: the result of "loop" is an array: want an index or * in place of "total"`}},
		{"a member no item has", steps(a, loop, `{"id":"t","tool":"a","arguments":{"x":{"$ref":"loop#/*/sum"}}}`), []string{`step "t" at /steps/2/arguments/x: the result of "loop" has nothing at "/*/sum"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, defects := plan.Parse([]byte(c.raw), parsing(t))
			if p != nil {
				t.Error("got a plan, want none")
			}
			told(t, defects, c.want)
		})
	}
}

// told compares defects; a wanted one may be a prefix.
func told(t *testing.T, defects plan.Defects, want []string) {
	t.Helper()
	var got []string
	for _, d := range defects {
		got = append(got, d.String())
	}
	if len(got) != len(want) {
		t.Fatalf("got  %d: %s\nwant %d: %s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
	for i := range got {
		if open := strings.HasSuffix(want[i], ": "); got[i] != want[i] && !(open && strings.HasPrefix(got[i], want[i])) {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

func TestDefectsOfParams(t *testing.T) {
	o := parsing(t)
	o.Params = []byte(`{"day":"mon","deep":{"x":1}}`)
	for ref, want := range map[string]string{
		`{"$ref":"params#/dya"}`:    `unknown parameter "dya"; did you mean "day"?`,
		`"$ref:params.dya"`:         `unknown parameter "dya"; did you mean "day"?`,
		`{"$ref":"params#/deep/y"}`: `there is nothing at /y in the parameter "deep"`,
	} {
		_, defects := plan.Parse([]byte(steps(`{"id":"s","tool":"a","arguments":{"x":`+ref+`}}`)), o)
		told(t, defects, []string{`step "s" at /steps/0/arguments/x: ` + want})
	}
	_, defects := plan.Parse([]byte(steps(`{"id":"params","tool":"a"}`, `{"id":"s","tool":"a","for_each":{"$ref":"params#/day"}}`)), o)
	told(t, defects, []string{
		`step "params" at /steps/0/id: "params" are the parameters of this plan: no step can have that id`,
		`step "s" at /steps/1/for_each: want an array, the parameter is a string`,
	})
}

func TestDefectsReadOnly(t *testing.T) {
	o := parsing(t)
	o.ReadOnly = true
	_, defects := plan.Parse([]byte(steps(`{"id":"r","tool":"get_issue","arguments":{"number":1}}`, `{"id":"w","tool":"create_issue"}`, `{"id":"m","tool":"mystery"}`)), o)
	told(t, defects, []string{
		`step "w" at /steps/1/tool: "create_issue" may change something: plans may only read ([plan].mutations)`,
		`step "m" at /steps/2/tool: "mystery" may change something: plans may only read ([plan].mutations)`,
	})
}

// A plan full of defects takes bounded time and memory.
func TestDefectsBounded(t *testing.T) {
	o := parsing(t)
	o.Bytes = 0
	refs := strings.TrimSuffix(strings.Repeat(`"$ref:nothing",`, 900), ",")
	var many []string
	for i := range 90 {
		many = append(many, fmt.Sprintf(`{"id":"s%d","tool":"a","arguments":{"x":[%s]}}`, i, refs))
	}
	_, defects := plan.Parse([]byte(steps(many...)), o)
	if len(defects) != 1001 || defects[1000].Message != "and more: only 1000 are listed" {
		t.Errorf("got %d defects, the last %v", len(defects), defects[len(defects)-1])
	}
	ids := strings.TrimSuffix(strings.Repeat(`"s",`, 100_000), ",")
	if _, defects := plan.Parse([]byte(steps(`{"id":"s","tool":"a","depends_on":[`+ids+`]}`)), o); len(defects) > 60 {
		t.Errorf("got %d defects of one list", len(defects))
	}
}

// A place that an output schema does not exclude may exist.
func TestOutputMayHold(t *testing.T) {
	for _, c := range []struct {
		schema, pointer string
		possible        bool
	}{
		{`{}`, "/x", true},
		{`true`, "/x", true},
		{`{"type":"object"}`, "/x/y/0", true},
		{`{"type":["object","null"],"properties":{"a":{}},"additionalProperties":false}`, "/b", false},
		{`{"properties":{"a":{}},"additionalProperties":false}`, "/b", false},
		{`{"properties":{"a":{}},"additionalProperties":false}`, "/0", true}, // it may be an array
		{`{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`, "/b", true},
		{`{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`, "/b/c", false},
		{`{"patternProperties":{"^x":{}},"additionalProperties":false}`, "/y", true},
		{`{"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"kid":{"$ref":"#/$defs/t"}},"additionalProperties":false}}}`, "/kid/kid/kid", true},
		{`{"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"kid":{"$ref":"#/$defs/t"}},"additionalProperties":false}}}`, "/kid/kid/kod", true}, // recursive
		{`{"$ref":"#/$defs/t","$defs":{"t":{"$ref":"#/$defs/t"}}}`, "/a", true},                                                                               // recursive without constraints
		{`{"$ref":"https://example.com/t"}`, "/a", true},
		{`{"properties":{"a":{"$id":"x","$ref":"#/properties/b"},"b":{"type":"string"}}}`, "/a/c", true},
		{`{"anyOf":[{"type":"string"},{"type":"object"}]}`, "/a", true},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, "/a", false},
		{`{"oneOf":[{"type":"string"}],"type":"object"}`, "/a", false},
		{`{"allOf":[{},{"type":"string"}]}`, "/a", false},
		{`{"items":{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false},"type":"array"}`, "/*/n", true},
		{`{"items":{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false},"type":"array"}`, "/0/m", false},
		{`{"items":{"type":"string"},"type":"array"}`, "/01", false},
		{`{"prefixItems":[{"type":"string"}],"items":{"type":"object"},"type":"array"}`, "/1/x", true},
		{`{"items":[{"type":"string"}],"type":"array"}`, "/0/x", true},
		{`{"prefixItems":[{"type":"object"}],"items":{"type":"string"},"type":"array"}`, "/0/x", true},
		{`{"$ref":"#anchor","nchor":{"type":"string"}}`, "/a", true},
		{`{"properties":{"a":false}}`, "/a", true},
		{`{"properties":{"a":false}}`, "/a/b", false},
		{`{"type":7,"properties":[],"anyOf":{},"items":null}`, "/a", true}, // fictitious
	} {
		if !json.Valid([]byte(c.schema)) {
			t.Fatalf("%s: no JSON", c.schema)
		}
		o := parsing(t)
		find := o.Find
		o.Find = func(name string) *plan.Tool {
			tool := *find(name)
			tool.Output = []byte("\n" + c.schema)
			return &tool
		}
		raw := steps(`{"id":"p","tool":"a"}`, `{"id":"q","tool":"a","arguments":{"x":{"$ref":"p#`+c.pointer+`"}}}`)
		if _, defects := plan.Parse([]byte(raw), o); len(defects) == 0 != c.possible {
			t.Errorf("%s of %s: got %v, want possible %v", c.pointer, c.schema, defects, c.possible)
		}
		for _, excuse := range []string{
			steps(`{"id":"p","tool":"a"}`, `{"id":"q","tool":"a","arguments":{"x":{"$ref":"p#`+c.pointer+`","default":0}}}`),
			steps(`{"id":"p","tool":"a","on_error":"default","default":`+holding(c.pointer)+`}`, `{"id":"q","tool":"a","arguments":{"x":{"$ref":"p#`+c.pointer+`"}}}`),
		} {
			if _, defects := plan.Parse([]byte(excuse), o); len(defects) > 0 && !strings.Contains(c.pointer, "*") && c.pointer != "/01" {
				t.Errorf("%s: got %v", excuse, defects)
			}
		}
	}
}

// holding returns a value that has something at a pointer.
func holding(pointer string) string {
	if pointer == "" {
		return "1"
	}
	at := strings.LastIndexByte(pointer, '/')
	value, name := "1", pointer[at+1:]
	for {
		value = `{"` + name + `":` + value + `}`
		if pointer = pointer[:at]; pointer == "" {
			return value
		}
		at = strings.LastIndexByte(pointer, '/')
		name = pointer[at+1:]
	}
}
