package predict

import (
	"slices"
	"strings"

	"mcpschedd/internal/enrich"
)

// Bounds on the alternative sources of one argument, and on the templates of one call.
const (
	maxSources   = 3
	maxTemplates = 6
)

// origin is the kind of source of an argument's value.
type origin byte

const (
	fromConstant origin = 'k' // a constant
	fromArgument origin = 'a' // an argument of the trigger
	fromResult   origin = 'r' // the result of the trigger
)

// pick is which value of a list in a result is taken.
type pick byte

const (
	first  pick = iota
	every       // each value makes a candidate
	beside      // the value in the same array element as the driving one
)

// valueSource describes how to find the value of one argument. It contains names, paths,
// values that occurred often, and a constant directory, which makes its template private.
type valueSource struct {
	From  origin
	Name  string // of the argument, or path of the values in a result
	Pick  pick   // for fromResult
	Dir   origin // directory to prepend: a constant or an argument; zero for none
	Base  string // the constant directory, or the name of the argument
	Value scalar // of fromConstant
}

// hash adds the source to a hash.
func (s *valueSource) hash(h hash) hash {
	return h.str(s.Name).str(s.Base).str(s.Value.Text).num(int(s.Value.Kind)).num(int(s.From)).num(int(s.Dir)).num(int(s.Pick))
}

// value returns the value of a source that has a single value.
func (s *valueSource) value(e *event) (scalar, bool) {
	switch s.From {
	case fromConstant:
		return s.Value, true
	case fromArgument:
		return e.arg(s.Name)
	}
	l := e.values.lookup(s.Name)
	if l.size() == 0 {
		return scalar{}, false
	}
	return s.inDir(l.rank(0).value, e)
}

// rankOf returns the rank of the list value that makes the source v; -1 if none does.
func (s *valueSource) rankOf(l *valueList, e *event, v scalar) int {
	for i := range l.size() {
		if got, ok := s.inDir(l.rank(i).value, e); ok && got.Text == v.Text {
			return i
		}
	}
	return -1
}

// inDir prepends the directory of the source to a value.
func (s *valueSource) inDir(v scalar, e *event) (scalar, bool) {
	dir := s.Base
	switch s.Dir {
	case 0:
		return v, true
	case fromArgument:
		a, ok := e.arg(s.Base)
		if !ok || a.Kind != text {
			return v, false
		}
		dir = strings.TrimSuffix(a.Text, "/")
	}
	if v.Kind != text || strings.HasPrefix(v.Text, "/") {
		return v, false
	}
	v.Text = dir + "/" + strings.TrimPrefix(v.Text, "./")
	return v, true
}

// explain learns templates from a call: for each earlier call that its arguments could be
// derived from, and that may count, the templates that would have produced it.
func (s *Session) explain(tool string, pieces []string, slots []slot, counts func(*event) bool) {
	done := map[hash]bool{}
	fixed := make([]bool, len(slots))
	for i, a := range slots {
		fixed[i] = s.m.learned.isConstant(tool, a)
	}
	for _, e := range slices.Backward(s.events) {
		if e.turn < s.turn && e.values != nil && (counts == nil || counts(e)) {
			s.explainFrom(e, tool, pieces, slots, fixed, done)
		}
	}
}

// writeSince returns a function that reports whether a call is a write made since the given
// call was made last: a repeat is explained only by those, as an edit leads to another read.
func (s *Session) writeSince(call hash) func(*event) bool {
	last := -1
	for _, e := range s.events {
		if e.call == call {
			last = e.turn
		}
	}
	return func(e *event) bool {
		return last >= 0 && e.turn > last && !enrich.Speculatable(s.m.opt.Tool(e.tool).Model)
	}
}

