package predict

import (
	"cmp"
	"slices"
	"strings"
)

// Bounds on templates.
const (
	maxPerTrigger     = 48
	minPerTrigger     = 8       // even beyond maxTemplatesTotal
	maxTemplatesTotal = 1 << 13 // in total
	maxRank           = 24      // largest rank in a list
	minSupport        = 1.5     // decayed number of calls that a template must have explained: two recent ones
)

// template is a learned pattern: the target follows the trigger, with each argument from its
// source. The exported fields are saved in the state.
type template struct {
	Trigger string
	Target  string
	Pieces  []string
	Kinds   []kind
	Names   []hash // hash of tool and argument, per source
	Sources []valueSource
	Driver  int // index of the argument with a candidate per list value; -1 if none
	Deepest int // highest rank that was correct

	support  sum        // decayed number of calls that it explained
	labels   sum        // of its candidates
	ranks    [4]outcome // by rank, in the turn after the trigger; the last one counts all higher ranks
	id       hash
	anchored bool      // an argument comes from the trigger
	personal bool      // contains a value that is not public yet
	harmless bool      // cached: checked and without secrets
	follow   *followUp // nil unless configured
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

// fit determines which value of each list the template takes, given the call that it
// explains. It returns the rank in the driving list.
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

// derive sets the fields that follow from the sources.
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

// list returns the index and the size of the driving list in a call's result; -1 and 1 if
// the template has none.
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

// support records that a template would have produced a call of the session.
func (m *state) support(s *Session, t *template, rank int) {
	known := m.templates[t.Trigger]
	if len(known) == 0 && !m.hasRoom(known) {
		return
	}
	for _, o := range known {
		o.support.Now *= decay
		if o.id == t.id {
			o.support.Now++
			o.Deepest = max(o.Deepest, min(rank, maxRank-1))
			m.recordSighting(o, s)
			return
		}
	}
	t.cloneStrings()
	t.Deepest = min(rank, maxRank-1)
	t.support.Now = max(1, float32(m.recordSighting(t, s)))
	if m.hasRoom(known) {
		m.add(t)
		return
	}
	weakest := slices.MinFunc(known, func(a, b *template) int { return cmp.Compare(a.retention(), b.retention()) })
	known[slices.Index(known, weakest)] = t
}

// hasRoom reports whether a trigger may have one more template. If there are many templates
// in total, each trigger may still have a few.
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

// cloneStrings copies the template's strings, so that it does not retain the arguments of the
// calls that it was derived from.
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

// retention is the eviction priority: the support of a template and, with more weight, how
// often it was correct.
func (t *template) retention() float32 {
	if t.support.Now < minSupport {
		return t.support.Now // it makes no candidates yet
	}
	right := float32(0)
	for _, o := range t.ranks {
		right += o.Right.Now
	}
	return t.support.Now + 4*right
}

// produce returns the arguments of a template's candidate after a call, for one rank of the
// driving list, and the longest text among the arguments.
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
		if !ok || v.kind == text && src.From != fromConstant && !s.m.learned.matchesShape(t.Names[i], v.text) {
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
