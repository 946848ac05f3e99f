package predict

import (
	"slices"
	"strings"
)

// Bounds on templates.
const (
	maxPerTrigger   = 48
	leastPerTrigger = 8       // even if there are maxKept
	maxKept         = 3 << 13 // in all
	maxRank         = 24      // of a list
	minSupport      = 1.5     // calls a template must have explained: two, of late
)

// template is a way in which calls were made: after the trigger came the target,
// with each argument from its source.
type template struct {
	id       hash
	trigger  string
	target   string
	pieces   []string
	kinds    []kind
	names    []hash // tool and argument, of each
	sources  []valueSource
	anchored bool       // an argument comes from the trigger
	driver   int        // the argument whose source is a list with a candidate for each value; -1
	support  sum        // calls it explained, newer ones counting more
	ranks    [4]outcome // by the place in the list, in the turn after the trigger; the last one is all deeper ones
	deepest  int        // the highest rank that was right
	owners   *owners    // of a value that it holds; nil: it holds none but constants
}

func newTemplate(trigger, target string, pieces []string, slots []slot, sources []valueSource) *template {
	t := &template{trigger: trigger, target: target, pieces: pieces, sources: sources, driver: -1}
	for i := range slots {
		t.kinds = append(t.kinds, slots[i].value.kind)
		t.names = append(t.names, seed.str(target).str(slots[i].name))
		if sources[i].Pick == every && t.driver < 0 {
			t.driver = i
		}
	}
	return t
}

// fit settles which value of each list a template takes, given the call that it
// is to explain, and the rank in the list that drives it.
func (t *template) fit(e *event, slots []slot) (rank int, ok bool) {
	var driving *valueList
	for i := range t.sources {
		s := &t.sources[i]
		if s.Pick != every {
			continue
		}
		l := e.values.at(s.Name)
		at := rankOf(l, s, e, slots[i].value)
		switch {
		case at < 0:
			return 0, false
		case i == t.driver:
			rank, driving = at, l
		case l.rank(at).group == driving.rank(rank).group || sameBeside(l, driving.rank(rank).group, l.rank(at).value):
			s.Pick = beside
		case at == 0:
			s.Pick = first
		case at == l.size()-1:
			s.Pick = last
		default:
			return 0, false
		}
	}
	t.seal()
	return rank, true
}

func sameBeside(l *valueList, group int32, v scalar) bool {
	b, ok := l.beside(group)
	return ok && b.text == v.text
}

// find is the rank of the value that a source makes into v.
func rankOf(l *valueList, s *valueSource, e *event, v scalar) int {
	for i := range l.size() {
		if got, ok := s.changed(l.rank(i).value, e); ok && got.text == v.text {
			return i
		}
	}
	return -1
}

// seal notes what follows from the sources.
func (t *template) seal() {
	t.id = t.hash()
	t.anchored = slices.ContainsFunc(t.sources, func(s valueSource) bool { return s.anchored() })
	if t.personal() {
		t.owners = &owners{}
	}
}

// list is the place of the list that drives a template in a call's result, and how
// long that is; -1 and 1 if none does.
func (t *template) list(e *event) (place, size int) {
	if t.driver < 0 {
		return -1, 1
	}
	i, ok := e.values.paths[t.sources[t.driver].Name]
	if !ok {
		return -1, 0
	}
	return i, e.values.lists[i].size()
}

func (t *template) hash() hash {
	h := seed.str(t.trigger).str(t.target)
	for _, p := range t.pieces {
		h = h.str(p)
	}
	for i := range t.sources {
		h = h.str(t.sources[i].key()).num(int(t.kinds[i]))
	}
	return h
}

// support counts that a template would have produced a call that a session made.
func (m *Learner) support(s *History, t *template, rank int) {
	known := m.templates[t.trigger]
	if len(known) == 0 && !m.room(known) {
		return
	}
	for _, o := range known {
		o.support.now *= remember
		if o.id == t.id {
			o.support.now++
			o.deepest = max(o.deepest, min(rank, maxRank-1))
			o.seenBy(s)
			return
		}
	}
	t.own(known)
	t.support.now, t.deepest = 1, min(rank, maxRank-1)
	m.recall(t)
	t.seenBy(s)
	if m.room(known) {
		m.keep(t)
		return
	}
	weakest := slices.MinFunc(known, func(a, b *template) int {
		if a.worth() < b.worth() {
			return -1
		}
		return 1
	})
	known[slices.Index(known, weakest)] = t
}

// room reports whether a trigger may have one template more than those that are
// known. If there are many in all, each is left a few.
func (m *Learner) room(known []*template) bool {
	switch n := len(known); {
	case n == 0:
		return len(m.templates) < maxTriggers
	case m.kept < maxKept:
		return n < maxPerTrigger
	default:
		return n < leastPerTrigger
	}
}

func (m *Learner) keep(t *template) {
	m.templates[t.trigger] = append(m.templates[t.trigger], t)
	m.kept++
}

// own makes a template independent of the calls it was read off, whose arguments may
// be long, and lets it share with its like.
func (t *template) own(like []*template) {
	t.sources = slices.Clone(t.sources)
	for i := range t.sources {
		s := &t.sources[i]
		for _, text := range []*string{&s.Name, &s.Tool, &s.Base, &s.Cut, &s.Add, &s.Plus, &s.Value.text} {
			*text = strings.Clone(*text)
		}
	}
	for _, o := range like {
		if o.target == t.target && slices.Equal(o.pieces, t.pieces) && slices.Equal(o.kinds, t.kinds) {
			t.pieces, t.kinds = o.pieces, o.kinds
			return
		}
	}
	for i := range t.pieces {
		t.pieces[i] = strings.Clone(t.pieces[i])
	}
}

// worth is what eviction goes by: what a template explained, and above all how
// often it was right.
func (t *template) worth() float32 {
	if t.support.now < minSupport {
		return t.support.now // it makes no candidates
	}
	right := float32(0)
	for _, o := range t.ranks {
		right += o.right.now
	}
	return t.support.now + 4*right
}

// produce makes the candidate of a template after a call, with one value of the
// list that drives it: its arguments, and the longest text among them.
func (t *template) produce(s *History, e *event, rank int) (arguments, value string, ok bool) {
	var few [maxSlots]scalar
	values := few[:len(t.sources)]
	var r row
	if t.driver >= 0 {
		r = e.values.at(t.sources[t.driver].Name).rank(rank)
	}
	for i := range t.sources {
		src := &t.sources[i]
		var v scalar
		ok = true
		switch src.Pick {
		case every:
			v = r.value
			v, ok = src.changed(v, e)
		case beside:
			other := e.values.at(src.Name)
			if other == nil {
				return "", "", false
			}
			if v, ok = other.beside(r.group); ok {
				v, ok = src.changed(v, e)
			}
		default:
			v, ok = src.one(s, e)
		}
		if ok {
			values[i], ok = v.as(t.kinds[i])
			ok = ok && (t.kinds[i] != text || src.From == fromConstant || s.m.like(t.names[i], values[i].text))
		}
		if !ok {
			return "", "", false
		}
	}
	for _, v := range values {
		if v.kind == text && len(v.text) > len(value) {
			value = v.text
		}
	}
	arguments, ok = build(t.pieces, values)
	return arguments, value, ok
}
