package telemetry

import (
	"mcpschedd/internal/events"
)

// decision is a choice as it is kept: without maps, so that its memory can be used
// again for the next.
type decision struct {
	view     DecisionView // without Declined and Top
	declined []declined
	top      []CandidateView
}

type declined struct {
	reason string
	n      int
}

// set makes of it what e tells of; after is the tool after whose answer it was.
func (d *decision) set(e *events.Event, s *session, after string) {
	d.view = DecisionView{
		AtUS: micros(e.At), Session: nameOf(s), After: after,
		Candidates: int(count(int64(e.Candidates))), Issued: int(count(int64(e.Issued))),
		BestMS: ms(e.BestMS), AchievedMS: ms(e.AchievedMS),
	}
	d.declined, d.top = d.declined[:0], d.top[:0]
	for reason, n := range e.Reasons {
		if len(d.declined) < mostReasons {
			d.declined = append(d.declined, declined{cut(reason, longest), n})
		}
	}
	for i := range e.Top[:min(len(e.Top), 5)] {
		c := &e.Top[i]
		d.top = append(d.top, CandidateView{
			Tool: cut(c.Tool, longest), P: probability(c.P), Reason: cut(c.Reason, longest),
			ValueMS: ms(c.ValueMS), Tokens: count(c.Tokens), Called: c.Called,
		})
	}
}

// shown is a copy of it to be shown.
func (d *decision) shown() DecisionView {
	v := d.view
	if len(d.declined) > 0 {
		v.Declined = make(map[string]int, len(d.declined))
	}
	for _, one := range d.declined {
		v.Declined[one.reason] += one.n
	}
	v.Top = append([]CandidateView(nil), d.top...)
	return v
}

func callBar(e *events.Event, s *session, name string, d events.Disposition) Bar {
	b := bar(e, s, name)
	b.What, b.How = "call", string(d)
	b.Guessed, b.UseOf = e.Prefetched, max(e.UseOf, 0)
	b.IsError, b.Plan, b.Turn = e.IsError, e.Plan, e.Turn
	if served(d) {
		b.Hidden = ms(e.HiddenMS)
	}
	return b
}

func prefetchBar(e *events.Event, s *session, name string) Bar {
	b := bar(e, s, name)
	b.What, b.How = "prefetch", string(e.Fate)
	b.UsedBy, b.IsError = max(e.UsedBy, 0), e.IsError
	if e.Fate == events.Wasted {
		b.Cause = cut(cause(e), longest)
	}
	return b
}

// bar is what calls and prefetches have in common.
func bar(e *events.Event, s *session, name string) Bar {
	b := Bar{AtUS: micros(e.At), MS: ms(e.LatencyMS), Session: nameOf(s), Process: cut(e.Process, longest), Seq: e.Seq, Tool: name, P: probability(e.PredictedP)}
	if s != nil {
		b.Process = s.process.name
	}
	return b
}

func nameOf(s *session) string {
	if s == nil {
		return ""
	}
	return s.name
}

// probability is one that can be shown: 0 if it is none.
func probability(p float64) float64 { return min(ms(p), 1) }
