package forecast

import (
	"strconv"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// Guess is an exact call that may come next.
type Guess struct {
	Tool       string
	Arguments  string  // canonical; "" if they were not worked out, as no rule would allow them
	P          float64 // that this very call is made while its answer may stand in for it
	Edge       string  // the tools that it leads from and to, and which of their follow-ups
	Max        int     // calls for one answer that the edge allows; 0: any number
	Rank       int     // in the list that its arguments come from
	Depth      int     // 0: it follows a call that was made; 1: one that is only guessed
	Configured bool    // by a follow-up
	Follows    uint64  // ID of the call it follows, or of the one that the guess before it follows

	Latency, Lead enrich.Spread // of calls of the tool; zero: not known
	Bytes         int           // of its answers, 90th percentile; 0: not known
	Useful        float64       // how often its answers were made use of; 0.5 where that is not known

	Model  *valuemodel.Model
	Reason enrich.Reason // why it may not be made, as far as it can be told here; "" if it may

	free  bool   // no argument was read off a result or learned
	after string // the guess that it follows; "" if it follows a call
}

// Candidate is the guess as enrich takes it.
func (g *Guess) Candidate(key call.Key) enrich.Candidate {
	answer := strconv.FormatUint(g.Follows, 10) + " " + g.after // Max is for one answer, and enrich counts by edge
	return enrich.Candidate{
		Key: key, Model: g.Model, P: g.P, Useful: g.Useful, Latency: g.Latency, Lead: g.Lead, Bytes: g.Bytes,
		Edge: g.Edge + " " + answer, Max: g.Max, Reason: g.Reason,
	}
}

// guesses makes guesses of candidates, with room for some more.
func (f *Forecast) guesses(found []predict.Candidate, more int) []Guess {
	out := make([]Guess, 0, len(found)+more)
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
	sample Guess // what was learned of its calls
}

func (f *Forecast) subject(tool string) *subject {
	t := f.standing(tool)
	return &subject{
		standing: t,
		sample: Guess{
			Tool: tool, Model: t.Model,
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

func (f *Forecast) standing(tool string) standing {
	t := f.o.Tool(tool)
	return standing{t, t.Hearsay && f.m.Labels(tool) < f.o.ShadowLabels, f.Barred(tool) != ""}
}

func (f *Forecast) guess(c *predict.Candidate, t *subject) Guess {
	g := t.sample
	g.Arguments, g.P, g.Rank, g.Follows = c.Arguments, c.P, c.Rank, c.Follows
	g.Configured, g.free = c.Edge != "", c.Free
	if g.Edge = c.Edge; !g.Configured {
		g.Edge = edgeName(c.Trigger, c.Tool)
	} else {
		g.Max = f.edges.max(c.Edge)
	}
	g.Reason = f.reason(&g, &t.standing)
	if g.Reason == "" && (c.Shadow || t.shadow) {
		g.Reason = enrich.Shadow
	}
	return g
}
