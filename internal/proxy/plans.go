package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// Plans says whether clients may send many calls as one, and which plans they
// need not write themselves. The zero value offers none of it.
type Plans struct {
	Enabled   bool
	Mutations string // what of a plan that may change something: "confirm" (the default) with the user, "allow" or "deny"
	plan.Limits
	KeepFor time.Duration // what did not come back can be read for so long; default 30 min; below 0: not at all
	Named   []plan.Named  // offered as tools of their own, plan__NAME
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

// planOptions are what a plan of a session is checked against.
func planOptions(ctx context.Context, s *session, params []byte) plan.Options {
	p := s.srv.policy.Load()
	known := make(map[string]*plan.Tool) // of one plan
	find := func(name string) *plan.Tool {
		t, ok := known[name]
		if !ok {
			t = s.planTool(ctx, p, name)
			known[name] = t
		}
		return t
	}
	return plan.Options{Limits: p.Plans.Limits, Find: find, Names: func() []string { return s.toolNames(p) }, Params: params}
}

// planTool is what is known of a tool that a plan names, as it is listed or
// configured; nil: the client could not call it either. A server that is starting is
// waited for.
func (s *session) planTool(ctx context.Context, p *policy, name string) *plan.Tool {
	t, l := s.named(p, upstream.Tools, name)
	if known := s.modelled(ctx, p, l, t); known != nil {
		known.Name = name
		return known
	}
	t, l = s.configured(name)
	known := s.modelled(ctx, p, l, t)
	switch {
	case known == nil:
		return nil
	case l.Offer() != nil:
		known.Name = s.identity.view.nameOf(p, upstream.Tools, t)
	case p.prefix: // it is not known whether there is a tool to bear a name
		known.Name = t.upstream + separator + t.name
	default:
		known.Name = t.name
	}
	if known.Name == "" {
		return nil
	}
	return known
}

// modelled is what is known of an upstream's tool, but for the name it goes by; nil: it
// has none such.
func (s *session) modelled(ctx context.Context, p *policy, l *leased, t target) *plan.Tool {
	if l == nil {
		return nil
	}
	if l.Offer() == nil {
		l.AwaitOffer(ctx)
	}
	m := s.srv.catalog.model(p, l, t.name)
	model := func() *valuemodel.Model { // of the moment: a reload may have put another server there
		at := l
		if now := s.leases.find(t.upstream); now != nil {
			at = now
		}
		return s.srv.catalog.model(s.srv.policy.Load(), at, t.name)
	}
	out := &plan.Tool{
		Configured: t.upstream + "/" + t.name,
		Host:       m.Host, Capacity: p.rule(m.Host).Concurrency, Value: enrich.ClassWeight(m.ValueClass),
		Unclassified: m.Unclassified(),
		Discloses:    func() bool { return model().Disclosure == valuemodel.ThirdParty },
		Writes:       func(args []byte) bool { return !reading(model(), args) },
	}
	if offer := l.Offer(); offer != nil { // else its call will say why there is none
		item, listed := offer.Find(upstream.Tools, t.name)
		if !listed {
			return nil
		}
		out.Input, out.Output = s.srv.catalog.schema(l, item).schema, jsonrpc.Get(item.Raw, "outputSchema")
	}
	out.Domains = touched(m)
	expect(out, s.srv.prefetch.Tool(l.member.key, t.name).Usual, m)
	return out
}

// configured finds a tool by the name it has in the configuration: upstream/tool.
func (s *session) configured(name string) (target, *leased) {
	up, tool, _ := strings.Cut(name, "/")
	l := s.leases.find(up)
	if l == nil || !l.member.allows(tool) {
		return target{}, nil
	}
	return target{up, tool}, l
}

// expect says what a call of a tool is expected to take and to bring: by what was
// learned, else by its model.
func expect(t *plan.Tool, u predict.Usual, m *valuemodel.Model) {
	spread, bytes := enrich.Fixed(m.Cost.Latency), int(m.Cost.TypicalKB*1024)
	if u.Latency.P50 > 0 {
		spread, bytes, t.Probability = u.Latency, u.Bytes, u.Useful
	}
	t.Mean, t.P90, t.Tokens = spread.Mean(), spread.P90, bytes/bytesPerToken
}

// bytesPerToken is taken of answers that are not there to be counted.
const bytesPerToken = 4

// reading reports whether a call certainly only reads. args nil: not all of them
// are known.
func reading(m *valuemodel.Model, args []byte) bool {
	if m.Classify == "" {
		return m.Class.Reads() // whatever the arguments
	}
	index := jsonrpc.NewIndex(args)
	if args == nil || !index.Unambiguous() {
		return m.ClassOf(unknownArguments, nil).Reads()
	}
	return m.ClassOf(index.Get, jsonrpc.Names(args)).Reads()
}

// toolNames are the names of all tools that a plan may call.
func (s *session) toolNames(p *policy) (out []string) {
	for _, l := range s.leases.current() {
		for _, item := range l.items(upstream.Tools) {
			if name := s.identity.view.nameOf(p, upstream.Tools, target{l.Name(), item.Name}); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

// touched names all that calls of a tool may read or write, whatever their arguments:
// its domains, and what the operator's edges add to them.
func touched(m *valuemodel.Model) []string {
	var out []string
	for _, d := range m.Domains {
		out = append(out, d.Name)
	}
	for _, places := range [][]call.Place{m.Reads(unknownArguments), m.Writes(unknownArguments).Places} {
		for _, p := range places {
			out = append(out, fmt.Sprint(p))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
