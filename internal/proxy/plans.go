package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/record"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// Plans are the settings of plans.
type Plans = plan.Settings

// servePlan serves a call of execute_tool_plan or, unless n is nil, of a plan in the
// configuration.
func servePlan(x *request, n *plan.Named, arguments []byte) outcome {
	x.s.awaitOffers(x.ctx)
	v := x.s.view()
	o := plan.Options{Limits: v.policy.Plans.Limits, ReadOnly: v.policy.Plans.ReadOnly(), Names: v.ToolNames, Find: func(name string) *plan.Tool { return x.s.planTool(x.ctx, &v, name) }}
	p, err := plan.Read(arguments, n, o)
	switch {
	case err != nil:
		return outcome{err: err}
	case p.DryRun:
		return ownOutcome(structuredResult(x.s.planRunner().Forecast(p).Answer(), nil, false))
	}
	return newPlanRun(x).run(p)
}

// planRun is the run of one plan. Each of its steps is a request of its own.
type planRun struct {
	request *request // calls the plan
	number  int      // sequence number in the session
	meta    []byte   // trace context of the client's request, for the steps' calls; nil if it has none
}

func newPlanRun(x *request) *planRun {
	r := &planRun{request: x, number: int(x.s.plans.Add(1))}
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := x.msg.Index.Meta.Get(name); value != nil {
			r.meta = jsonrpc.Set(r.meta, name, value)
		}
	}
	return r
}

// run runs the plan, records its event and returns its result.
func (r *planRun) run(p *plan.Plan) outcome {
	s := r.request.s
	current := s.srv.policy.Load
	runner := s.planRunner()
	runner.Call, runner.Progress, runner.Tokens = r.call, r.progress, deliver.Tokens
	runner.Settings = func() *plan.Settings { return &current().Plans }
	runner.Room = func() int { return s.room(current()).Excerpts }
	runner.Keep = func(what string, value []byte) string {
		return s.srv.kept.Add(s, fmt.Sprintf("plan %d, %s", r.number, what), value, current().Plans.KeepFor)
	}
	if r.request.client.ElicitsByForm() {
		runner.Ask = func(message string) error { return confirm(r.request, message) }
	}
	report, err := runner.Serve(r.request.ctx, p)
	if err != nil {
		return outcome{err: err}
	}
	event := record.Event{
		Kind: record.Plan, At: time.Now().Add(-report.Makespan), Session: s.observed.Name, Plan: r.number, Tool: r.request.msg.Index.Text("name"),
		LatencyMS: ms(report.Makespan), Depth: report.ChainLength(), BytesOut: int64(len(report.Structured)), Cancelled: report.Cancelled,
	}
	for _, st := range report.Steps {
		event.Steps += st.Calls
		event.BytesIn += int64(st.Bytes)
	}
	for _, b := range report.Blocks {
		event.BytesOut += int64(len(b))
	}
	s.srv.recorder.log.Add(event)
	return ownOutcome(structuredResult(report.Structured, report.Blocks, report.Failed()))
}

// progress sends a progress notification to the client, if its current request has a token.
func (r *planRun) progress(done float64, of int, what string) {
	params := fmt.Appendf(nil, `{"progress":%s,"total":%d,"message":`, strconv.FormatFloat(done, 'f', -1, 64), of)
	r.request.forward(nil, "notifications/progress", append(jsonrpc.AppendString(params, what), '}'))
}

// planStep describes the step of a plan that a request belongs to.
type planStep struct {
	run *planRun
	plan.Call
}

// samePlan reports whether two requests are steps of one plan.
func (p *planStep) samePlan(q *planStep) bool { return p != nil && q != nil && p.run == q.run }

// call makes one call of a plan as a request of its own, which takes the same path as a
// client's: it is classified, cached, limited, counted and learned from.
func (r *planRun) call(ctx context.Context, c plan.Call) plan.Result {
	params := jsonrpc.AppendString([]byte(`{"name":`), c.Step.Tool.Name)
	params = append(append(params, `,"arguments":`...), c.Arguments...)
	if r.meta != nil {
		params = append(append(params, `,"_meta":`...), r.meta...)
	}
	params = append(params, '}')
	x := &request{
		s:      r.request.s,
		msg:    &front.Message{Message: jsonrpc.Message{ID: []byte("0"), Method: "tools/call", Params: params}, Index: *parsedParams(params), Client: r.request.msg.Client},
		stream: responseStream{out: r.request.stream.out}, client: r.request.client,
		work: r.request.work, step: &planStep{r, c},
	}
	if err := x.admit(ctx); err != nil {
		recordRefusal(x.s, x.msg)
		return plan.Result{Err: x.explain(err, false).Error()}
	}
	defer x.leave()
	o := x.respond()
	defer o.answer.Buffer.Release()
	switch {
	case o.err != nil:
		return plan.Result{Err: x.explain(o.err, o.mayHaveRun()).Error(), MayHaveRun: o.mayHaveRun()}
	case o.answer.Error != nil:
		return plan.Result{Err: jsonrpc.Text(o.answer.Error, "message")}
	case o.kind == startedTask:
		return plan.Result{Err: "the call goes on as a task, which a plan does not wait for"}
	}
	out := plan.ResultOf(o.answer.Result)
	if x.call != nil {
		out.Source = string(x.call.observed.source.How)
	}
	return out
}

