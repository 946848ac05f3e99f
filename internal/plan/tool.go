package plan

import (
	"bytes"
	_ "embed"
	"fmt"
)

// Guide documents the whole format of a plan, in more detail than [Description].
//
//go:embed guide.md
var Guide string

// Description is the description of execute_tool_plan. Every session of a model contains it, so
// it is short: just enough to write a correct plan.
func Description(s *Settings) string {
	text := `Run many tool calls as one plan, without a turn for each. Use it whenever you can name two or more calls beforehand, even if later ones need results of earlier ones. A step starts when what it refers to is there, the others run beside it; writes keep the order written.
In arguments, instead of a value: {"$ref":"ID#/items/0/name"}, by JSON pointer into the result of step ID, "ID#" all of it, /items/*/name of every item, with "default" beside it if it may be missing; {"$tpl":"text ${ID#/name}"}; {"$lit":…} a value as it is. Short: "$ref:ID.field".
Example: {"steps":[{"id":"found","tool":"search","arguments":{"q":"bug"}},{"id":"each","tool":"get","for_each":{"$ref":"found#/items"},"arguments":{"n":{"$ref":"item#/number"}}}],"output_steps":["each"]}
Only output_steps come back (none named: all). tool: without your client's prefix. when: a reference or {"ref":…,"op":"eq|ne|lt|gt|in|exists","value":…}. on_error "fail" skips the steps that wait. More: resource ` + GuideURI + "."
	if s.ReadOnly() {
		text += " Only tools that read."
	}
	return text + fmt.Sprintf(" At most %d steps.", s.Steps)
}

// GuideURI is the URI of the resource with the [Guide].
const GuideURI = "mcpschedd://plans"

//go:embed plan.schema.json
var inputSchema []byte

// InputSchema returns the JSON Schema of execute_tool_plan's arguments. It only names the
// members, because [Parse] reports errors better than a schema could.
func InputSchema() []byte { return bytes.TrimSpace(inputSchema) }

// OutputSchema returns the JSON Schema of execute_tool_plan's result.
func OutputSchema() []byte {
	return []byte(`{"type":"object","properties":{"steps":{"type":"array"},"outputs":{"type":"object"}},"required":["steps","outputs"]}`)
}
