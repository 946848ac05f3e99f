package predict

import (
	"math"
	"slices"
)

// take puts one record of a state back, within the bounds of a model.
func (m *Learner) take(r *record) {
	m.sessions = max(m.sessions, min(r.Sessions, math.MaxInt32))
	for _, c := range r.Counts {
		if len(m.counts.m) < maxCounts && sound(c.Hits, c.N) {
			m.counts.m[c.H] = beta{hits: c.Hits, n: c.N}
		}
	}
	for _, o := range r.Order {
		if sound(o.Total, o.Joint) && len(m.order.total) < maxOrder && len(m.order.joint) < maxOrder {
			if o.Total > 0 {
				m.order.total[o.H] = tally{n: o.Total}
			} else {
				m.order.joint[o.H] = tally{n: o.Joint}
			}
		}
	}
	if s := r.Mixer; s != nil && len(m.mixers) < maxMixers && s.sound() {
		m.mixers[s.Set] = s.weights()
	}
	if s := r.Template; s != nil {
		if t, ok := s.template(); ok && m.room(m.templates[t.trigger]) {
			m.keep(t)
		}
	}
	for _, w := range r.Withheld {
		if len(m.withheld) < maxWithheld && sound(w.Support) {
			m.withheld[w.H] = withheld{owners{w.seenIn(), min(w.Last, math.MaxInt32)}, tally{n: w.Support}}
		}
	}
	if s := r.Constants; s != nil && len(m.constants) < maxConstants && sound(s.Total) {
		m.constants[s.H] = s.few()
	}
	if s := r.Tool; s != nil && len(m.tools) < maxTools && sound(s.Useful[:]...) && s.Agreed >= 0 && s.Labels >= 0 {
		m.tools[s.Name] = s.stats()
	}
	if s := r.Edge; s != nil && len(m.edges) < maxEdges && s.Labels >= 0 && sound(float32(s.Drift)) {
		m.edges[edgeName{s.Trigger, s.Target}] = &trust{labels: s.Labels, drift: s.Drift}
	}
	if s := r.Bar; s != nil && s.Why != "" {
		m.bar(s.Tool, s.Why)
	}
}

// sound reports whether counts are such as could have been counted.
func sound(counts ...float32) bool {
	return !slices.ContainsFunc(counts, func(c float32) bool { return !(c >= 0 && c < 1e9) })
}

func (s *savedMixer) sound() bool {
	return len(s.W) == inputs && len(s.Seen) == inputs && sound(s.Seen...) && !slices.ContainsFunc(s.W, func(w float32) bool { return !(math.Abs(float64(w)) <= maxWeight) })
}

func (s *savedMixer) weights() *weights {
	var w weights
	for i := range w.w {
		w.w[i], w.seen[i] = float64(s.W[i]), float64(s.Seen[i])
	}
	w.loaded, w.loadedSeen = w.w, w.seen
	return &w
}

// template is the template that was kept; false if its parts do not fit.
func (s *savedTemplate) template() (*template, bool) {
	n := len(s.Sources)
	if n > maxSlots || len(s.Kinds) != n || len(s.Pieces) != n+1 || s.Driver >= n || s.Driver < -1 || !sound(s.Support) || s.Deepest < 0 || s.Deepest >= maxRank {
		return nil, false
	}
	t := &template{trigger: s.Trigger, target: s.Target, sources: make([]valueSource, 0, n), pieces: s.Pieces, kinds: s.Kinds, driver: s.Driver, support: tally{n: s.Support}, deepest: s.Deepest}
	for i, src := range s.Sources {
		src.Value = scalar{src.Text, src.Kind}
		many := src.Pick == every || src.Pick == beside
		if many && src.From != fromResult || (src.Pick == every) != (i == s.Driver) || many && s.Driver < 0 || src.Pick > first || src.Pick < beside || !fits(src.Value, s.Kinds[i], src.From) {
			return nil, false
		}
		t.sources = append(t.sources, src.valueSource)
	}
	t.seal()
	if t.owners != nil {
		t.owners.in = everyone() // else it would not be here
	}
	return t, true
}

// fits reports whether a constant can stand in a slot.
func fits(v scalar, k kind, from origin) bool {
	switch {
	case from != fromConstant:
		return true
	case v.kind != k:
		return false
	case k == number:
		return isNumber(v.text)
	case k == word:
		return v.text == "true" || v.text == "false" || v.text == "null"
	}
	return k == text
}

func (s *savedConstants) few() *few {
	f := &few{total: tally{n: s.Total}}
	for _, v := range s.Values[:min(len(s.Values), maxFew)] {
		if sound(v.N) {
			f.values = append(f.values, often{v.H, tally{n: v.N}, v.seenIn()})
		}
	}
	return f
}

func (s *savedTool) stats() *toolStats {
	return &toolStats{
		latency: newSketch(s.Latency), size: newSketch(s.Size), lead: newSketch(s.Lead),
		useful: beta{hits: min(s.Useful[0], s.Useful[1]), n: s.Useful[1]},
		agreed: count{n: s.Agreed}, labels: count{n: s.Labels},
	}
}

func newSketch(cell [cells]float32) sketch {
	var q sketch
	if sound(cell[:]...) {
		q.cell = cell
		for _, c := range cell {
			q.n += c
		}
	}
	return q
}
