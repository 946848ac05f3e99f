package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/plan"
)

// Each defect of a plan has a place and a message.
func TestDefects(t *testing.T) {
	const (
		a       = `{"id":"a","tool":"a"}`
		list    = `{"id":"list","tool":"list"}`
		loop    = `{"id":"loop","tool":"list","for_each":"$ref:a.rows","arguments":{"x":"$ref:item"}}`
		timeout = `want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have `
		ofItems = ` is defined only in the arguments of a step with for_each`
		noPlan  = `/steps/0/tool: a plan cannot contain a plan: `
	)
	for raw, want := range map[string]string{
		``:                        ": invalid JSON: unexpected end of JSON input",
		`{"steps":[`:              ": invalid JSON: unexpected end of JSON input",
		`[{"id":"a","tool":"a"}]`: ": want an object with steps, have array",
		`null`:                    ": want an object with steps, have null",
		`{"steps":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`: "/steps/0: want an object with id and tool, have array",
		`{"steps":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`:                   ": 1048595 bytes: at most 1048576 are read ([plan].max_result_bytes)",
		`{}`:                "/steps: want an array of objects with id and tool, have nothing",
		`{"steps":{"a":1}}`: `/steps: want an array of objects with id and tool, have {"a":1}`,
		`{"steps":[ ]}`:     "/steps: want an array of objects with id and tool, have [ ]",
		`{"steps":["a"]}`:   "/steps/0: want an object with id and tool, have string",
		`{"steps":[` + a + `,1],"output_steps":["a"]}`:                              "/steps/1: want an object with id and tool, have number",
		steps(strings.Repeat(a+",", 100) + a):                                       "/steps: 101 steps: a plan may have 100 ([plan].max_steps)",
		`{"steps":[` + a + `],"dry_run":true,"dry_run":false}`:                      `: "dry_run": duplicate member`,
		`{"steps":[` + a + `],"budget":1}`:                                          `/budget: unknown member; did you mean "budget_tokens"?`,
		`{"steps":[` + a + `],"dry_run":"yes"}`:                                     `/dry_run: want true or false, have "yes"`,
		`{"steps":[` + a + `],"budget_tokens":0}`:                                   "/budget_tokens: want a whole number of at least 1, have 0",
		`{"steps":[` + a + `],"output_steps":"a"}`:                                  `/output_steps: want an array of ids, have "a"`,
		`{"steps":[` + a + `],"output_steps":[]}`:                                   "/output_steps: want at least one id, or omit the member for all steps",
		`{"steps":[` + a + `],"output_steps":["b"]}`:                                `/output_steps/0: unknown step "b"`,
		`{"steps":[` + a + `],"output_steps":["a#/items"]}`:                         `/output_steps/0: unknown step "a#/items"; want only the id, "a"`,
		`{"steps":[` + a + `],"plan":1}`:                                            "/plan: unknown member; want one of budget_tokens, dry_run, output_steps, steps",
		steps(`{"id":"s","tool":"a","for_each":[1],"arguments":{"x":"$ref:item"}}`): `/steps/0/for_each: want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}, have [1]`,
		`{"steps":[` + a + `],"output_steps":["a","a"]}`:                            `/output_steps/1: "a" is listed twice`,
		steps(`{"tool":"a"}`):                                                       `/steps/0: missing member "id"`,
		steps(`{"id":"s"}`):                                                         `/steps/0: missing member "tool"`,
		steps(`{"id":1,"tool":"a"}`):                                                "/steps/0/id: want a string, have 1",
		steps(`{"id":"a.b","tool":"a"}`):                                            `/steps/0/id: want letters, digits, _ and -, at most 128 of them, have "a.b"`,
		steps(`{"id":"` + strings.Repeat("i", 129) + `","tool":"a"}`):               `/steps/0/id: want letters, digits, _ and -, at most 128 of them, have "` + strings.Repeat("i", 57) + `…"`,
		steps(a, list, a):                                                           `/steps/2/id: duplicate id: /steps/0 has it too`,
		steps(a, loop, `{"id":"item","tool":"a"}`):                                  `/steps/2/id: "item" is reserved in a plan with for_each: no step can have that id`,
		steps(`{"id":"s","tool":"get_isue"}`):                                       `/steps/0/tool: unknown tool "get_isue"; did you mean "get_issue"?`,
		steps(`{"id":"s","tool":"mcp__mcpschedd__github__search"}`):                 `/steps/0/tool: unknown tool "mcp__mcpschedd__github__search"; did you mean "github__search"?`,
		steps(`{"id":"s","tool":"teleport"}`):                                       `/steps/0/tool: unknown tool "teleport"`,
		steps(`{"id":"s","tool":"execute_tool_plan"}`):                              noPlan + `"execute_tool_plan" is not a tool of a server`,
		steps(`{"id":"s","tool":"mcp__mcpschedd__execute_tool_plan"}`):              noPlan + `"mcp__mcpschedd__execute_tool_plan" is not a tool of a server`,
		steps(`{"id":"s","tool":"mcp__mcpschedd__plan__daily"}`):                    noPlan + `"mcp__mcpschedd__plan__daily" is not a tool of a server`,
		steps(`{"id":"s","tool":"mcpschedd_read_result"}`):                          noPlan + `"mcpschedd_read_result" is not a tool of a server`,
		steps(`{"id":"s","tool":"a","arguments":[1]}`):                              "/steps/0/arguments: want an object, or a string that contains one, have array",
		steps(`{"id":"s","tool":"a","arguments":"[1]"}`):                            "/steps/0/arguments: want an object, or a string that contains one, have array",
		steps(`{"id":"s","tool":"a","arguments":"{x}"}`):                            "/steps/0/arguments: want an object, or a string that contains one, have a string that is not JSON at byte 1",
		steps(`{"id":"s","tool":"get_issue","arguments":{"number":"x","repo":5,"a/b":0}}`): `/steps/0/arguments/a~1b: not allowed (input schema of "get_issue")` +
			"\n" + `/steps/0/arguments/number: want integer, have string (input schema of "get_issue")` + "\n" + `/steps/0/arguments/repo: want string, have number (input schema of "get_issue")`,
		steps(a, `{"id":"t","tool":"get_issue","arguments":{"repo":"$ref:a.n","id":1}}`): `/steps/1/arguments/id: not allowed (input schema of "get_issue")` + "\n" + `/steps/1/arguments/number: missing (input schema of "get_issue")`,
		steps(a, `{"id":"beta","tool":"a","arguments":{"x":["$ref:bet"]}}`):              `/steps/1/arguments/x/0: unknown step "bet"; did you mean "beta"?`,
		steps(`{"id":"s","tool":"a","depends_on":["s","t"]}`):                            "/steps/0/depends_on: waits for itself\n/steps/0/depends_on: unknown step \"t\"",
		steps(`{"id":"s","tool":"a","depends_on":[7]}`):                                  "/steps/0/depends_on: want an array of ids, have [7]",
		steps(a, loop, `{"id":"t","tool":"a","arguments":{"x":"$ref:index"}}`):           `/steps/2/arguments/x: "index"` + ofItems,
		steps(`{"id":"s","tool":"a","for_each":{"$ref":"item#"},"when":"$ref:item"}`):    `/steps/0/for_each: "item"` + ofItems + "\n" + `/steps/0/when: "item"` + ofItems,
		steps(`{"id":"s","tool":"a","for_each":[1,2]}`):                                  `/steps/0/for_each: want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}, have [1,2]`,
		steps(`{"id":"s","tool":"a","timeout":"0s"}`):                                    "/steps/0/timeout: " + timeout + `"0s"`,
		steps(`{"id":"s","tool":"a","timeout":5000}`):                                    "/steps/0/timeout: " + timeout + `5000`,
		steps(`{"id":"s","tool":"a","timeout":"5"}`):                                     "/steps/0/timeout: " + timeout + `"5"`,
		steps(`{"id":"s","tool":"a","retry":0.5}`):                                       "/steps/0/retry: want a whole number from 0 to 5, have 0.5",
		steps(`{"id":"s","tool":"a","default":0,"max_items":1,"max_parallel":1,"value":1,"probability":1}`): `/steps/0/default: has no effect without "on_error": "default"` + "\n" +
			`/steps/0/max_items: has no effect without "for_each"` + "\n" + `/steps/0/max_parallel: has no effect without "for_each"` + "\n" +
			`/steps/0/probability: has no effect without "optional": true` + "\n" + `/steps/0/value: has no effect without "optional": true`,
		steps(`{"id":"s","tool":"a","retry":6}`):                                "/steps/0/retry: want a whole number from 0 to 5, have 6",
		steps(a, `{"id":"s","tool":"a","for_each":"$ref:a","max_items":10001}`): "/steps/1/max_items: want a whole number from 1 to 10000, have 10001",
		steps(`{"id":"s","tool":"a","optional":true,"probability":1.5}`):        "/steps/0/probability: want a number from 0 to 1, have 1.5",
		steps(`{"id":"s","tool":"a","max_tokens":1e999}`):                       "/steps/0/max_tokens: want a whole number of at least 1, have 1e999",
		steps(`{"id":"s","tool":"a","optional":true,"value":-1}`):               "/steps/0/value: want a number from 0 to 1e+09, have -1",
		steps(`{"id":"s","tool":"a","on_error":"ignore"}`):                      `/steps/0/on_error: want "fail", "skip", "default" or "continue", have "ignore"`,
		steps(`{"id":"s","tool":"a","on_error":"default"}`):                     `/steps/0: "on_error": "default" needs a member "default" with the value`,
		steps(`{"id":"s","tool":"create_issue","retry":1}`):                     `/steps/0/retry: "create_issue" may change something: such a call is not retried`,
		steps(`{"id":"s","tool":"create_issue","optional":true}`):               `/steps/0/optional: "create_issue" may change something: only reads are optional`,
		steps(a, `{"id":"x","tool":"a","when":"$ref:z","depends_on":["a"]}`, `{"id":"y","tool":"a","depends_on":["x"]}`, `{"id":"z","tool":"a","for_each":"$ref:y"}`): `/steps/1: cycle: x -> z -> y -> x, each waits for the next`,
		steps(list, `{"id":"t","tool":"a","arguments":{"x":{"$ref":"list#/item"}}}`):                                                                                  `/steps/1/arguments/x: the result of "list" has nothing at "/item"`,
		steps(list, `{"id":"t","tool":"a","arguments":{"x":"$ref:list.items.0.nummer"}}`):                                                                             `/steps/1/arguments/x: the result of "list" has nothing at "/items/0/nummer"`,
		steps(list, `{"id":"t","tool":"a","arguments":{"x":{"$tpl":"${list#/total/x}"}}}`):                                                                            `/steps/1/arguments/x/$tpl: the result of "list" has nothing at "/total/x"`,
		steps(list, `{"id":"t","tool":"a","for_each":{"$ref":"list#/total"}}`):                                                                                        `/steps/1/for_each: the result of "list" has no array at "/total"`,
		steps(a, loop, `{"id":"t","tool":"a","arguments":{"x":"$ref:loop.total"}}`):                                                                                   `/steps/2/arguments/x: the result of "loop" is an array: want an index or * in place of "total"`,
		steps(a, loop, `{"id":"t","tool":"a","arguments":{"x":{"$ref":"loop#/*/sum"}}}`):                                                                              `/steps/2/arguments/x: the result of "loop" has nothing at "/*/sum"`,
	} {
		p, defects := plan.Parse([]byte(raw), parsing(t))
		var got []string
		for _, d := range defects {
			got = append(got, d.Pointer+": "+d.Message)
		}
		if strings.Join(got, "\n") != want || p != nil {
			t.Errorf("%.200s:\ngot  %s\nwant %s", raw, strings.Join(got, "\n"), want)
		}
	}
}

