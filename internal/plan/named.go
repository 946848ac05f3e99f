package plan

import (
	"errors"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// Named is a plan that the operator wrote, with parameters.
type Named struct {
	Name        string
	Description string
	Parameters  []byte   // JSON object: parameter → JSON Schema; nil: none
	Steps       []byte   // JSON array
	Outputs     []string // steps whose results come back; nil: all
	Budget      int      // tokens; 0: the limit
}

// Body is the plan as a client would have written it.
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

// InputSchema is that of the plan's tool. A parameter without a default must be
// given.
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

// Fill adds to the arguments of a call the defaults of those that it leaves out, or says
// what is wrong with them.
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

// Problem is something wrong with a plan that the operator wrote.
type Problem struct {
	Key  string // below the plan, as the configuration writes it: .steps[0].arguments.x
	Text string
}

// Check finds what is wrong with a plan, as far as it can be told without the
// servers whose tools it names.
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

// configKey writes a JSON pointer as the configuration writes what stands there.
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
