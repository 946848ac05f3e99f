package predict

import (
	"strconv"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/valuemodel"
)

// Candidate is an exact call that may come next.
type Candidate struct {
	Key call.Key // its tool and canonical arguments ("" if they were not worked out, as no rule would allow them); of which upstream and in which scope is for the caller to say
	P   float64  // that this very call is made while its answer may stand in for it
	Why Why

	Latency, Lead enrich.Spread // of calls of the tool; zero: not known
	Bytes         int           // of its answers, 90th percentile; 0: not known
	Useful        float64       // how often its answers were made use of; 0.5 where that is not known

	Model  *valuemodel.Model
	Reason enrich.Reason // why it may not be made, as far as it can be told here; "" if it may
}

// Why is what makes a candidate likely.
type Why struct {
	Edge       string // the tools that it leads from and to, and which of their follow-ups
	Configured bool   // by a follow-up of the configuration
	Max        int    // calls for one answer that the edge allows; 0: any number
	Rank       int    // in the list that its arguments come from
	Follows    uint64 // ID of the call it follows, or of the one that the candidate before it follows
	Depth      int    // 0: it follows a call that was made; 1: one that is only a candidate
	Free       bool   // no argument was read off a result or learned

	after string // the candidate that it follows; "" if it follows a call
}

// Item is the candidate as enrich takes it.
func (g *Candidate) Item(key call.Key) enrich.Candidate {
	answer := strconv.FormatUint(g.Why.Follows, 10) + " " + g.Why.after // Max is for one answer, and enrich counts by edge
	return enrich.Candidate{
		Key: key, Model: g.Model, P: g.P, Useful: g.Useful, Latency: g.Latency, Lead: g.Lead, Bytes: g.Bytes,
		Edge: g.Why.Edge + " " + answer, Max: g.Why.Max, Reason: g.Reason,
	}
}

// guesses makes guesses of candidates, with room for some more.
func (f *Model) guesses(found []Match, more int) []Candidate {
	out := make([]Candidate, 0, len(found)+more)
	known := map[string]*subject{}
	for i := range found {
		c := &found[i]
		t := known[c.Tool]
		if t == nil {
			t = f.subject(c.Tool)
			known[c.Tool] = t
		}
		out = append(out, f.guess(c, t))
	}
	return out
}

// subject is what all guesses at a tool have in common.
type subject struct {
	standing
	sample Candidate // what was learned of its calls
}

func (f *Model) subject(tool string) *subject {
	t := f.standing(tool)
	return &subject{
		standing: t,
		sample: Candidate{
			Key: call.Key{Tool: tool}, Model: t.Model,
			Latency: spread(f.m.Latency, tool), Lead: spread(f.m.Lead, tool),
			Bytes: f.m.Size(tool, 0.9), Useful: f.m.Useful(tool),
		},
	}
}

// standing is what the rules on guesses at a tool look at.
type standing struct {
	Tool
	shadow bool // it is only watched
	barred bool
}

func (f *Model) standing(tool string) standing {
	t := f.o.Tool(tool)
	return standing{t, t.Hearsay && f.m.Labels(tool) < f.o.ShadowLabels, f.Barred(tool) != ""}
}

func (f *Model) guess(c *Match, t *subject) Candidate {
	g := t.sample
	g.Key.Arguments, g.P = c.Arguments, c.P
	g.Why = Why{Edge: c.Edge, Configured: c.Edge != "", Rank: c.Rank, Follows: c.Follows, Free: c.Free}
	if g.Why.Configured {
		g.Why.Max = f.edges.max(c.Edge)
	} else {
		g.Why.Edge = edgeLabel(c.Trigger, c.Tool)
	}
	g.Reason = f.reason(&g, &t.standing)
	if g.Reason == "" && (c.Shadow || t.shadow) {
		g.Reason = enrich.Shadow
	}
	return g
}