// told compares the texts of defects.
func told(t *testing.T, defects plan.Defects, want []string) {
	t.Helper()
	var got []string
	for _, d := range defects {
		got = append(got, d.String())
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDefectsOfParams(t *testing.T) {
	o := parsing(t)
	o.Params = []byte(`{"day":"mon","later":null}`)
	parsed(t, steps(`{"id":"s","tool":"a","arguments":{"x":"$ref:params.day","y":{"$ref":"params#/later/x"},"z":{"$ref":"params#/no","default":1}}}`), o)
	_, defects := plan.Parse([]byte(steps(`{"id":"params","tool":"a"}`, `{"id":"s","tool":"a","arguments":{"x":"$ref:params.dya"}}`)), o)
	told(t, defects, []string{
		`step "params" at /steps/0/id: "params" are the parameters of this plan: no step can have that id`,
		`step "s" at /steps/1/arguments/x: unknown parameter "dya"`,
	})
}

func TestArgumentsOfNamed(t *testing.T) {
	n := &plan.Named{Parameters: []byte(`{"day":{"type":"string"}}`), Steps: []byte(`[{"id":"s","tool":"a","arguments":{"x":"$ref:params.day"}}]`)}
	for arguments, want := range map[string]string{
		`{"day":"mon"}`:       "<nil>",
		`{"day":1}`:           "day: want string, have number",
		`"{\"day\":\"mon\"}"`: "arguments: want an object with the plan's parameters, have string",
	} {
		if _, err := plan.Read([]byte(arguments), n, parsing(t)); fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %s", arguments, err, want)
		}
	}
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

// A plan with very many defects takes bounded time and memory.
func TestDefectsBounded(t *testing.T) {
	o := parsing(t)
	o.Bytes = unlimited.Bytes
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("server%d__get_%c_thing_%d", i%40, 'a'+i%26, i))
	}
	o.Names = func() []string { return names }
	refs := strings.TrimSuffix(strings.Repeat(`"$ref:nothing",`, 900), ",")
	var many []string
	for i := range 90 {
		many = append(many, fmt.Sprintf(`{"id":"s%d","tool":"servre%d__gte_a_thing_%d","arguments":{"x":[%s]},"depends_on":[%[4]s]}`, i, i, i*100, refs))
	}
	_, defects := plan.Parse([]byte(steps(many...)), o)
	if len(defects) != 51 || defects[50].Message != "and more: only 50 are listed" {
		t.Errorf("got %d defects, the last %v", len(defects), defects[len(defects)-1])
	}
	for _, last := range conditionsOfNothing {
		if _, defects := plan.Parse([]byte(manyDefects(last)), o); len(defects) != 51 {
			t.Errorf("%s: got %d defects", last, len(defects))
		}
	}
}

