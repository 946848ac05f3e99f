package predict_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// offer has the tools of an upstream.
type offer map[string]predict.Tool

func (o offer) tool(name string) predict.Tool { return o[name] }

// resolve resolves the tools of an upstream. tools are pairs of a name and an input schema, "" for
// none.
func resolve(t testing.TB, u valuemodel.Upstream, rules []valuemodel.Rule, tools ...string) offer {
	t.Helper()
	m, problems := valuemodel.Compile(rules)
	if len(problems) > 0 {
		t.Fatalf("rules: %v", problems)
	}
	o := offer{}
	for i := 0; i < len(tools); i += 2 {
		tool := predict.Tool{Model: m.Resolve(u, tools[i], valuemodel.Hints{})}
		if tools[i+1] != "" {
			s, err := schema.Compile([]byte(tools[i+1]))
			if err != nil {
				t.Fatalf("schema of %s: %v", tools[i], err)
			}
			tool.Schema = s
		}
		o[tools[i]] = tool
	}
	return o
}

var hub = valuemodel.Upstream{Name: "hub", URL: "https://hub.test/mcp"}

// reading returns a rule for a read-only tool.
func reading(tool string, next ...valuemodel.FollowUp) valuemodel.Rule {
	return valuemodel.Rule{Pattern: tool, Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, FollowUps: next}}
}

// follow returns a follow-up. args are pairs of a name and a binding.
func follow(t testing.TB, tool string, probability float64, args ...any) valuemodel.FollowUp {
	t.Helper()
	f := valuemodel.FollowUp{Tool: tool, Probability: probability, Args: map[string]valuemodel.Binding{}}
	for i := 0; i < len(args); i += 2 {
		b, err := valuemodel.ParseBinding(args[i+1])
		if err != nil {
			t.Fatal(err)
		}
		f.Args[args[i].(string)] = b
	}
	return f
}

// player makes the calls of one session, each in a new turn.
type player struct {
	f    *predict.Model
	s    *predict.Session
	id   uint64
	turn int
	now  time.Time
}

// begun counts the sessions of each model, so that session ids are the same for every model.
var begun = make(map[*predict.Model]uint64)

func play(f *predict.Model) *player {
	begun[f]++
	return &player{f: f, s: f.Begin(begun[f], false), now: time.Unix(1e9, 0)}
}

// call makes a call with a text as its result. A text that begins with "error" is a failure.
func (p *player) call(tool, arguments, text string) {
	p.ask(tool, arguments)
	p.answer(predict.Result{Text: []byte(text), Size: len(text), Failed: strings.HasPrefix(text, "error")})
}

func (p *player) ask(tool, arguments string) {
	p.id++
	p.turn++
	p.now = p.now.Add(3 * time.Second) // the client's pause
	p.s.Call(predict.Call{ID: p.id, Turn: p.turn, Tool: tool, Arguments: arguments, At: p.now})
}

func (p *player) answer(r predict.Result) {
	p.now = p.now.Add(400 * time.Millisecond)
	r.ID, r.At = p.id, p.now
	p.s.Result(r)
}

func (p *player) candidates() []predict.Candidate { return checked(p.s, p.s.Candidates(p.now)) }

// checked sets the reasons that Check returns.
func checked(s *predict.Session, candidates []predict.Candidate) []predict.Candidate {
	for i := range candidates {
		if c := &candidates[i]; c.Reason != enrich.Origin {
			c.Reason = cmp.Or(s.Check(c), c.Reason)
		}
	}
	return candidates
}

// made returns the arguments of the candidates for a tool that have no reason.
func made(candidates []predict.Candidate, tool string) []string {
	var out []string
	for _, g := range candidates {
		if g.Key.Tool == tool && g.Reason == "" {
			out = append(out, g.Key.Arguments)
		}
	}
	return out
}

// find returns the candidate for a call; the zero value if there is none.
func find(candidates []predict.Candidate, tool, arguments string) predict.Candidate {
	for _, g := range candidates {
		if g.Key.Tool == tool && g.Key.Arguments == arguments {
			return g
		}
	}
	return predict.Candidate{}
}

// anything allows every candidate.
func anything(g *predict.Candidate) around {
	return around{Key: call.Key{Upstream: 1, Scope: "s", Tool: g.Key.Tool, Arguments: g.Key.Arguments}}
}

var budget = enrich.Options{Budget: 8000, Slots: 3, MinProbability: 0.3, Waste: 50 * time.Millisecond, DefaultLead: 3 * time.Second}
