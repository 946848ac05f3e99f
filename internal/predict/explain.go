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
func (s *Session) explain(tool string, pieces []string, slots []slot) {
	done := map[hash]bool{}
	fixed := make([]*source, len(slots))
	for i, a := range slots {
		if s.m.fixed(tool, a) {
			fixed[i] = &source{From: constant, Value: a.value}
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
func (s *Session) explainFrom(e *event, tool string, pieces []string, slots []slot, fixed []*source, done map[hash]bool) {
	ways := make([][]source, len(slots))
	read := e.turn == s.turn-1 // the newest calls may trigger without being read
	for i, a := range slots {
		ways[i] = s.ways(e, a)
		read = read || slices.ContainsFunc(ways[i], func(w source) bool { return w.anchored() })
		if fixed[i] != nil {
			ways[i] = append([]source{*fixed[i]}, ways[i]...)
		}
		if len(ways[i]) == 0 {
			if c, ok := s.carried(a.name); ok && c == a.value {
				ways[i] = []source{{From: carried, Name: a.name}}
			} else if w, ok := s.elsewhere(e, a); ok {
				ways[i] = []source{w}
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
func combine(ways [][]source) [][]source {
	out := [][]source{nil}
	for _, w := range ways {
		var next [][]source
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
func (s *Session) ways(e *event, a slot) []source {
	var out []source
	if a.value.kind == word || a.value.text == "" || len(a.value.text) > maxValue {
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
func (e *event) resultWays(v scalar) []source {
	spots := e.values.spots[v.text]
	if v.kind == number && len(v.text) < 2 {
		spots = nil // a digit is everywhere
	}
	if len(spots) == 0 {
		return nil
	}
	order := slices.Clone(spots)
	slices.SortStableFunc(order, func(x, y spot) int { return int(x.rank - y.rank) })
	var out []source
	for _, at := range order[:min(2, len(order))] {
		e.mark(at)
		out = append(out, source{From: result, Name: e.values.lists[at.list].path, Pick: pickOf(e.values.lists[at.list].path)})
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

func (e *event) argumentWay(a slot) (source, bool) {
	if v, ok := e.arg(a.name); ok && v.text == a.value.text {
		return source{From: argument, Name: a.name}, true
	}
	if len(a.value.text) < 3 && a.value.kind == text {
		return source{}, false
	}
	for _, o := range e.args {
		if o.value.text == a.value.text {
			return source{From: argument, Name: o.name}, true
		}
	}
	return source{}, false
}

// joinedWays finds a path of which the result has the end: the front is an
// argument, the directory of one, or always the same.
func (e *event) joinedWays(v scalar) []source {
	if v.kind != text || len(v.text) > maxValue {
		return nil
	}
	for i := range len(v.text) {
		if v.text[i] != '/' || i == 0 {
			continue
		}
		for _, at := range e.values.spots[v.text[i+1:]] {
			path := e.values.lists[at.list].path
			w := source{From: result, Name: path, Pick: pickOf(path)}
			w.Dir, w.Base = e.dirOf(v.text[:i])
			e.mark(at)
			return []source{w}
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
			return argument, a.name
		case rest[0] == '/' && strings.LastIndexByte(rest, '/') == 0:
			return result, a.name
		}
	}
	return constant, dir
}

// madeWays finds a value that is made from arguments: the next page, the test
// beside a file.
func (e *event) madeWays(a slot) []source {
	if a.value.kind == number {
		return e.sumWays(a.value)
	}
	for _, o := range e.args {
		if o.value.kind != text || len(o.value.text) > maxValue {
			continue
		}
		n := 0
		for n < len(o.value.text) && n < len(a.value.text) && o.value.text[n] == a.value.text[n] {
			n++
		}
		cut, add := o.value.text[n:], a.value.text[n:]
		if n >= minPrefix && len(cut) <= maxSuffix && len(add) <= maxSuffix && !strings.Contains(cut+add, "/") {
			return []source{{From: argument, Name: o.name, Cut: cut, Add: add}}
		}
	}
	return nil
}

func (e *event) sumWays(v scalar) []source {
	for i, x := range e.args {
		for _, y := range e.args[i+1:] {
			if x.value.kind != number || y.value.kind != number {
				continue
			}
			if got, ok := sum(x.value, y.value); ok && got == v {
				return []source{{From: argument, Name: x.name, Plus: y.name}}
			}
		}
	}
	return nil
}

// elsewhere finds the value in the newest result of another tool.
func (s *Session) elsewhere(e *event, a slot) (source, bool) {
	if a.value.kind == word || len(a.value.text) < 2 {
		return source{}, false
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
				return source{From: elsewhere, Tool: o.symbol, Name: l.path, Pick: first}, true
			case len(l.uniq) - 1:
				return source{From: elsewhere, Tool: o.symbol, Name: l.path, Pick: last}, true
			}
		}
	}
	return source{}, false
}
