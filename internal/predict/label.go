package predict

import (
	"math"
	"slices"
	"time"
)

// Bounds on the pending samples of a session.
const (
	maxSamples = 2048 // samples of one session
	fewSamples = 4    // samples of one call, once the session has many
)

// sample is a candidate as it was scored in one turn.
type sample struct {
	turn        int
	at          time.Time
	weight      float64 // of its label: 1/√n for the n-th sample of the call
	by          ranked  // its most probable match; zero if it is configured
	base        float64
	features    []hash
	logit       float64 // sum of base and weights at that time
	valuesLogit float64 // the part of logit that comes from the features of values
	ahead       int     // places in the driving list beyond the value after the last one called; at most maxAhead
	again       bool    // the session has made the call before
	outcomes    []ranked
}

// ranked is a rank in the driving list of a template.
type ranked struct {
	trigger string
	id      hash
	rank    int
}

// prediction is the pending samples of one exact call, oldest first.
type prediction struct {
	call      hash
	tool      string
	arguments string
	samples   []sample
	made      int // number of samples so far, the labelled ones included
	missed    int // number of the oldest samples that were learned as misses before that was certain

	first    float64 // probability when it was first predicted
	reported bool    // to Options.Labelled, or not to be
	shown    bool    // the client was given the answer, so that it is no miss if the client does not call
}

// pending are the predicted calls of a session without a label.
type pending struct {
	byCall map[hash]*prediction // by hash of the call
	order  []*prediction        // oldest first
	n      int                  // total number of samples
}

// addSample stores a candidate until its label is known. Each result of a turn scores the
// candidates again, so a call keeps one sample per turn: the last one, with the time of the
// first. A call with a result that may be served for long is scored in many turns; once the session
// has many samples, only a few of each call are kept. The first samples count for most, since a
// prefetch is decided on early, and all samples of a call have much the same label.
func (s *Session) addSample(c *candidate) {
	p := s.pending.byCall[c.key]
	if p != nil && p.samples[len(p.samples)-1].turn == s.turn {
		last := &p.samples[len(p.samples)-1]
		c.sample.at, c.sample.weight = last.at, last.weight
		*last = c.sample
		return
	}
	if s.pending.n >= maxSamples || p != nil && s.pending.n > maxSamples/2 && len(p.samples) >= fewSamples {
		return
	}
	if p == nil {
		p = &prediction{call: c.key, tool: c.tool, arguments: c.arguments, first: c.p, reported: s.m.opt.Labelled == nil}
		s.pending.byCall[c.key] = p
		s.pending.order = append(s.pending.order, p)
	}
	p.made++
	c.sample.weight = 1 / math.Sqrt(float64(p.made))
	p.samples = append(p.samples, c.sample)
	s.pending.n++
}

// labelCall labels the samples of a call that the client made, and marks the configured
// follow-ups that predicted it as done.
func (s *Session) labelCall(e *event) {
	for _, known := range s.events {
		for i := range known.follows {
			g := &known.follows[i]
			g.done = g.done || g.t.Target == e.tool && g.arguments == e.arguments
		}
	}
	p := s.pending.byCall[e.call]
	if p == nil {
		return
	}
	if !e.at.IsZero() {
		tool, lead := e.tool, e.at.Sub(p.samples[0].at).Seconds()
		s.m.learn(func(l *state) { l.toolFor(tool).Lead.add(lead) })
	}
	s.learnCanWait(e, p)
	s.labelSamples(p, func(k *sample) (settled, hit bool) { return true, !s.tooOld(e.tool, k, e.at) })
	s.dropLabelled()
}

// learnCanWait learns from a predicted call that the client made whether a prefetch could have waited for
// a later choice. Improbable samples are left out, as a later one is more probable by chance.
func (s *Session) learnCanWait(e *event, p *prediction) {
	for i := range p.samples {
		k := &p.samples[i]
		if !s.m.opt.Learn || k.logit < logitOf(0.2) || s.tooOld(e.tool, k, e.at) {
			continue
		}
		tool, ahead := e.tool, k.ahead
		couldWait := slices.ContainsFunc(p.samples[i+1:], func(o sample) bool { return o.logit >= k.logit })
		s.m.learn(func(l *state) { l.toolFor(tool).CanWait[ahead].add(couldWait) })
	}
}

