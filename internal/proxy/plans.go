package proxy

import (
	"cmp"
	"context"
	"errors"
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
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// Plans configures the plan tools. The zero value offers none.
type Plans struct {
	Enabled   bool
	Mutations string // treatment of steps that may write: "confirm" (the default) with the user, "allow" or "deny"
	plan.Limits
	KeepFor time.Duration // how long results can be read; zero means 30 minutes, negative means not at all
	Named   []plan.Named  // offered as tools plan__NAME
}

func (p *Plans) withDefaults() {
	p.Mutations = cmp.Or(p.Mutations, "confirm")
	p.KeepFor = cmp.Or(p.KeepFor, 30*time.Minute)
	l := &p.Limits
	l.Steps, l.Parallel, l.Depth = cmp.Or(l.Steps, 100), cmp.Or(l.Parallel, 8), cmp.Or(l.Depth, 32)
	l.Bytes, l.Budget = cmp.Or(l.Bytes, 16<<20), cmp.Or(l.Budget, 10_000)
	l.ReadOnly = p.Mutations == "deny"
}

// maxPlanChars limits the result of a plan in characters, whatever its budget: a known
// client writes longer results to a file, which its model then has to read.
const maxPlanChars = 48_000

// excerptLimit returns the limit of a plan's result with the given budget.
func excerptLimit(tokens int) excerpt.Limit {
	return excerpt.Limit{Tokens: tokens, Chars: maxPlanChars, Count: deliver.Tokens}
}

// countTokens counts the tokens of a result. It only estimates results that are far too long
// to be returned whole.
func countTokens(text []byte) int {
	if len(text) > 4*maxPlanChars {
		return len(text) / bytesPerToken
	}
	return deliver.Tokens(text)
}

// planOptions returns the options with which a plan of the session is parsed.
func planOptions(ctx context.Context, s *session, params []byte) plan.Options {
	p := s.srv.policy.Load()
	cache := make(map[string]*plan.Tool) // name → tool, for one plan
	find := func(name string) *plan.Tool {
		t, ok := cache[name]
		if !ok {
			t = s.planTool(ctx, p, name)
			cache[name] = t
		}
		return t
	}
	return plan.Options{Limits: p.Plans.Limits, Find: find, Names: func() []string { return s.toolNames(p) }, Params: params}
}

// planTool returns the tool that a plan names by its listed or configured name, or nil if the
// client could not call it. It blocks until the tool's server has started.
func (s *session) planTool(ctx context.Context, p *policy, name string) *plan.Tool {
	t, l := s.resolveName(p, upstream.Tools, name)
	if !s.mayHaveTool(ctx, l, t) {
		if t, l = s.configured(name); !s.mayHaveTool(ctx, l, t) {
			return nil
		}
		switch {
		case l.Offer() != nil:
			name = s.identity.view.nameOf(p, upstream.Tools, t)
		case p.prefix: // the server's tools are unknown, so nameOf has no name for them
			name = t.upstream + separator + t.name
		default:
			name = t.name
		}
		if name == "" {
			return nil
		}
	}
	known := s.srv.catalog.lookup(p, l, t.name)
	m := known.model
	model := func() *valuemodel.Model { // the current one: a reload may have replaced the server
		current := l
		if found := s.leases.find(t.upstream); found != nil {
			current = found
		}
		return s.srv.catalog.model(s.srv.policy.Load(), current, t.name)
	}
	out := &plan.Tool{
		Name: name, Configured: t.key(),
		Host: m.Host, Capacity: p.rule(m.Host).Concurrency, Value: enrich.ClassWeight(m.ValueClass),
		Unclassified: m.Unclassified(), Domains: possiblePlaces(m),
		Discloses: func() bool { return model().Disclosure == valuemodel.ThirdParty },
		Writes:    func(args []byte) bool { return !reading(model(), args) },
	}
	if item, listed := l.Offer().Find(upstream.Tools, t.name); listed { // otherwise the call returns the reason
		out.Input, _ = known.schema() // if it is not supported, arguments are not checked
		out.Output = jsonrpc.Get(item.Raw, "outputSchema")
	}
	spread, bytes := enrich.Fixed(m.Cost.Latency), int(m.Cost.TypicalKB*1024)
	if u := s.srv.prefetch.Tool(l.member.key, t.name).Usual; u.Latency.P50 > 0 { // learned
		spread, bytes, out.Probability = u.Latency, u.Bytes, u.Usefulness
	}
	out.Mean, out.P90, out.Tokens = spread.Mean(), spread.P90, bytes/bytesPerToken
	return out
}

// mayHaveTool reports whether the lease's server lists a tool, or its tools are not known even
// after it had the time to start.
func (s *session) mayHaveTool(ctx context.Context, l *sessionLease, t target) bool {
	if l == nil {
		return false
	}
	if l.Offer() == nil {
		l.AwaitOffer(ctx)
	}
	return !l.lacks(t.name)
}

// configured returns the tool with the given name in the configuration, upstream/tool.
func (s *session) configured(name string) (target, *sessionLease) {
	up, tool, _ := strings.Cut(name, "/")
	l := s.leases.find(up)
	if l == nil || !l.member.allows(tool) {
		return target{}, nil
	}
	return target{up, tool}, l
}

// bytesPerToken is the estimate for texts that are not counted.
const bytesPerToken = 4

// reading reports whether a call is certainly read-only. Nil args means that some arguments
// are not known yet.
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

// toolNames returns the names of all tools that a plan may call.
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

// possiblePlaces returns the names of all places that calls of a tool may read or write with
// any arguments: its domains, and those of the operator's invalidation edges.
func possiblePlaces(m *valuemodel.Model) []string {
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

// serveReadResult serves a call of mcpschedd_read_result.
func serveReadResult(x *request, arguments []byte) (outcome, error) {
	q, err := plan.ParseQuery(arguments)
	switch {
	case err != nil:
		return outcome{}, err
	case q.Handle == "" && x.s.identity.scope == "":
		return outcome{}, errors.New("handle: missing")
	case q.Handle == "":
		return ownOutcome(textResult(x.s.srv.kept.List(x.s))), nil
	}
	plans := &x.s.srv.policy.Load().Plans
	out, err := x.s.srv.kept.Read(x.s, q, excerptLimit(plans.ResultTokens(plans.Budget)))
	switch {
	case errors.Is(err, plan.ErrNotKept):
		return outcome{}, fmt.Errorf("handle %q: %w (%v, [plan].handle_ttl)", q.Handle, err, plans.KeepFor)
	case err != nil:
		return outcome{}, err
	}
	return ownOutcome(structuredResult(out, nil, false)), nil
}
