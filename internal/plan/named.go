package plan

import (
	"errors"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// Named is a plan in the configuration, with parameters.
type Named struct {
	Name        string
	Description string
	Parameters  []byte   // JSON object: parameter → JSON Schema; nil if none
	Steps       []byte   // JSON array
	Outputs     []string // steps whose results are returned; nil means all
	Budget      int      // tokens; 0 means Limits.Budget
}

// Body returns the plan as arguments of execute_tool_plan.
func (n *Named) Body() []byte {
	body := jsonrpc.Set(nil, "steps", n.Steps)
	if n.Outputs != nil {
		body = jsonrpc.Set(body, "output_steps", jsonrpc.Marshal(n.Outputs))
	}
	if n.Budget > 0 {
		body = jsonrpc.Set(body, "budget_tokens", strconv.AppendInt(nil, int64(n.Budget), 10))
	}
	return body
}

// InputSchema returns the input schema of the plan's tool. Parameters without a default are
// required.
func (n *Named) InputSchema() []byte {
	required := []string{}
	for m := range jsonrpc.Members(n.Parameters) {
		if jsonrpc.Get(m.Value, "default") == nil {
			required = append(required, string(m.Name))
		}
	}
	out := jsonrpc.Set([]byte(`{"type":"object"}`), "properties", n.parameters())
	out = jsonrpc.Set(out, "required", jsonrpc.Marshal(required))
	return jsonrpc.Set(out, "additionalProperties", []byte("false"))
}

func (n *Named) parameters() []byte {
	if n.Parameters == nil {
		return []byte("{}")
	}
	return n.Parameters
}

// Fill validates the arguments of a call and adds the defaults of missing ones.
func (n *Named) Fill(arguments []byte) ([]byte, error) {
	s, err := schema.Compile(n.InputSchema())
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, f := range s.Faults(arguments, nil) {
		wrong = append(wrong, &f)
	}
	if wrong != nil {
		return nil, errors.Join(wrong...)
	}
	for m := range jsonrpc.Members(n.Parameters) {
		if value := jsonrpc.Get(m.Value, "default"); value != nil && jsonrpc.Get(arguments, string(m.Name)) == nil {
			arguments = jsonrpc.Set(arguments, string(m.Name), value)
		}
	}
	return arguments, nil
}

// Problem is an error in a configured plan.
type Problem struct {
	Key  string // key within the plan, as in the configuration: .steps[0].arguments.x
	Text string
}

// Check returns the errors that can be found without the servers of the plan's tools.
func (n *Named) Check(l Limits) []Problem {
	var out []Problem
	params, defaults := []byte("{}"), []byte("{}")
	for m := range jsonrpc.Members(n.Parameters) {
		params = jsonrpc.Set(params, string(m.Name), []byte("null"))
		if value := jsonrpc.Get(m.Value, "default"); value != nil {
			defaults = jsonrpc.Set(defaults, string(m.Name), value)
		}
	}
	if _, err := schema.Compile(n.InputSchema()); err != nil {
		out = append(out, Problem{".parameters", err.Error()})
	} else if s, err := schema.Compile(jsonrpc.Set([]byte(`{"type":"object"}`), "properties", n.parameters())); err == nil {
		for _, f := range s.Faults(defaults, nil) {
			out = append(out, Problem{".parameters", "default of " + f.Error()})
		}
	}
	_, defects := Parse(n.Body(), Options{
		Limits: l, Params: params,
		Find: func(name string) *Tool { return &Tool{Name: name, Writes: func([]byte) bool { return false }} },
	})
	for _, d := range defects {
		out = append(out, Problem{configKey(d.Pointer), d.Message})
	}
	return out
}

// configKey converts a JSON pointer to a configuration key.
func configKey(pointer string) string {
	var b strings.Builder
	for token := range jsonrpc.PointerTokens(pointer) {
		if _, isIndex := itemIndex(token); isIndex {
			b.WriteString("[" + token + "]")
		} else {
			b.WriteString("." + token)
		}
	}
	return b.String()
}
