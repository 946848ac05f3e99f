package proxy

import (
	"context"
	"sync/atomic"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// job is one request for an upstream as the policy sees it: what it may change,
// and whether anything but the upstream may answer it.
type job struct {
	s      *session
	effect call.Effect
	query  dedup.Query // with an empty scope only the upstream may answer
	host   string      // whose limits count; "": the upstream's own
	tool   bool        // it is a tools/call
	task   bool        // and asks to be run as a task

	// passage is taken on arrival and goes with the first sending; a request that
	// is sent again takes another one.
	passage atomic.Pointer[dedup.Passage]
}

// storable reports whether the answer may be stored or shared, and come from
// the store or from another call's flight.
func (j *job) storable() bool { return j.query.Key.Scope != "" }

// arrive judges a tools/call, or a guess at one, and notes it with the store: on
// the reader of its session, before the next message is read.
func (j *job) arrive(l *leased, tool string, params []byte) {
	j.tool = true
	for {
		p := j.s.srv.policy.Load()
		m := j.s.srv.model(p, l, tool)
		j.judge(p, l, m, params)
		j.passage.Store(j.s.srv.store.Arrive(j.effect))
		if p == j.s.srv.policy.Load() && m == j.s.srv.model(p, l, tool) {
			return
		}
		j.drop() // judged by what no longer counts
	}
}

// drop ends the passage of a request that was not sent.
func (j *job) drop() {
	if p := j.passage.Swap(nil); p != nil {
		p.End()
	}
}

// longest is how many bytes of arguments a key may have: a call with more is not
// one that comes again.
const longest = 16 << 10

// judge says what a call may change, and whether it may be answered by anything
// but its upstream.
func (j *job) judge(p *policy, l *leased, m *valuemodel.Model, params []byte) {
	j.effect, j.query = call.Effect{}, dedup.Query{}
	raw, plain := arguments(params)
	j.task = !plain && jsonrpc.Get(params, "task") != nil
	var canonical []byte
	args := func(string) []byte { return nil }
	if m.Asks() {
		var sound bool
		if canonical, sound = jsonrpc.AppendCanonical(nil, raw); sound {
			args = func(name string) []byte { return jsonrpc.Get(raw, name) }
		} else {
			plain = false // servers may disagree on what it says
		}
	}
	j.host = m.HostOf(args)
	class := m.ClassOf(args)
	if !class.Reads() {
		j.effect = m.Writes(args)
		return
	}
	file, whole := m.File(args)
	scope := j.s.scope
	if l.member.SharedIdentity && l.Shared() {
		scope = everyone
	}
	if !plain || !whole || scope == "" || len(canonical) > longest {
		return
	}
	j.query = dedup.Query{
		Key:       call.Key{Upstream: l.Instance(), Scope: scope, Tool: m.Tool, Arguments: string(canonical)},
		Places:    m.Reads(args),
		Delivered: j.s.delivered,
		Use: dedup.Use{
			Pure: class == valuemodel.Pure, Freshness: m.Cost.Freshness, MaxAge: p.MaxAge,
			Volatile: m.Volatile != nil && *m.Volatile, File: file, Repeats: m.FailFastAfter, BackOff: m.BackOff,
		},
	}
}

// everyone is the scope of an upstream that takes all sessions for one
// principal. No session has it.
const everyone = "*"

// arguments returns the raw arguments of a tools/call, "{}" if it has none, and
// whether it is plain: says nothing else that an answer may depend on.
func arguments(params []byte) (raw []byte, plain bool) {
	plain = true
	for m := range jsonrpc.Members(params) {
		switch {
		case string(m.Name) == "name":
		case string(m.Name) == "arguments" && raw == nil:
			raw = m.Value
		case string(m.Name) == "_meta":
			plain = plain && ignorable(m.Value)
		default:
			plain = false
		}
	}
	if raw == nil || string(raw) == "null" {
		raw = []byte("{}")
	}
	return raw, plain && raw[0] == '{'
}

// ignorable reports whether a request's _meta says nothing that its answer may
// depend on.
func ignorable(meta []byte) bool {
	for m := range jsonrpc.Members(meta) {
		switch name := string(m.Name); name {
		case "progressToken", "traceparent", "tracestate", "baggage", "claudecode/toolUseId":
		default:
			if !revision.OfHop(name) {
				return false
			}
		}
	}
	return true
}

// arriveOther notes a request that calls no tool: one that does more than read
// counts as a write to every upstream it may be for.
func (j *job) arriveOther(method string, leases []*leased) {
	if reads(method) {
		return
	}
	for {
		p := j.s.srv.policy.Load()
		j.effect = call.Effect{}
		for _, l := range leases {
			e := j.s.srv.domains(p, l)
			j.effect.Places = append(j.effect.Places, e.Places...)
			j.effect.Remote = j.effect.Remote || e.Remote
		}
		j.passage.Store(j.s.srv.store.Arrive(j.effect))
		if p == j.s.srv.policy.Load() {
			return
		}
		j.drop()
	}
}

// reads reports whether a request of that method certainly changes nothing that
// a tool's answer may depend on.
func reads(method string) bool {
	switch method {
	case "ping", "initialize", "server/discover", "subscriptions/listen", "logging/setLevel", "completion/complete",
		"tools/list", "prompts/list", "prompts/get",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"tasks/list", "tasks/get", "tasks/result":
		return true
	}
	return false
}

// send hands the request to its upstream if nothing has to be waited for, and
// says whether it did: done then hears the outcome, once.
func (j *job) send(ctx context.Context, l *leased, turn upstream.Turn, req *upstream.Request, done func(upstream.Answer, error)) bool {
	passage, slot := j.take(), (*limit.Slot)(nil)
	req.Late = passage.End
	req.TryPace = func() (may bool) {
		slot, may = j.s.srv.limits.TryEnter(j.hostOn(l))
		return may
	}
	if l.Begin(ctx, turn, req, func(answer upstream.Answer, err error) {
		slot.Leave(verdict(answer, err))
		j.settle(l, passage, answer, err)
		done(answer, err)
	}) {
		return true
	}
	if slot != nil {
		slot.Leave(notSent)
	}
	j.passage.Store(passage)
	return false
}

// notSent is the verdict on a request that tells nothing of its host.
var notSent = limit.Verdict{Failed: true}

// run hands the request to its upstream, within the limits of its host, and
// waits for the outcome.
func (j *job) run(ctx context.Context, l *leased, turn upstream.Turn, req *upstream.Request) (upstream.Answer, error) {
	return j.paced(ctx, l, turn, req, func(ctx context.Context) (*limit.Slot, error) {
		return j.s.srv.limits.Enter(ctx, j.hostOn(l))
	})
}

// paced hands the request to its upstream once enter has found it a slot there,
// and waits for the outcome.
func (j *job) paced(ctx context.Context, l *leased, turn upstream.Turn, req *upstream.Request, enter func(context.Context) (*limit.Slot, error)) (upstream.Answer, error) {
	passage, slot := j.take(), (*limit.Slot)(nil)
	req.Late = passage.End
	req.Pace = func(ctx context.Context) (err error) {
		slot, err = enter(ctx)
		return err
	}
	answer, err := l.Call(ctx, turn, req)
	if slot != nil {
		slot.Leave(verdict(answer, err))
	}
	j.settle(l, passage, answer, err)
	return answer, err
}

// take returns the passage that the next sending goes under.
func (j *job) take() *dedup.Passage {
	if p := j.passage.Swap(nil); p != nil {
		return p
	}
	return j.s.srv.store.Arrive(j.effect)
}

// hostOn is the host whose limits count.
func (j *job) hostOn(l *leased) string {
	if j.host != "" {
		return j.host
	}
	return j.s.srv.model(j.s.srv.policy.Load(), l, "").Host
}

// settle ends a passage with what is known of the outcome: what was not answered
// may still be run, and a task goes on after the answer that names it.
func (j *job) settle(l *leased, passage *dedup.Passage, answer upstream.Answer, err error) {
	if j.tool && answer.Sent {
		j.s.srv.counts.upstream.Add(1)
	}
	switch {
	case err != nil && answer.Sent:
		passage.Doubt()
	case err == nil && j.began(l, passage, answer):
	default:
		passage.End()
	}
}
