package predict

import (
	"slices"
	"strings"
)

// How many ways to explain one argument, and one call, are followed up.
const (
	maxWays      = 3
	maxTemplates = 6
	minPrefix    = 4  // bytes two values share if one is made from the other
	maxSuffix    = 16 // bytes in which they differ
)

// explain learns from a call which earlier calls its arguments could have been
// read off: for each of those, the templates that would have produced it.
func (s *History) explain(tool string, pieces []string, slots []slot) {
	done := map[hash]bool{}
	fixed := make([]*valueSource, len(slots))
	for i, a := range slots {
		if s.m.fixed(tool, a) {
			fixed[i] = &valueSource{From: fromConstant, Value: a.value}
		}
	}
	for i := len(s.events) - 1; i >= 0; i-- {
		e := s.events[i]
		if !e.known(s.turn) {
			continue
		}
		s.explainFrom(e, tool, pieces, slots, fixed, done)
	}
}

// explainFrom learns the templates with one earlier call as the trigger.
func (s *History) explainFrom(e *event, tool string, pieces []string, slots []slot, fixed []*valueSource, done map[hash]bool) {
	ways := make([][]valueSource, len(slots))
	read := e.turn == s.turn-1 // the newest calls may trigger without being read
	for i, a := range slots {
		ways[i] = s.ways(e, a)
		read = read || slices.ContainsFunc(ways[i], func(w valueSource) bool { return w.anchored() })
		if fixed[i] != nil {
			ways[i] = append([]valueSource{*fixed[i]}, ways[i]...)
		}
		if len(ways[i]) == 0 {
			if c, ok := s.carried(a.name); ok && c == a.value {
				ways[i] = []valueSource{{From: fromCarried, Name: a.name}}
			} else if w, ok := s.elsewhere(e, a); ok {
				ways[i] = []valueSource{w}
			} else {
				return
			}
		}
	}
	if !read {
		return
	}
	for _, sources := range combine(ways) {
		t := newTemplate(e.symbol, tool, pieces, slots, sources)
		rank, ok := t.fit(e, slots)
		if !ok || done[t.id] || !t.anchored && e.turn != s.turn-1 {
			continue
		}
		done[t.id] = true
		s.m.support(s, t, rank)
	}
}

// combine chooses one way for each argument, in up to maxTemplates manners.
func combine(ways [][]valueSource) [][]valueSource {
	out := [][]valueSource{nil}
	for _, w := range ways {
		var next [][]valueSource
		for _, o := range out {
			for _, way := range w[:min(len(w), maxWays)] {
				if len(next) < maxTemplates {
					next = append(next, append(slices.Clip(o), way))
				}
			}
		}
		out = next
	}
	return out
}

// ways are the sources within one earlier call that have the value of a slot.
func (s *History) ways(e *event, a slot) []valueSource {
	var out []valueSource
	if a.value.kind == word || a.value.text == "" || len(a.value.text) > maxValueBytes {
		return nil
	}
	out = append(out, e.resultWays(a.value)...)
	if w, ok := e.argumentWay(a); ok {
		out = append(out, w)
	}
	if len(out) == 0 {
		out = append(out, e.joinedWays(a.value)...)
	}
	if len(out) == 0 {
		out = append(out, e.madeWays(a)...)
	}
	return out
}

// resultWays finds the value as it is in the result: where it stands nearest to
// the front, and where else.
func (e *event) resultWays(v scalar) []valueSource {
	spots := e.values.spots[v.text]
	if v.kind == number && len(v.text) < 2 {
		spots = nil // a digit is everywhere
	}
	if len(spots) == 0 {
		return nil
	}
	order := slices.Clone(spots)
	slices.SortStableFunc(order, func(x, y spot) int { return int(x.rank - y.rank) })
	var out []valueSource
	for _, at := range order[:min(2, len(order))] {
		e.mark(at)
		out = append(out, valueSource{From: fromResult, Name: e.values.lists[at.list].path, Pick: pickOf(e.values.lists[at.list].path)})
	}
	for _, at := range order[min(2, len(order)):] {
		e.mark(at)
	}
	return out
}

