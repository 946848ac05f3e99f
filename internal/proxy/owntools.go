package proxy

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
)

// ownTool is a tool of the proxy's own.
type ownTool struct {
	name  string
	item  []byte // as it is listed
	serve func(x *request, arguments []byte)
	wraps bool // its arguments name the call that is made in its place
}

// The names of the proxy's own tools. A named plan is plan__NAME.
const (
	planTool   = "execute_tool_plan"
	readTool   = "mcpschedd_read_result"
	planPrefix = "plan" + separator
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
	out := []*ownTool{{name: planTool, item: ownItem(planTool, plan.Description(p.Limits), plan.InputSchema(), plan.OutputSchema(), runs), serve: servePlan}}
	if p.KeepFor > 0 {
		out = append(out, &ownTool{name: readTool, item: ownItem(readTool, readDescription, plan.ReadSchema(), nil, reads), serve: serveReadResult})
	}
	for i := range p.Named {
		n := &p.Named[i]
		out = append(out, &ownTool{
			name: planPrefix + n.Name, serve: serveNamed(n),
			item: ownItem(planPrefix+n.Name, n.Description, n.InputSchema(), plan.OutputSchema(), runs),
		})
	}
	return out
}

const readDescription = "Read what an answer of execute_tool_plan left out: its handle, and pointer and offset as left_out has them. Without a handle: what is kept."

func ownItem(name, description string, input, output []byte, annotations string) []byte {
	item := jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, name))
	item = jsonrpc.Set(item, "description", jsonrpc.AppendString(nil, description))
	item = jsonrpc.Set(item, "inputSchema", input)
	if output != nil {
		item = jsonrpc.Set(item, "outputSchema", output)
	}
	return jsonrpc.Set(item, "annotations", []byte(annotations))
}

// ownTools are the tools of the proxy's own that the session is offered, in the order of the
// list.
func (s *session) ownTools(p *policy) []*ownTool {
	switch {
	case !s.identity.view.offersOwn():
		return nil
	case s.choose(p).search:
		return slices.Concat(p.search, p.own)
	}
	return p.own
}

// ownTool is the tool of the proxy's own that bears the name in this session; nil
// if none does.
func (s *session) ownTool(p *policy, name string) *ownTool {
	for _, t := range s.ownTools(p) {
		if t.name == name && s.identity.view.claim(name) {
			return t
		}
	}
	return nil
}

// callsOwnTool reports whether the request calls a tool of the proxy's own: then nothing
// is asked of an upstream for the request itself.
func (x *request) callsOwnTool() bool { return x.msg.Method == "tools/call" && x.call == nil }

// toolName is the name of the tool that is called, as the client writes it.
func toolName(params *revision.Params) string {
	name, _ := jsonrpc.String(params.Get("name"))
	return name
}

// serveOwnTool answers a call of one of these tools.
func serveOwnTool(x *request, own *ownTool) {
	x.s.observed.turns.begin(time.Now())
	switch raw := x.msg.Index.Get("arguments"); {
	case raw == nil || bytes.Equal(raw, []byte("null")):
		own.serve(x, noArguments)
	case raw[0] != '{':
		x.finish(failedResult(errors.New("arguments: want an object")))
	default:
		own.serve(x, raw)
	}
}

// textResult is a result that is a text.
func textResult(text string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), text), `}]}`...)
}

// failedResult is one that says why there is none.
func failedResult(err error) []byte {
	return jsonrpc.Set(textResult(err.Error()), "isError", []byte("true"))
}

// structuredResult is one that has a structure, with its text for clients that read no
// other.
func structuredResult(structured []byte, blocks [][]byte, failed bool) []byte {
	out := jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), string(structured))
	out = append(out, '}')
	for _, b := range blocks {
		out = append(append(out, ','), b...)
	}
	out = append(append(out, `],"structuredContent":`...), structured...)
	if failed {
		out = append(out, `,"isError":true`...)
	}
	return append(out, '}')
}
