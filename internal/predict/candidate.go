package predict

import (
	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
)

// Candidate is an exact call that may come next. Its key has only the tool and the canonical
// arguments, which are "" for a configured call of another upstream or of no tool; the caller
// adds the upstream and the scope. P is the probability that exactly this call is made while a
// prefetched result may be served. Reason is Shadow if the candidate is only observed, Origin if it is a
// call of another upstream, and else not set: see [Session.Check].
type Candidate struct {
	enrich.Candidate
	Why   Why
	Pause enrich.Percentiles // from a result to the session's next call, whichever it is; zero if unknown

	passed Tool // for which [Session.Check] last accepted the arguments; zero for none
}

// Why is the reason why a candidate is likely.
type Why struct {
	Edge        string // the preceding and the predicted tool, and which of their follow-ups
	Configured  bool   // the follow-up is configured
	Rank        int    // index in the list that its arguments come from
	Depth       int    // 0 if it follows an actual call, 1 if it follows another candidate
	Independent bool   // no argument comes from a result or was learned
}

// target is what all candidates for a tool have in common.
type target struct {
	Tool
	shadow  bool      // candidates are only observed
	base    Candidate // what its candidates have in common, such as the learned statistics of its calls
	canWait [maxAhead + 1]Count
}

func (m *Model) target(tool string) *target {
	t, known := m.opt.Tool(tool), m.learned.lookupTool(tool)
	return &target{
		t, t.Annotated && known.Labels < m.opt.ShadowLabels,
		Candidate{Candidate: enrich.Candidate{
			Key: call.Key{Tool: tool}, Model: t.Model,
			Latency: known.Latency.percentiles(), Lead: known.Lead.percentiles(), Bytes: known.Size.bytes(0.9),
		}, Pause: m.learned.pauses.percentiles()},
		known.CanWait,
	}
}

// export returns a candidate in the form that callers of the package receive.
func (f *scorer) export(c *candidate) Candidate {
	m := f.s.m
	t := f.target(c.tool)
	out := t.base
	out.Key.Arguments, out.P = c.arguments, sigmoid(c.logit)
	if n := t.canWait[c.sample.ahead]; m.opt.Learn && out.Latency.P50 <= out.Pause.P50 { // else a later choice hides less
		out.CanWait = float64(n.Right / (n.Of + 1))
	}
	shadow := t.shadow
	if g := c.configured; g != nil {
		out.Why = Why{Edge: g.t.follow.edge, Configured: true, Rank: g.rank, Independent: c.independent}
		if !m.opt.Learn {
			out.P = g.t.follow.prior
		}
		if g.t.follow.foreign {
			out.Reason = enrich.Origin
		}
	} else {
		g = &c.matches[0]
		out.Why = Why{Edge: edgeLabel(g.e.symbol, c.tool), Rank: g.rank}
		shadow = shadow || g.t.Labels < m.opt.ShadowLabels
	}
	c.p = out.P
	if out.Reason == "" && shadow {
		out.Reason = enrich.Shadow
	}
	return out
}
