package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// Named is a [plans.*] block of the configuration: a plan with parameters.
type Named struct {
	Name        string          `block:"plan"`
	Description string          `toml:"description"`
	Parameters  json.RawMessage `toml:"parameters" holds:"table"` // parameter → JSON Schema; nil if none
	Steps       json.RawMessage `toml:"steps" holds:"list"`
	Outputs     []string        `toml:"output_steps"`          // steps with returned results; nil means all
	Budget      int             `toml:"budget_tokens" min:"0"` // tokens; 0 means Limits.Budget
}

// body returns the plan as arguments of execute_tool_plan.
func (n *Named) body() []byte {
	return jsonrpc.Marshal(struct {
		Steps   json.RawMessage `json:"steps"`
		Outputs []string        `json:"output_steps,omitzero"`
		Budget  int             `json:"budget_tokens,omitzero"`
	}{n.Steps, n.Outputs, n.Budget})
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
	return n.schema(required)
}

// schema returns the schema of the parameters.
func (n *Named) schema(required []string) []byte {
	properties := n.Parameters
	if properties == nil {
		properties = json.RawMessage("{}")
	}
	return jsonrpc.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

// fill validates the arguments of a call and adds the defaults of missing ones.
func (n *Named) fill(arguments []byte) ([]byte, error) {
	if kind := kindOf(arguments); kind != "object" {
		return nil, fmt.Errorf("arguments: want an object with the plan's parameters, have %s", kind)
	}
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
	for name, value := range n.defaults() {
		if jsonrpc.Get(arguments, name) == nil {
			arguments = jsonrpc.Set(arguments, name, value)
		}
	}
	return arguments, nil
}

// defaults returns the default values of the parameters that have one.
func (n *Named) defaults() map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	for m := range jsonrpc.Members(n.Parameters) {
		if value := jsonrpc.Get(m.Value, "default"); value != nil {
			all[string(m.Name)] = value
		}
	}
	return all
}

// Problem is an error in a configured plan.
type Problem struct {
	Key  string // key within the plan, as in the configuration: .steps[0].arguments.x
	Text string
}

// Check returns the errors that can be found without the servers of the plan's tools.
func (n *Named) Check(l Limits) []Problem {
	var out []Problem
	for m := range jsonrpc.Members(n.Parameters) {
		alone := Named{Parameters: jsonrpc.Marshal(map[string]json.RawMessage{string(m.Name): m.Value})}
		if _, err := schema.Compile(alone.InputSchema()); err != nil {
			out = append(out, Problem{".parameters." + string(m.Name), `want a JSON Schema such as { type = "string" }`})
		}
	}
	s, _ := schema.Compile(n.schema([]string{}))
	for _, f := range s.Faults(jsonrpc.Marshal(n.defaults()), nil) {
		out = append(out, Problem{".parameters", "default of " + f.Error()})
	}
	known := make(map[string]any) // the values are not known
	for name := range jsonrpc.Names(n.Parameters) {
		known[name] = nil
	}
	_, defects := Parse(n.body(), Options{
		Limits: l, Params: jsonrpc.Marshal(known),
		Find: func(name string) *Tool { return &Tool{Name: name, Writes: func([]byte) bool { return false }} },
	})
	for _, d := range defects {
		out = append(out, Problem{configKey(d.Pointer), d.Message})
	}
	return out
}

var indexToken = regexp.MustCompile(`/(\d+)\b`)

// configKey converts a JSON pointer to a configuration key.
func configKey(pointer string) string {
	return strings.ReplaceAll(indexToken.ReplaceAllString(pointer, "[$1]"), "/", ".")
}
