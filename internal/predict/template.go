package predict

import (
	"cmp"
	"slices"
	"strings"
)

// Bounds on templates.
const (
	maxPerTrigger     = 48
	minPerTrigger     = 8       // even if there are maxKept
	maxTemplatesTotal = 1 << 13 // in all
	maxRank           = 24      // of a list
	minSupport        = 1.5     // calls a template must have explained: two, of late
)

// template is a way in which calls were made: after the trigger came the target,
// with each argument from its source. What is exported is kept in the state.
type template struct {
	Trigger string
	Target  string
	Pieces  []string
	Kinds   []kind
	Names   []hash // tool and argument, of each
	Sources []valueSource
	Driver  int // the argument that is read off a list, with a candidate for each value; -1
	Deepest int // the highest rank that was right

	support  sum        // calls it explained, newer ones counting more
	labels   sum        // of calls that it made a candidate
	ranks    [4]outcome // by the place in the list, in the turn after the trigger; the last one is all deeper ones
	id       hash
	anchored bool      // an argument comes from the trigger
	personal bool      // it holds a value that is not public yet
	harmless bool      // it was looked through for secrets and has none: that takes longer than to write it
	follow   *followUp // what is configured; nil: it was learned
}

func newTemplate(trigger, target string, pieces []string, slots []slot, sources []valueSource) *template {
	t := &template{Trigger: trigger, Target: target, Pieces: pieces, Sources: sources, Driver: -1}
	for i := range slots {
		t.Kinds = append(t.Kinds, slots[i].value.kind)
		t.Names = append(t.Names, seed.str(target).str(slots[i].name))
		if sources[i].Pick == every && t.Driver < 0 {
			t.Driver = i
		}
	}
	return t
}

// fit settles which value of each list a template takes, given the call that it
// is to explain, and the rank in the list that drives it.
func (t *template) fit(e *event, slots []slot) (rank int, ok bool) {
	var driving row
	for i := range t.Sources {
		s := &t.Sources[i]
		if s.Pick != every {
			continue
		}
		l := e.values.lookup(s.Name)
		at := s.rankOf(l, e, slots[i].value)
		if at < 0 {
			return 0, false
		}
		if i == t.Driver {
			rank, driving = at, l.rank(at)
			continue
		}
		switch v, ok := l.inGroup(driving.group); {
		case ok && v.text == l.rank(at).value.text:
			s.Pick = beside
		case at == 0:
			s.Pick = first
		case at == l.size()-1:
			s.Pick = last
		default:
			return 0, false
		}
	}
	t.derive()
	t.personal = t.holdsData()
	return rank, true
}

// seal notes what follows from the sources.
func (t *template) derive() {
	t.id = seed.str(t.Trigger).str(t.Target)
	for _, p := range t.Pieces {
		t.id = t.id.str(p)
	}
	for i := range t.Sources {
		t.id = t.id.str(t.Sources[i].key()).num(int(t.Kinds[i]))
	}
	t.anchored = slices.ContainsFunc(t.Sources, func(s valueSource) bool { return s.From == fromArgument || s.From == fromResult })
}

// list is the place of the list that drives a template in a call's result, and how
// long that is; -1 and 1 if none does.
func (t *template) list(e *event) (place, size int) {
	if t.Driver < 0 {
		return -1, 1
	}
	i, ok := e.values.paths[t.Sources[t.Driver].Name]
	if !ok {
		return -1, 0
	}
	return i, e.values.lists[i].size()
}

// support counts that a template would have produced a call that a session made.
func (m *state) support(s *Session, t *template, rank int) {
	known := m.templates[t.Trigger]
	if len(known) == 0 && !m.hasRoom(known) {
		return
	}
	for _, o := range known {
		o.support.Now *= remember
		if o.id == t.id {
			o.support.Now++
			o.Deepest = max(o.Deepest, min(rank, maxRank-1))
			m.see(o, s)
			return
		}
	}
	t.cloneStrings()
	t.Deepest = min(rank, maxRank-1)
	t.support.Now = max(1, float32(m.see(t, s)))
	if m.hasRoom(known) {
		m.add(t)
		return
	}
	weakest := slices.MinFunc(known, func(a, b *template) int { return cmp.Compare(a.retention(), b.retention()) })
	known[slices.Index(known, weakest)] = t
}

// room reports whether a trigger may have one template more than those that are
// known. If there are many in all, each is left a few.
func (m *state) hasRoom(known []*template) bool {
	switch n := len(known); {
	case n == 0:
		return len(m.templates) < maxTriggers
	case m.kept < maxTemplatesTotal:
		return n < maxPerTrigger
	default:
		return n < minPerTrigger
	}
}

func (m *state) add(t *template) {
	m.templates[t.Trigger] = append(m.templates[t.Trigger], t)
	m.kept++
}

// own makes a template independent of the calls it was read off: their arguments
// may be long.
func (t *template) cloneStrings() {
	t.Sources = slices.Clone(t.Sources)
	for i := range t.Sources {
		s := &t.Sources[i]
		for _, text := range []*string{&s.Name, &s.Tool, &s.Base, &s.Plus, &s.Value.text} {
			*text = strings.Clone(*text)
		}
	}
	for i := range t.Pieces {
		t.Pieces[i] = strings.Clone(t.Pieces[i])
	}
}

func (t *template) each(do func(*sum)) {
	do(&t.support)
	do(&t.labels)
	for i := range t.ranks {
		t.ranks[i].each(do)
	}
}

// worth is what eviction goes by: what a template explained, and above all how
// often it was right.
func (t *template) retention() float32 {
	if t.support.Now < minSupport {
		return t.support.Now // it makes no candidates
	}
	right := float32(0)
	for _, o := range t.ranks {
		right += o.Right.Now
	}
	return t.support.Now + 4*right
}

// produce makes the candidate of a template after a call, with one value of the
// list that drives it: its arguments, and the longest text among them.
func (t *template) produce(s *Session, e *event, rank int) (arguments, value string, ok bool) {
	var room [maxSlots]scalar
	values := room[:len(t.Sources)]
	var r row
	if t.Driver >= 0 {
		r = e.values.lookup(t.Sources[t.Driver].Name).rank(rank)
	}
	for i := range t.Sources {
		src := &t.Sources[i]
		v := r.value
		switch src.Pick {
		case every:
			v, ok = src.transform(v, e)
		case beside:
			if v, ok = e.values.lookup(src.Name).inGroup(r.group); ok {
				v, ok = src.transform(v, e)
			}
		default:
			v, ok = src.value(s, e)
		}
		if ok {
			v, ok = v.convert(t.Kinds[i])
		}
		if !ok || v.kind == text && src.From != fromConstant && !s.m.learned.like(t.Names[i], v.text) {
			return "", "", false
		}
		values[i] = v
		if v.kind == text && len(v.text) > len(value) {
			value = v.text
		}
	}
	arguments, ok = build(t.Pieces, values)
	return arguments, value, ok
}