// pickOf says whether a path can have several values.
func pickOf(path string) int {
	if path[0] == '#' || strings.Contains(path, "[*]") || strings.Contains(path, ".*") || strings.Contains(path, "{key}") {
		return every
	}
	return first
}

func (e *event) argumentWay(a slot) (valueSource, bool) {
	if v, ok := e.arg(a.name); ok && v.text == a.value.text {
		return valueSource{From: fromArgument, Name: a.name}, true
	}
	if len(a.value.text) < 3 && a.value.kind == text {
		return valueSource{}, false
	}
	for _, o := range e.args {
		if o.value.text == a.value.text {
			return valueSource{From: fromArgument, Name: o.name}, true
		}
	}
	return valueSource{}, false
}

// joinedWays finds a path of which the result has the end: the front is an
// argument, the directory of one, or always the same.
func (e *event) joinedWays(v scalar) []valueSource {
	if v.kind != text || len(v.text) > maxValueBytes {
		return nil
	}
	for i := range len(v.text) {
		if v.text[i] != '/' || i == 0 {
			continue
		}
		for _, at := range e.values.spots[v.text[i+1:]] {
			path := e.values.lists[at.list].path
			w := valueSource{From: fromResult, Name: path, Pick: pickOf(path)}
			w.Dir, w.Base = e.dirOf(v.text[:i])
			e.mark(at)
			return []valueSource{w}
		}
	}
	return nil
}

func (e *event) dirOf(dir string) (origin, string) {
	for _, a := range e.args {
		if a.value.kind != text || !strings.HasPrefix(a.value.text, dir) {
			continue
		}
		switch rest := a.value.text[len(dir):]; {
		case rest == "" || rest == "/":
			return fromArgument, a.name
		case rest[0] == '/' && strings.LastIndexByte(rest, '/') == 0:
			return fromResult, a.name
		}
	}
	return fromConstant, dir
}

// madeWays finds a value that is made from arguments: the next page, the test
// beside a file.
func (e *event) madeWays(a slot) []valueSource {
	if a.value.kind == number {
		return e.sumWays(a.value)
	}
	for _, o := range e.args {
		if o.value.kind != text || len(o.value.text) > maxValueBytes {
			continue
		}
		n := 0
		for n < len(o.value.text) && n < len(a.value.text) && o.value.text[n] == a.value.text[n] {
			n++
		}
		cut, add := o.value.text[n:], a.value.text[n:]
		if n >= minPrefix && len(cut) <= maxSuffix && len(add) <= maxSuffix && !strings.Contains(cut+add, "/") {
			return []valueSource{{From: fromArgument, Name: o.name, Cut: cut, Add: add}}
		}
	}
	return nil
}

func (e *event) sumWays(v scalar) []valueSource {
	for i, x := range e.args {
		for _, y := range e.args[i+1:] {
			if x.value.kind != number || y.value.kind != number {
				continue
			}
			if got, ok := added(x.value, y.value); ok && got == v {
				return []valueSource{{From: fromArgument, Name: x.name, Plus: y.name}}
			}
		}
	}
	return nil
}

// elsewhere finds the value in the newest result of another tool.
func (s *History) elsewhere(e *event, a slot) (valueSource, bool) {
	if a.value.kind == word || len(a.value.text) < 2 {
		return valueSource{}, false
	}
	for i := len(s.events) - 1; i >= 0; i-- {
		o := s.events[i]
		if o == e || !o.known(s.turn) || s.newest(o.symbol) != o {
			continue
		}
		for _, at := range o.values.spots[a.value.text] {
			l := &o.values.lists[at.list]
			switch int(at.rank) {
			case 0:
				return valueSource{From: fromElsewhere, Tool: o.symbol, Name: l.path, Pick: first}, true
			case len(l.uniq) - 1:
				return valueSource{From: fromElsewhere, Tool: o.symbol, Name: l.path, Pick: last}, true
			}
		}
	}
	return valueSource{}, false
}
