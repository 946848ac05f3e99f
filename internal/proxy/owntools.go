package proxy

import (
	"bytes"
	"errors"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
)

// ownTool is a tool of the proxy's own.
type ownTool struct {
	name  string
	item  []byte // as it is listed
	serve func(*request)
}

// The names of the proxy's own tools. A named plan is plan__NAME.
const (
	planTool     = "execute_tool_plan"
	scheduleTool = "mcpschedd_schedule"
	readTool     = "mcpschedd_read_result"
	planPrefix   = "plan" + separator
)

// ownTools are those that a policy offers, in the order of the list.
func ownTools(p *Plans) []*ownTool {
	if !p.Enabled {
		return nil
	}
	reads, runs := `{"readOnlyHint":true,"openWorldHint":false}`, `{"readOnlyHint":false,"destructiveHint":true}`
	if p.Mutations == "deny" {
		runs = `{"readOnlyHint":true,"openWorldHint":true}` // what a step tells third parties of another is confirmed all the same
	}
	out := []*ownTool{
		{planTool, ownItem(planTool, plan.Description(p.Limits), plan.InputSchema(), plan.OutputSchema(), runs), (*request).servePlan},
		{scheduleTool, ownItem(scheduleTool, scheduleDescription, plan.ScheduleSchema(), nil, reads), (*request).serveSchedule},
		{readTool, ownItem(readTool, readDescription, plan.ReadSchema(), nil, reads), (*request).serveRead},
	}
	for i := range p.Named {
		n := &p.Named[i]
		out = append(out, &ownTool{
			planPrefix + n.Name,
			ownItem(planPrefix+n.Name, n.Description, n.inputSchema(), plan.OutputSchema(), runs),
			func(x *request) { x.serveNamed(n) },
		})
	}
	return out
}

const (
	scheduleDescription = "Say which of some possible tool calls are worth making within a token budget, and in which order over parallel slots. Nothing is run. A call may refer to another's result as $result_ID; value (0 to 1), probability, cost_tokens default to what is known of the tool."
	readDescription     = "Read what did not fit into an answer of execute_tool_plan: give its handle, and pointer and offset as left_out names them (a pointer begins with /STEP). Without a handle: which results are kept."
)

func ownItem(name, description string, input, output []byte, annotations string) []byte {
	item := jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, name))
	item = jsonrpc.Set(item, "description", jsonrpc.AppendString(nil, description))
	item = jsonrpc.Set(item, "inputSchema", input)
	if output != nil {
		item = jsonrpc.Set(item, "outputSchema", output)
	}
	return jsonrpc.Set(item, "annotations", []byte(annotations))
}

// ownTool is the tool of the proxy's own that bears the name in this view; nil
// if none does.
func (v *view) ownTool(p *policy, name string) *ownTool {
	if !v.offersOwn() {
		return nil
	}
	for _, t := range p.own {
		if t.name == name && v.claim(name) {
			return t
		}
	}
	return nil
}

// callsOwnTool reports whether the request calls a tool of the proxy's own: then nothing
// is asked of an upstream for the request itself.
func (x *request) callsOwnTool() bool { return x.msg.Method == "tools/call" && x.call == nil }

// toolName is the name of the tool that is called, as the client writes it.
func (x *request) toolName() string {
	name, _ := jsonrpc.String(x.msg.Index.Get("name"))
	return name
}

// ownArguments are the arguments of a call of one of these tools.
func (x *request) ownArguments() ([]byte, error) {
	raw := x.msg.Index.Get("arguments")
	if raw == nil || bytes.Equal(raw, []byte("null")) {
		return noArguments, nil
	}
	if raw[0] != '{' {
		return nil, errors.New("arguments: want an object")
	}
	return raw, nil
}

// answerText answers with a text, or with why there is none.
func (x *request) answerText(text string, err error) {
	failed := ""
	if err != nil {
		text, failed = err.Error(), `,"isError":true`
	}
	out := jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), text)
	x.finish(append(append(append(out, `}]`...), failed...), '}'))
}

// answerStructured answers with what has a structure, and with its text for clients that
// read no other.
func (x *request) answerStructured(structured []byte, blocks [][]byte, failed bool) {
	out := jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), string(structured))
	out = append(out, '}')
	for _, b := range blocks {
		out = append(append(out, ','), b...)
	}
	out = append(append(out, `],"structuredContent":`...), structured...)
	if failed {
		out = append(out, `,"isError":true`...)
	}
	x.finish(append(out, '}'))
}

// serveSchedule answers a call of mcpschedd_schedule.
func (x *request) serveSchedule() {
	raw, err := x.ownArguments()
	if err != nil {
		x.answerText("", err)
		return
	}
	x.s.awaitOffers(x.ctx)
	out, defects := plan.Schedule(raw, x.planOptions(nil))
	if len(defects) > 0 {
		x.answerText("", defects)
		return
	}
	x.answerStructured(out, nil, false)
}