// planTool returns the tool that a plan names by its listed or configured name, or nil if the
// client could not call it. It blocks until the tool's server has started.
func (s *session) planTool(ctx context.Context, v *view, name string) *plan.Tool {
	p := v.policy
	t, l := v.Resolve(upstream.Tools, name)
	if !l.MayHaveTool(ctx, t.Name) {
		if t, l = v.Configured(name); !l.MayHaveTool(ctx, t.Name) {
			return nil
		}
		switch {
		case l.Offer() != nil:
			name = v.NameOf(upstream.Tools, t)
		case p.Prefix: // the server's tools are unknown, so NameOf has no name for them
			name = t.Upstream + catalog.Separator + t.Name
		default:
			name = t.Name
		}
		if name == "" {
			return nil
		}
	}
	known := v.Tool(l, t.Name)
	m := known.Model
	model := func() *valuemodel.Model { // the current one: a reload may have replaced the server
		now := s.view()
		return now.Tool(cmp.Or(now.Leases.Named(t.Upstream), l), t.Name).Model
	}
	out := &plan.Tool{
		Name: name, Configured: t.Key(),
		Host: m.Host, Capacity: p.Limits.Of(m.Host).Concurrency, Worth: enrich.ClassWeight(m.ValueClass),
		OnlyRead: p.Selection.OnlyRead && !v.Listed(t), Searched: !v.Listed(t), Unclassified: m.Unclassified(), Domains: possiblePlaces(m),
		Discloses: func() bool { return model().Disclosure == valuemodel.ThirdParty },
		Writes: func(args []byte) bool {
			m, now := model(), s.view()
			return !reading(m, args) || !m.Vouched && !now.Listed(t) // as for the call by itself
		},
		Replaced: func() bool {
			now := s.view()
			_, lease := now.Resolve(upstream.Tools, name)
			return lease != nil && lease.Member.Key != l.Member.Key
		},
	}
	if item, listed := l.Offer().Find(upstream.Tools, t.Name); listed { // otherwise the call returns the reason
		out.Input, _ = known.Schema() // if it is not supported, arguments are not checked
		out.Output = jsonrpc.Get(item.Raw, "outputSchema")
	}
	spread, bytes := enrich.Fixed(m.Cost.Latency), int(m.Cost.TypicalKB*1024)
	if u := s.srv.prefetch.Tool(l.Member.Key, t.Name).Usual; u.Latency.P50 > 0 { // learned
		spread, bytes = u.Latency, u.Bytes
	}
	out.Mean, out.Tokens = spread.Mean(), bytes/record.BytesPerToken
	return out
}

// reading reports whether a call is certainly read-only. Nil args means that some arguments
// are not known yet.
func reading(m *valuemodel.Model, args []byte) bool {
	index := jsonrpc.NewIndex(args)
	if args == nil || !index.Unambiguous() {
		return m.ClassOf(unknownArguments, nil).Reads()
	}
	return m.ClassOf(index.Get, jsonrpc.Names(args)).Reads()
}

// possiblePlaces returns the names of all places that calls of a tool may read or write with
// any arguments: its domains, and those of the operator's invalidation edges.
func possiblePlaces(m *valuemodel.Model) []string {
	out := slices.Clone(m.Domains)
	for _, places := range [][]call.Place{m.Reads(unknownArguments), m.Writes(unknownArguments).Places} {
		for _, p := range places {
			out = append(out, fmt.Sprint(p))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// serveReadResult serves a call of mcpschedd_read_result.
func serveReadResult(x *request, arguments []byte) outcome {
	plans := &x.s.srv.policy.Load().Plans
	value, list, err := x.s.srv.kept.Read(x.s, x.s.identity.scope == "", arguments, plans, deliver.Tokens)
	switch {
	case err != nil:
		return outcome{err: err}
	case list != "":
		return ownOutcome(textResult(list))
	}
	return ownOutcome(structuredResult(value, nil, false))
}
