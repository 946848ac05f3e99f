package proxy

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/schema"
)

// Plans says whether clients may send many calls as one, and which plans they
// need not write themselves. The zero value offers none of it.
type Plans struct {
	Enabled   bool
	Mutations string // what of a plan that may change something: "confirm" (the default) with the user, "allow" or "deny"
	plan.Limits
	KeepFor time.Duration // what did not come back can be read for so long; default 30 min
	Named   []NamedPlan
}

// NamedPlan is a plan that is offered as a tool of its own, plan__NAME.
type NamedPlan struct {
	Name        string
	Description string
	Parameters  []byte   // JSON object: parameter → JSON Schema; nil: none
	Steps       []byte   // JSON array
	Outputs     []string // steps whose results come back; nil: all
	Budget      int      // tokens; 0: the limit
}

func (p *Plans) withDefaults() {
	p.Mutations = cmp.Or(p.Mutations, "confirm")
	p.KeepFor = cmp.Or(p.KeepFor, 30*time.Minute)
	l := &p.Limits
	l.Steps, l.Parallel, l.Depth = cmp.Or(l.Steps, 100), cmp.Or(l.Parallel, 8), cmp.Or(l.Depth, 32)
	l.Bytes, l.Budget = cmp.Or(l.Bytes, 16<<20), cmp.Or(l.Budget, 10_000)
	l.ReadOnly = p.Mutations == "deny"
}

// mostBrought is how many characters a plan brings back at most, whatever its
// budget: a known client puts longer answers into a file, which its model then has
// to read.
const mostBrought = 48_000

// limits are what a client takes at once.
func limits(tokens int) excerpt.Limit {
	return excerpt.Limit{Tokens: tokens, Chars: mostBrought, Count: deliver.Tokens}
}

// tokens counts those of a result. One that is far too long to come back whole is
// not worth counting.
func tokens(text []byte) int {
	if len(text) > 4*mostBrought {
		return len(text) / bytesPerToken
	}
	return deliver.Tokens(text)
}

// loadVocabulary has the tokenizer ready, which takes some 20 ms and 12 MiB.
func loadVocabulary() { deliver.Tokens([]byte("now")) }

// body is the plan as a client would have written it.
func (n *NamedPlan) body() []byte {
	body := jsonrpc.Set(nil, "steps", n.Steps)
	if n.Outputs != nil {
		ids := []byte("[")
		for i, id := range n.Outputs {
			if i > 0 {
				ids = append(ids, ',')
			}
			ids = jsonrpc.AppendString(ids, id)
		}
		body = jsonrpc.Set(body, "output_steps", append(ids, ']'))
	}
	if n.Budget > 0 {
		body = jsonrpc.Set(body, "budget_tokens", strconv.AppendInt(nil, int64(n.Budget), 10))
	}
	return body
}

// inputSchema is that of the plan's tool. A parameter without a default must be
// given.
func (n *NamedPlan) inputSchema() []byte {
	required := []byte("[")
	for m := range jsonrpc.Members(n.Parameters) {
		if jsonrpc.Get(m.Value, "default") != nil {
			continue
		}
		if len(required) > 1 {
			required = append(required, ',')
		}
		required = jsonrpc.AppendString(required, string(m.Name))
	}
	out := []byte(`{"type":"object","properties":`)
	out = append(out, n.parameters()...)
	out = append(out, `,"required":`...)
	out = append(append(out, required...), ']')
	return append(out, `,"additionalProperties":false}`...)
}

func (n *NamedPlan) parameters() []byte {
	if n.Parameters == nil {
		return noArguments
	}
	return n.Parameters
}

// filled are the arguments of a call with the defaults of those that it leaves
// out, or what is wrong with them.
func (n *NamedPlan) filled(arguments []byte) ([]byte, error) {
	s, err := schema.Compile(n.inputSchema())
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, f := range s.Faults(arguments) {
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

// PlanProblem is something wrong with a plan that the operator wrote.
type PlanProblem struct {
	Key  string // below the plan, as the configuration writes it: .steps[0].arguments.x
	Text string
}

// Check finds what is wrong with a plan, as far as it can be told without the
// servers whose tools it names.
func (n *NamedPlan) Check(l plan.Limits) []PlanProblem {
	var out []PlanProblem
	if _, err := schema.Compile(n.inputSchema()); err != nil {
		out = append(out, PlanProblem{".parameters", err.Error()})
	}
	params, defaults := []byte("{}"), []byte("{}")
	for m := range jsonrpc.Members(n.Parameters) {
		params = jsonrpc.Set(params, string(m.Name), []byte("null"))
		if value := jsonrpc.Get(m.Value, "default"); value != nil {
			defaults = jsonrpc.Set(defaults, string(m.Name), value)
		}
	}
	if s, err := schema.Compile(jsonrpc.Set([]byte(`{"type":"object"}`), "properties", n.parameters())); err == nil {
		if err := s.Check(defaults); err != nil {
			out = append(out, PlanProblem{".parameters", "default of " + err.Error()})
		}
	}
	_, defects := plan.Parse(n.body(), plan.Options{
		Limits: l, Params: params,
		Find: func(name string) *plan.Tool {
			return &plan.Tool{Name: name, Writes: func([]byte) bool { return false }}
		},
	})
	for _, d := range defects {
		out = append(out, PlanProblem{key(d.Pointer), d.Message})
	}
	return out
}

// key writes a JSON pointer as the configuration writes what stands there.
func key(pointer string) string {
	var b strings.Builder
	for token := range jsonrpc.PointerTokens(pointer) {
		if _, err := strconv.ParseUint(token, 10, 31); err == nil {
			b.WriteString("[" + token + "]")
		} else {
			b.WriteString("." + token)
		}
	}
	return b.String()
}