// explainFrom learns the templates that one earlier call triggers. A call of the previous
// turn may be a trigger without providing a value.
func (s *Session) explainFrom(e *event, tool string, pieces []string, slots []slot, fixed []bool, done map[hash]bool) {
	sources := make([][]valueSource, len(slots))
	newest := e.turn == s.turn-1
	read := newest
	for i, a := range slots {
		sources[i] = e.sources(a)
		read = read || len(sources[i]) > 0
		if fixed[i] {
			sources[i] = append([]valueSource{{From: fromConstant, Value: a.value}}, sources[i]...)
		}
		if len(sources[i]) == 0 {
			return
		}
	}
	if !read {
		return
	}
	for _, one := range combine(sources) {
		t := newTemplate(e.symbol, tool, pieces, slots, one)
		rank, ok := t.fit(e, slots)
		if ok && !done[t.id] && (t.anchored || newest) {
			done[t.id] = true
			s.m.learnTemplate(t, rank, s.id)
		}
	}
}

// combine returns up to maxTemplates combinations of one source per argument.
func combine(sources [][]valueSource) [][]valueSource {
	out := [][]valueSource{nil}
	for _, all := range sources {
		var next [][]valueSource
		for _, o := range out {
			for _, source := range all[:min(len(all), maxSources)] {
				if len(next) < maxTemplates {
					next = append(next, append(slices.Clip(o), source))
				}
			}
		}
		out = next
	}
	return out
}

// sources returns the sources in one earlier call for the value of a slot.
func (e *event) sources(a slot) []valueSource {
	if a.value.Kind == literal || a.value.Text == "" || len(a.value.Text) > maxLearnedBytes {
		return nil
	}
	out := e.resultSources(a.value)
	if v, ok := e.arg(a.name); ok && v.Text == a.value.Text {
		out = append(out, valueSource{From: fromArgument, Name: a.name})
	} else if len(a.value.Text) > 2 || a.value.Kind != text {
		if name, ok := e.argWith(func(v scalar) bool { return v.Text == a.value.Text }); ok {
			out = append(out, valueSource{From: fromArgument, Name: name})
		}
	}
	if len(out) == 0 && a.value.Kind == text {
		out = e.pathSources(a.value.Text)
	}
	return out
}

// resultSources returns up to two lists of the result that contain the value, those with the
// lowest rank first.
func (e *event) resultSources(v scalar) (out []valueSource) {
	if v.Kind == number && len(v.Text) < 2 {
		return nil // a single digit matches by chance
	}
	spots := slices.SortedStableFunc(slices.Values(e.values.positions[v.Text]), func(x, y position) int { return int(x.rank - y.rank) })
	for _, at := range spots[:min(len(spots), 2)] {
		out = append(out, e.source(at))
	}
	return out
}

// source returns the list that contains a value.
func (e *event) source(at position) valueSource {
	s := valueSource{From: fromResult, Name: e.values.lists[at.list].path}
	if s.Name[0] == '#' || strings.Contains(s.Name, "*") || strings.Contains(s.Name, "{key}") {
		s.Pick = every // the path can lead to several values
	}
	return s
}

// pathSources returns the source of a path that ends with a value of the result. Its directory is an
// argument or a constant.
func (e *event) pathSources(path string) []valueSource {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		for _, at := range e.values.positions[path[i+1:]] {
			s := e.source(at)
			s.Dir, s.Base = fromConstant, path[:i]
			isDir := func(v scalar) bool { return v.Kind == text && strings.TrimSuffix(v.Text, "/") == path[:i] }
			if name, ok := e.argWith(isDir); ok {
				s.Dir, s.Base = fromArgument, name
			}
			return []valueSource{s}
		}
	}
	return nil
}

// argWith returns the name of the first argument with a value that fits. Of the values in an array only the
// first counts, as they share a name.
func (e *event) argWith(fits func(scalar) bool) (name string, ok bool) {
	for _, o := range e.args {
		if v, _ := e.arg(o.name); fits(v) {
			return o.name, true
		}
	}
	return "", false
}
