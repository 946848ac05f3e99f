package proxy

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// prefetchSource is a session's lease as a source of prefetches. MayPrefetch decides whether a
// candidate may be prefetched, and Fetch makes its call. Prefetches use the same classification,
// store and limits as other calls.
type prefetchSource struct {
	s     *session
	lease *catalog.Lease
}

// newPrefetchLease returns the lease as the prefetch worker sees it.
func (s *session) newPrefetchLease(l *catalog.Lease) *speculate.Lease {
	storage := l.Member.Learned
	if combine := s.srv.common.replicas.Learned; combine != nil {
		storage = combine(s.srv.learnedKey(l.Member), storage)
	}
	return &speculate.Lease{
		Name: l.Name(), Key: l.Member.Key, Instance: l.Instance(), Remote: l.Member.Spec.URL != "", Exclusive: l.Member.Exclusive,
		Storage: storage, Source: &prefetchSource{s, l},
	}
}

// learnedKey returns a function that returns the key of m's learned state under the rules in force.
func (s *Server) learnedKey(m *catalog.Member) func() string {
	return func() string {
		if now := s.policy.Load().Find(m.Spec.Name); now != nil && now.Key == m.Key {
			return now.LearnedKey
		}
		return m.LearnedKey // it has been removed
	}
}

// Tools returns the names of the listed tools.
func (o *prefetchSource) Tools() (names []string) {
	for _, item := range o.lease.Offer().Items(upstream.Tools) {
		names = append(names, item.Name)
	}
	return names
}

// Tool returns what is known of a tool now.
func (o *prefetchSource) Tool(name string) predict.Tool {
	if !o.lease.Has(name) {
		return predict.Tool{}
	}
	known := o.s.srv.catalog.Tool(o.s.srv.policy.Load().Policy, o.lease, name)
	input, err := known.Schema()
	if err != nil {
		return predict.Tool{}
	}
	return predict.Tool{Model: known.Model, Schema: input, Annotated: known.Model.Annotated()}
}

// Host returns the host of the upstream's calls in general.
func (o *prefetchSource) Host() string {
	return o.s.srv.catalog.Tool(o.s.srv.policy.Load().Policy, o.lease, "").Model.Host
}

// NoteNothingToPrefetch records that no tool in the current offer may ever be prefetched.
func (o *prefetchSource) NoteNothingToPrefetch() { o.lease.NoteNothingToPrefetch() }

// newCall returns the call of a candidate under a policy, which has not classified it yet.
func (o *prefetchSource) newCall(p *policy, c *predict.Candidate) *upstreamCall {
	params := jsonrpc.Set(jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, c.Key.Tool)), "arguments", []byte(c.Key.Arguments))
	return &upstreamCall{s: o.s, policy: p, method: "tools/call", lease: o.lease, tool: c.Key.Tool, params: parsedParams(params)}
}

// MayPrefetch classifies a candidate and returns the reason why it must not be prefetched now, if
// there is one: its class, its server, the store, or its host.
func (o *prefetchSource) MayPrefetch(c *predict.Candidate) speculate.Eligibility {
	srv := o.s.srv
	p := srv.policy.Load()
	class := o.newCall(p, c).classify(p)
	v := speculate.Eligibility{Query: class.query, Host: class.host, Reason: o.refusal(p, c, &class)}
	if v.Reason != "" {
		return v
	}
	if v.Reason = enrich.Reason(srv.common.store.PrefetchRefusal(class.query)); v.Reason == "" {
		v.Reason = hostRefusal(srv.common.limits, class.host)
	}
	switch {
	case v.Reason == enrich.Settling:
		v.Settle = srv.common.store.SettlesIn(class.query.Places)
	case v.Reason == "" && class.query.Reuse.File != "":
		if info, err := os.Stat(class.query.Reuse.File); err == nil {
			v.FileBytes = int(info.Size())
		}
	}
	return v
}

