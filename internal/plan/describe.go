package plan

import (
	"fmt"
	"strings"
)

// Description is what a model reads of execute_tool_plan: the whole format, in some
// 370 tokens.
func Description(l Limits) string {
	var text strings.Builder
	text.WriteString(`Run many tool calls as one plan, without a turn for each. Use it whenever you can name two or more calls beforehand, also if later ones take their arguments from results of earlier ones.
Steps start as soon as what they refer to has arrived, independent ones in parallel. In arguments, instead of a value:
{"$ref":"ID#"} the whole result of step ID; {"$ref":"ID#/items/0/name"} part of it, by JSON pointer; /items/*/name of every item; "default" beside it if it may be missing
{"$tpl":"text ${ID#/name}"} text with results in it; {"$lit":…} a value left as it is
"$ref:ID.field" short form, null if missing
Example: {"steps":[{"id":"found","tool":"search","arguments":{"q":"bug"}},{"id":"each","tool":"get","for_each":{"$ref":"found#/items"},"arguments":{"n":{"$ref":"item#/number"}}}],"output_steps":["each"]}
tool: names as listed to you, without your client's prefix. output_steps: results you want to see, all if left out. Also per step: depends_on [ids]; when: a reference, or {"ref":…,"op":"eq|ne|lt|gt|in|exists","value":…}; timeout; retry (reads); on_error: "fail" (who waits is skipped), "skip", "default" (with "default": value), "continue"; optional with value and probability (run only within budget_tokens). Writes run in the order written, as far as references allow. dry_run: true shows order, time, tokens and writes only.`)
	if l.Steps > 0 {
		fmt.Fprintf(&text, " At most %d steps.", l.Steps)
	}
	if l.ReadOnly {
		text.WriteString(" Only tools that read.")
	}
	return text.String()
}

// InputSchema is the JSON Schema of execute_tool_plan's arguments.
func InputSchema() []byte { return []byte(inputSchema) }

// OutputSchema is the JSON Schema of what execute_tool_plan returns: of a dry run
// plan alone, else all the others.
func OutputSchema() []byte { return []byte(outputSchema) }

// ReadSchema is the JSON Schema of mcpschedd_read_result's arguments.
func ReadSchema() []byte { return []byte(readSchema) }

const idList = `{"type":"array","items":{"type":"string"}}`

const inputSchema = `{"type":"object","properties":{` +
	`"steps":{"type":"array","minItems":1,"items":{"type":"object","properties":{` +
	`"id":{"type":"string","pattern":"^[A-Za-z0-9_-]+$"},` +
	`"tool":{"type":"string"},` +
	`"arguments":{"type":["object","string"]},` +
	`"depends_on":` + idList + `,` +
	`"when":{"type":["object","string"]},` +
	`"for_each":{"type":["object","string"]},` +
	`"max_items":{"type":"integer","minimum":1,"maximum":10000,"description":"of for_each; default 100"},` +
	`"max_parallel":{"type":"integer","minimum":1},` +
	`"timeout":{"type":["string","number"],"description":"seconds, or \"5s\""},` +
	`"retry":{"type":"integer","minimum":0,"maximum":5},` +
	`"on_error":{"enum":["fail","skip","default","continue"]},` +
	`"default":{},` +
	`"optional":{"type":"boolean"},` +
	`"value":{"type":"number","minimum":0,"maximum":1000000000},` +
	`"probability":{"type":"number","minimum":0,"maximum":1},` +
	`"max_tokens":{"type":"integer","minimum":1}` +
	`},"required":["id","tool"],"additionalProperties":false}},` +
	`"output_steps":` + idList + `,` +
	`"budget_tokens":{"type":"integer","minimum":1},` +
	`"dry_run":{"type":"boolean"}` +
	`},"required":["steps"],"additionalProperties":false}`

const outputSchema = `{"type":"object","properties":{` +
	`"steps":{"type":"array","items":{"type":"object","properties":{` +
	`"id":{"type":"string"},"status":{"enum":["ok","failed","skipped","cancelled"]},"reason":{"type":"string"},` +
	`"ms":{"type":"number"},"tokens":{"type":"integer"},"source":{"type":"string"},"calls":{"type":"integer"}` +
	`},"required":["id","status"]}},` +
	`"steps_left_out":{"type":"integer"},` +
	`"outputs":{"type":"object"},` +
	`"handle":{"type":"string","description":"to {ID: whole result}, which pointers in left_out lead into"},` +
	`"left_out":{"type":"array","items":{"type":"object","properties":{` +
	`"pointer":{"type":"string"},"what":{"type":"string"},` +
	`"offset":{"type":"integer"},"count":{"type":"integer"},"bytes":{"type":"integer"}},"required":["what"]}},` +
	`"ended":{"type":"string"},` +
	`"plan":{"type":"object"}` +
	`}}`

const readSchema = `{"type":"object","properties":{` +
	`"handle":{"type":"string","description":"default: tell which results are kept"},` +
	`"pointer":{"type":"string","description":"JSON pointer into the result; default: the whole"},` +
	`"offset":{"type":"integer","minimum":0,"description":"of items, or of bytes of text, to go on from"}` +
	`},"additionalProperties":false}`
