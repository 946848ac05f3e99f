package predict

import (
	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
)

// Candidate is an exact call that may come next. Its key is its tool and canonical arguments (""
// if they were not worked out, as no rule would allow them): of which upstream and in which scope
// is for the caller to say. P is that this very call is made while its answer may stand in for it,
// and Reason why it may not be made, as far as it can be told here.
type Candidate struct {
	enrich.Candidate
	Why   Why
	Pause enrich.Percentiles // from an answer to the session's next call, whatever that is; zero: not known
}

// Why is what makes a candidate likely.
type Why struct {
	Edge        string // the tools that it leads from and to, and which of their follow-ups
	Configured  bool   // by a follow-up of the configuration
	Rank        int    // in the list that its arguments come from
	Depth       int    // 0: it follows a call that was made; 1: one that is only a candidate
	Independent bool   // no argument was read off a result or learned
}

// target is what all candidates of a tool have in common.
type target struct {
	Tool
	shadow bool      // it is only watched
	barred bool      // it is never called early
	stats  Candidate // what was learned of its calls
}

func (m *Model) target(tool string) *target {
	t, known := m.opt.Tool(tool), m.learned.lookupTool(tool)
	return &target{
		t, t.UntrustedHint && int(known.Labels.Now) < m.opt.ShadowLabels, m.Barred(tool) != "",
		Candidate{Candidate: enrich.Candidate{
			Key: call.Key{Tool: tool}, Model: t.Model, Usefulness: known.useful(),
			Latency: known.Latency.percentiles(), Lead: known.Lead.percentiles(), Bytes: known.Size.bytes(0.9),
		}, Pause: m.learned.pauses.percentiles()},
	}
}

// public is a candidate as the caller of the package gets it.
func (f *features) public(c *candidate) Candidate {
	m := f.s.m
	t := f.target(c.tool)
	out := t.stats
	out.Key.Arguments, out.P = c.arguments, squash(c.logit)
	shadow := t.shadow
	if g := c.configured; g != nil {
		out.Why = Why{Edge: g.t.follow.edge, Configured: true, Rank: g.rank, Independent: c.free}
		if !m.opt.Learn {
			out.P = g.t.follow.prior
		}
		if g.t.follow.foreign {
			out.Reason = enrich.Origin
		}
	} else {
		g = &c.matches[0]
		out.Why = Why{Edge: edgeLabel(g.e.symbol, c.tool), Rank: g.rank}
		shadow = shadow || m.onTrial(c.sample.from)
	}
	if out.Reason == "" {
		out.Reason = m.reason(&out, t)
	}
	if c.configured != nil && out.Reason != "" {
		c.configured.over = true // what no rule allows is said once
	}
	if out.Reason == "" && shadow {
		out.Reason = enrich.Shadow
	}
	return out
}