// hostRefusal returns the reason why the limits of a host refuse prefetches now, or "".
func hostRefusal(limits *limit.Hosts, host string) enrich.Reason {
	switch limits.MayPrefetch(host) {
	case nil:
		return ""
	case limit.ErrQuota:
		return enrich.Quota
	}
	return enrich.RateLimited
}

// refusal returns the reason why a candidate must not be prefetched, however valuable it is, or
// "". It is checked when candidates are chosen, when a prefetch begins, and again after the wait
// for its host, as the rules may have changed.
func (o *prefetchSource) refusal(p *policy, c *predict.Candidate, class *callClass) enrich.Reason {
	l := &catalog.Lease{Lease: o.lease.Lease, Member: p.Find(o.lease.Name())} // a reload may have changed its settings
	if l.Member == nil || l.Member.Key != o.lease.Member.Key {
		return enrich.NotSpeculatable
	}
	m, learned := o.s.srv.catalog.Tool(p.Policy, l, c.Key.Tool).Model, o.s.srv.prefetch.Tool(l.Member.Key, c.Key.Tool)
	switch {
	case !class.storable():
		return enrich.NotSpeculatable
	case !p.steady(l, m, class):
		return enrich.Unsteady
	case !l.Live(), !l.Member.Allowed(c.Key.Tool), learned.Barred, !enrich.Speculatable(m), p.Enrichment.Off():
		return enrich.NotSpeculatable
	case m.Cost.Dollars > p.Enrichment.Dollars:
		return enrich.Dollars
	case l.Member.Spec.Command.Path != "" && strings.Contains(c.Key.Arguments, `"-`):
		return enrich.NotSpeculatable // a program may pass it on as an option, such as git show --output=FILE
	case m.Disclosure != valuemodel.SameService && !c.Why.Independent:
		return enrich.Disclosure
	}
	return ""
}

// steady reports whether changes to what the call reads are noticed, because they all go through
// this proxy or are reported, or whether it reads a remote service, where max_age bounds
// staleness. Any program may change a file on this machine at any time.
func (p *policy) steady(l *catalog.Lease, m *valuemodel.Model, class *callClass) bool {
	return l.Member.Exclusive || class.query.Reuse.File != "" || class.query.Reuse.Pure || m.Remote ||
		p.LocalExclusive != nil && m.In(valuemodel.LocalDomain) && p.LocalExclusive(l.Member.Spec.Command.Dir, class.query.Key.Arguments)
}

// purposePrefetch is the _meta of a request that no client made.
const purposePrefetch = `{"mcpschedd/purpose":"prefetch"}`

// Fetch starts a candidate's call and records it. The call is cancelled when ctx is done, unless
// a client's call waits for it. If Fetch does not start the call, it returns why.
func (o *prefetchSource) Fetch(ctx context.Context, f *speculate.Fetch) (fate func() call.Fate, why enrich.Reason) {
	srv := o.s.srv
	observed := &observation{call: f.Call, number: o.s.observed.next(), trace: f.Call.Trace}
	c := o.newCall(srv.policy.Load(), f.Candidate)
	c.observed = observed
	c.registerWrite()
	p := c.policy
	defer func() {
		if fate == nil { // also after a panic
			c.release()
		}
	}()
	if why := hostRefusal(srv.common.limits, c.class.host); why != "" {
		return nil, why
	}
	if p.Enrichment.Mode != "on" || o.refusal(p, f.Candidate, &c.class) != "" {
		return nil, enrich.NotSpeculatable
	}
	c.class.query.Reuse.JoinTimeout = f.JoinTimeout
	open := &openPrefetch{observed: observed, event: record.Event{
		Kind: record.Prefetch, At: time.Now(), Session: observed.number.Session, Seq: observed.number.Seq,
		Upstream: o.lease.Name(), Tool: f.Key.Tool, Class: string(c.class.kind), Host: c.class.host, After: f.After,
		RawArguments: []byte(f.Key.Arguments), PredictedP: f.P, PredictedTokens: estimateTokens(f.Bytes),
		Edge: f.Why.Edge, Configured: f.Why.Configured,
	}}
	var refused dedup.Refusal
	open.prefetch, refused = srv.common.store.Prefetch(ctx, c.class.query, func(ctx context.Context, flight *dedup.Flight) {
		srv.running.Go(func() {
			end := o.send(ctx, c, flight, f)
			flight.SetUnloadedLatency(observed.run.Unloaded())
			flight.Finish(end.answer.Result, end.answer.Stateless, end.kind == complete)
			open.failed, open.size, open.hash = end.kind != complete, len(end.answer.Result), srv.recorder.resultHash(end)
			open.ended.Store(true)
			srv.prefetch.Protect(func() { f.Done(o.fetchResult(end, flight)) })
		})
	})
	if open.prefetch == nil {
		return nil, enrich.Reason(refused)
	}
	srv.recorder.mu.Lock()
	srv.recorder.open = append(srv.recorder.open, open)
	srv.recorder.mu.Unlock()
	return open.prefetch.Fate, ""
}