// conditionsOfNothing are conditions that are themselves defects.
var conditionsOfNothing = []string{
	`"a.ok"`, `{"ref":"a.ok","op":"eq","value":true}`, `{"ref":"$ref:a","op":"eq","value":{"$ref":"b#"}}`, `{"ref":"$ref:a","op":"eq"}`,
}

// manyDefects returns a plan with a condition that follows more defects than are listed.
func manyDefects(when string) string {
	return steps(strings.Repeat(`{"id":"","tool":"none"},`, 51) + `{"id":"z","tool":"a","when":` + when + `}`)
}

// A place that an output schema does not exclude may exist.
func TestOutputMayHold(t *testing.T) {
	for _, c := range []struct {
		schema, pointer string
		possible        bool
	}{
		{`{"properties":{"a":{}},"additionalProperties":false}`, "/b", false},
		{`{"properties":{"a":{}},"additionalProperties":false}`, "/0", true}, // the result may be an array
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, "/a", false},
		{`{"type":7,"properties":[],"anyOf":{},"items":null}`, "/a", true}, // not a valid schema
	} {
		o := parsing(t)
		o.Find = func(name string) *plan.Tool { return &plan.Tool{Name: name, Writes: never, Output: []byte(c.schema)} }
		ref := `{"$ref":"p#` + c.pointer + `"`
		if _, defects := plan.Parse([]byte(steps(`{"id":"p","tool":"a"}`, `{"id":"q","tool":"a","arguments":{"x":`+ref+`}}}`)), o); len(defects) == 0 != c.possible {
			t.Errorf("%s of %s: got %v, want possible %v", c.pointer, c.schema, defects, c.possible)
		}
		parsed(t, steps(`{"id":"p","tool":"a"}`, `{"id":"q","tool":"a","arguments":{"x":`+ref+`,"default":0}}}`), o)
		parsed(t, steps(`{"id":"p","tool":"a","on_error":"default","default":1}`, `{"id":"q","tool":"a","arguments":{"x":`+ref+`}}}`), o)
	}
}
