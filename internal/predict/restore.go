package predict

import (
	"math"
	"slices"
)

// take puts one record of a state back, within the bounds of a model.
func (m *Learner) take(r *record) {
	m.sessions = max(m.sessions, min(r.Sessions, math.MaxInt32))
	for f, w := range savedWeights(r.Weights) {
		if len(m.weights.of) < maxWeights {
			m.weights.of[f] = w
		}
	}
	for _, o := range r.Outcomes {
		m.outcome(o.H).load([2]float32{o.Right, o.Of})
	}
	if s := r.Template; s != nil {
		if t, ok := s.template(); ok && m.room(m.templates[t.trigger]) {
			m.keep(t)
		}
	}
	for _, w := range r.Withheld {
		if len(m.withheld) < maxWithheld && sound(w.Support) {
			m.withheld[w.H] = withheld{owners{w.seenIn(), min(w.Last, math.MaxInt32)}, kept(w.Support)}
		}
	}
	if s := r.Constants; s != nil && len(m.constants) < maxConstants && sound(s.Total) {
		m.constants[s.H] = s.few()
	}
	if s := r.Tool; s != nil && len(m.tools) < maxTools && sound(s.Useful[:]...) && sound(s.Agreed, s.Labels) {
		m.tools[s.Name] = s.stats()
	}
	if s := r.Edge; s != nil && len(m.edges) < maxEdges && sound(s.Labels) {
		m.edges[edgeName{s.Trigger, s.Target}] = &trust{labels: kept(s.Labels)}
	}
	if s := r.Bar; s != nil && s.Why != "" {
		m.bar(s.Tool, s.Why)
	}
}

// sound reports whether counts are such as could have been counted.
func sound(counts ...float32) bool {
	return !slices.ContainsFunc(counts, func(c float32) bool { return !(c >= 0 && c < 1e9) })
}

func (o *outcome) load(saved [2]float32) {
	if sound(saved[:]...) {
		*o = outcome{kept(min(saved[0], saved[1])), kept(saved[1])}
	}
}

// template is the template that was kept; false if its parts do not fit.
func (s *savedTemplate) template() (*template, bool) {
	n := len(s.Sources)
	if n > maxSlots || len(s.Kinds) != n || len(s.Names) != n || len(s.Pieces) != n+1 || s.Driver >= n || s.Driver < -1 || !sound(s.Support) || s.Deepest < 0 || s.Deepest >= maxRank {
		return nil, false
	}
	t := &template{trigger: s.Trigger, target: s.Target, sources: make([]valueSource, 0, n), pieces: s.Pieces, kinds: s.Kinds, names: s.Names, driver: s.Driver, support: kept(s.Support), deepest: s.Deepest}
	for i := range t.ranks {
		t.ranks[i].load(s.Ranks[i])
	}
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
	f := &few{total: kept(s.Total), texts: s.Texts}
	for _, v := range s.Values[:min(len(s.Values), maxFew)] {
		if sound(v.N) {
			f.values = append(f.values, often{v.H, kept(v.N), v.seenIn()})
		}
	}
	return f
}

func (s *savedTool) stats() *toolStats {
	t := &toolStats{latency: newSketch(s.Latency), size: newSketch(s.Size), lead: newSketch(s.Lead), agreed: kept(s.Agreed), labels: kept(s.Labels)}
	t.useful.load(s.Useful)
	return t
}

func newSketch(cell [cells]float32) sketch {
	var q sketch
	if sound(cell[:]...) {
		for i, c := range cell {
			q.cell[i] = kept(c)
			q.n += c
		}
	}
	return q
}