// Invalidate records that the results of stale calls, fetched before now, must not be served
// any more; nil means all calls. Their pending candidates are labelled as misses, and their
// configured follow-ups are dropped. Templates still use such results: after an edit, a client
// often reads what an earlier listing named. On recorded coding sessions a tenth of the
// correct candidates, and more of the improbable ones, came from invalidated results.
func (s *Session) Invalidate(stale func(tool, arguments string) bool) {
	for _, e := range s.events {
		if stale == nil || e.arguments == "" || stale(e.tool, e.arguments) {
			e.follows = nil
		}
	}
	for _, p := range s.pending.order {
		if stale == nil || stale(p.tool, p.arguments) {
			s.labelSamples(p, func(*sample) (settled, hit bool) { return true, false })
		}
	}
	s.dropLabelled()
}

// Shown records that the client was given the answer to a predicted call as part of another answer.
func (s *Session) Shown(tool, arguments string) {
	if p := s.pending.byCall[callHash(tool, arguments)]; p != nil {
		p.shown = true
	}
}

// expire labels the samples that are too old as misses, and learns from those presumed to be.
func (s *Session) expire(now time.Time) {
	for _, p := range s.pending.order {
		for ; !p.shown && p.missed < len(p.samples) && s.presumed(&p.samples[p.missed]); p.missed++ {
			s.learnLabel(p.samples[p.missed], false)
		}
		s.labelSamples(p, func(k *sample) (settled, hit bool) { return s.tooOld(p.tool, k, now), false })
	}
	s.dropLabelled()
}

// tooOld reports whether a result prefetched at the time of the sample would be too old to
// serve. Without a maximum age, turns count.
func (s *Session) tooOld(tool string, k *sample, now time.Time) bool {
	if age := s.m.maxAge(tool); age > 0 {
		return now.Sub(k.at) > age
	}
	return s.presumed(k)
}

// presumed reports whether a sample is presumed to be a miss: the calls that it follows from are
// forgotten. Hits are known at once, so if misses counted only when a result would be too old,
// which may take minutes, probabilities would be too high until then.
func (s *Session) presumed(k *sample) bool { return s.turn-k.turn > maxTurns+1 }

// labelSamples labels the oldest samples of a call until is reports one that is not settled.
// A call that was predicted in several turns counts once for its template, with the last sample.
func (s *Session) labelSamples(p *prediction, is func(*sample) (settled, hit bool)) {
	n := 0
	for ; n < len(p.samples); n++ {
		k := &p.samples[n]
		settled, hit := is(k)
		if !settled {
			break
		}
		if p.shown && !hit {
			continue
		}
		if !p.reported {
			p.reported = true
			s.m.opt.Labelled(p.first, hit)
		}
		if hit || n >= p.missed {
			s.learnLabel(*k, hit)
		}
		if hit && n < p.missed { // again, to make up for the miss
			s.learnLabel(*k, true)
		}
	}
	if n > 0 && n == len(p.samples) {
		tool, by := p.tool, p.samples[n-1].by
		s.m.learn(func(l *state) {
			l.toolFor(tool).Labels++
			if t := l.template(by.trigger, by.id); t != nil {
				t.Labels++
			}
		})
	}
	s.pending.n -= n
	p.samples, p.missed = p.samples[n:], max(0, p.missed-n)
}

// learnLabel learns from the label of a sample, if the model learns.
func (s *Session) learnLabel(k sample, hit bool) {
	if s.m.opt.Learn {
		s.m.learn(func(l *state) { l.label(&k, hit) })
	}
}

// label learns from the label of a sample.
func (m *state) label(k *sample, hit bool) {
	for _, o := range k.outcomes {
		if t := m.template(o.trigger, o.id); t != nil {
			t.Ranks[o.rank].add(hit)
		}
	}
	m.weights.learn(k.base, k.features, hit, learningRate*k.weight)
	m.weights.learn(k.logit, shrinkage(k.logit, k.valuesLogit, k.again), hit, shrinkageRate*k.weight)
}

// dropLabelled removes the calls without pending samples.
func (s *Session) dropLabelled() {
	kept := s.pending.order[:0]
	for _, p := range s.pending.order {
		if len(p.samples) > 0 {
			kept = append(kept, p)
		} else {
			delete(s.pending.byCall, p.call)
		}
	}
	clear(s.pending.order[len(kept):])
	s.pending.order = kept
}
