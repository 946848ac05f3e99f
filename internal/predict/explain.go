package predict

import (
	"slices"
	"strings"
)

// Bounds on the alternative sources of one argument, and on the templates of one call.
const (
	maxSources   = 3
	maxTemplates = 6
)

// explain learns templates from a call: for each earlier call that its arguments could be
// derived from, the templates that would have produced it.
func (s *Session) explain(tool string, pieces []string, slots []slot) {
	done := map[hash]bool{}
	fixed := make([]bool, len(slots))
	for i, a := range slots {
		fixed[i] = s.m.learned.isConstant(tool, a)
	}
	for _, e := range slices.Backward(s.events) {
		if e.answeredBefore(s.turn) {
			s.explainFrom(e, tool, pieces, slots, fixed, done)
		}
	}
}

// explainFrom learns the templates that one earlier call triggers.
func (s *Session) explainFrom(e *event, tool string, pieces []string, slots []slot, fixed []bool, done map[hash]bool) {
	ways := make([][]valueSource, len(slots))
	newest := e.turn == s.turn-1 // a call of the previous turn may be a trigger without providing a value
	read := newest
	for i, a := range slots {
		ways[i] = e.sources(a)
		read = read || len(ways[i]) > 0
		if fixed[i] {
			ways[i] = append([]valueSource{{From: fromConstant, Value: a.value}}, ways[i]...)
		}
		if len(ways[i]) > 0 {
			continue
		}
		if c, ok := s.carry[a.name]; ok && c == a.value {
			ways[i] = []valueSource{{From: fromCarried, Name: a.name}}
		} else if w, ok := s.otherResult(e, a); ok {
			ways[i] = []valueSource{w}
		} else {
			return
		}
	}
	if !read {
		return
	}
	for _, sources := range combine(ways) {
		t := newTemplate(e.symbol, tool, pieces, slots, sources)
		rank, ok := t.fit(e, slots)
		if ok && !done[t.id] && (t.anchored || newest) {
			done[t.id] = true
			s.m.learned.support(s, t, rank)
		}
	}
}

// combine returns up to maxTemplates combinations of one source per argument.
func combine(ways [][]valueSource) [][]valueSource {
	out := [][]valueSource{nil}
	for _, w := range ways {
		var next [][]valueSource
		for _, o := range out {
			for _, way := range w[:min(len(w), maxSources)] {
				if len(next) < maxTemplates {
					next = append(next, append(slices.Clip(o), way))
				}
			}
		}
		out = next
	}
	return out
}

// sources returns the sources in one earlier call for the value of a slot.
func (e *event) sources(a slot) []valueSource {
	if a.value.kind == word || a.value.text == "" || len(a.value.text) > maxValueBytes {
		return nil
	}
	out := e.resultSources(a.value)
	if v, ok := e.arg(a.name); ok && v.text == a.value.text {
		out = append(out, valueSource{From: fromArgument, Name: a.name})
	} else if len(a.value.text) > 2 || a.value.kind != text {
		for _, o := range e.args {
			if o.value.text == a.value.text {
				out = append(out, valueSource{From: fromArgument, Name: o.name})
				break
			}
		}
	}
	if len(out) == 0 && a.value.kind == text {
		out = e.pathSources(a.value.text)
	}
	if len(out) == 0 && a.value.kind == number {
		out = e.sumSources(a.value)
	}
	return out
}

// resultSources returns up to two lists of the result that contain the value, those with the
// lowest rank first.
func (e *event) resultSources(v scalar) []valueSource {
	spots := slices.Clone(e.values.positions[v.text])
	if v.kind == number && len(v.text) < 2 {
		return nil // a single digit matches by chance
	}
	slices.SortStableFunc(spots, func(x, y position) int { return int(x.rank - y.rank) })
	var out []valueSource
	for i, at := range spots {
		e.markUsed(at)
		if i < 2 {
			out = append(out, e.source(at))
		}
	}
	return out
}

// source returns the list that contains a value.
func (e *event) source(at position) valueSource {
	s := valueSource{From: fromResult, Name: e.values.lists[at.list].path, Pick: first}
	if s.Name[0] == '#' || strings.Contains(s.Name, "[*]") || strings.Contains(s.Name, ".*") || strings.Contains(s.Name, "{key}") {
		s.Pick = every // the path can lead to several values
	}
	return s
}

// pathSources returns the source of a path whose end is in the result. Its directory is an
// argument, the directory of an argument, or a constant.
func (e *event) pathSources(value string) []valueSource {
	for i := 1; i < len(value); i++ {
		if value[i] != '/' {
			continue
		}
		for _, at := range e.values.positions[value[i+1:]] {
			e.markUsed(at)
			w := e.source(at)
			w.Dir, w.Base = e.dirOf(value[:i])
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

// sumSources returns the source of a number that is the sum of two arguments, such as the
// offset of the next page.
func (e *event) sumSources(v scalar) []valueSource {
	for i, x := range e.args {
		for _, y := range e.args[i+1:] {
			if got, ok := sumOf(x.value, y.value); ok && got == v {
				return []valueSource{{From: fromArgument, Name: x.name, Plus: y.name}}
			}
		}
	}
	return nil
}

// otherResult returns the source of a value that is first or last in a list of the newest
// result of another tool.
func (s *Session) otherResult(e *event, a slot) (valueSource, bool) {
	if a.value.kind == word || len(a.value.text) < 2 {
		return valueSource{}, false
	}
	for _, o := range slices.Backward(s.events) {
		if o == e || !o.answeredBefore(s.turn) || s.newest(o.symbol) != o {
			continue
		}
		for _, at := range o.values.positions[a.value.text] {
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