// fetchResult returns the result of a prefetch for the worker.
func (o *prefetchSource) fetchResult(end outcome, flight *dedup.Flight) speculate.FetchResult {
	out := speculate.FetchResult{
		Body: end.answer.Result, Good: end.kind == complete, Displaced: flight.Displaced(), Limited: end.onHost.Limited,
		Crashed: o.lease.Member.Spec.URL == "" && upstream.Ended(end.err),
	}
	switch end.kind {
	case inputRequired:
		out.Bar = "its prefetch asked the client a question"
	case startedTask:
		out.Bar = "its prefetch started a task"
	}
	return out
}

var errForbidden = errors.New("the rules no longer allow it")

// lateReplyTimeout is how long a server may still be running a prefetch that was given up.
const lateReplyTimeout = time.Minute

// send sends the candidate's call c behind all clients' calls. It takes no turn: no call may wait
// for a prefetch, and a write that it overtakes keeps its answer out of the store.
func (o *prefetchSource) send(ctx context.Context, c *upstreamCall, flight *dedup.Flight, f *speculate.Fetch) outcome {
	srv, l := c.s.srv, o.lease
	c.fetch, c.flight = f, flight
	c.s.requests.addCall(c)
	ended := func() { c.s.requests.removeCall(c) }
	req := &upstream.Request{
		Method: "tools/call", Index: c.observed.withTrace(parsedParams(jsonrpc.Set(c.params.Raw(), "_meta", []byte(purposePrefetch)))),
		Token: true, Isolated: true, Timeout: l.Member.Timeout, Notify: flight.Notify, Sent: flight.Sent,
		Client: &c.s.client.load().Client,
		Ask: func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
			flight.Taint()
			f.ClientRequest(true)
			return nil, cannotBeAsked("a prefetch")
		},
	}
	c.gate = func() error {
		refused := errForbidden // also after a panic
		srv.prefetch.Protect(func() {
			select {
			case <-flight.Promoted(): // a client has made the call meanwhile, so it is no longer marked as a prefetch
				req.Index = c.observed.withTrace(c.params)
			default:
			}
			p := srv.policy.Load()
			now := c.classify(p)
			// Only with the key it began with. Else calls that have joined fetch by themselves, through their own gates.
			if now.query.Key == c.class.query.Key && p.Enrichment.Mode == "on" && o.refusal(p, f.Candidate, &now) == "" {
				refused = nil
			}
		})
		return refused
	}
	end := waitFor(func(done func(outcome)) { c.send(ctx, c.pendingWrite.Swap(nil), req, done) })
	if end.err != nil && end.answer.Sent && l.Live() {
		time.AfterFunc(lateReplyTimeout, ended) // the server may still be running it
	} else {
		ended()
	}
	return end
}
