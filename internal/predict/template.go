package predict

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Bounds on templates.
const (
	maxPerTrigger     = 48
	minPerTrigger     = 8       // even beyond maxTemplatesTotal
	maxTemplatesTotal = 1 << 13 // in total
	maxRank           = 24      // number of ranks in a list
	minSupport        = 1.5     // decayed number of calls that a template must have explained: two recent ones
)

// template is a learned pattern: the target follows the trigger, with each argument from its
// source. The exported fields are saved in the state.
type template struct {
	Trigger string
	Target  string
	Pieces  []string
	Names   []string // of the arguments, one per source
	Kinds   []kind
	Sources []valueSource
	Driver  int // index of the argument with a candidate per list value; -1 if none
	Deepest int // highest rank that was correct

	Labels  int      // labelled candidates of which it was the most probable match
	Support float32  // decayed number of calls that it explained
	Ranks   [4]Count // by rank, the candidates scored in the trigger's turn and those called in time; the last one counts all higher ranks

	id       hash
	anchored bool      // an argument comes from the trigger
	private  bool      // contains a value that is private until it is public
	follow   *followUp // nil unless configured
}

func newTemplate(trigger, target string, pieces []string, slots []slot, sources []valueSource) *template {
	t := &template{Trigger: trigger, Target: target, Pieces: pieces, Sources: sources, Driver: -1}
	for i, a := range slots {
		t.Names, t.Kinds = append(t.Names, a.name), append(t.Kinds, a.value.Kind)
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
		if v, ok := l.inGroup(driving.group); !ok || v.Text != l.rank(at).value.Text {
			return 0, false
		}
		s.Pick = beside
	}
	t.derive()
	return rank, true
}

// derive sets the fields that follow from the sources.
func (t *template) derive() {
	t.id = seed.str(t.Trigger).str(t.Target)
	for _, p := range t.Pieces {
		t.id = t.id.str(p)
	}
	t.anchored = false
	for i := range t.Sources {
		s := &t.Sources[i]
		t.id = s.hash(t.id).num(int(t.Kinds[i]))
		t.anchored = t.anchored || s.From == fromArgument || s.From == fromResult
	}
}

// size returns the size of the driving list in a call's result; 1 if the template has none.
func (t *template) size(e *event) int {
	if t.Driver < 0 {
		return 1
	}
	return e.values.lookup(t.Sources[t.Driver].Name).size()
}

// learnTemplate learns that a template would have produced a call of a session, unless it may
// contain a secret.
func (m *Model) learnTemplate(t *template, rank int, session uint64) {
	fresh := *t
	if known := m.learned.template(t.Trigger, t.id); known != nil {
		fresh = *known
		fresh.Support, fresh.Ranks, fresh.Deepest, fresh.Labels = 0, [4]Count{}, 0, 0
	} else if fresh.private = t.holdsData(); t.maySecret() {
		return // so it is neither used nor saved
	}
	m.learn(func(s *state) { s.support(fresh, min(rank, maxRank-1), session) })
}

// support counts a call that a template would have produced.
func (m *state) support(t template, rank int, session uint64) {
	sessions := 1
	if t.private {
		sessions = m.see(t.id, session).sessions()
	}
	for _, o := range m.templates[t.Trigger] {
		o.Support *= decay // so that templates that do not explain what the first ones explain fade
		if o.id == t.id {
			o.Support++
			o.Deepest = max(o.Deepest, rank)
			return
		}
	}
	t.Support, t.Deepest = float32(sessions), rank
	if known := m.templates[t.Trigger]; m.hasRoom(known) {
		m.add(&t)
	} else if len(known) > 0 {
		*slices.MinFunc(known, func(a, b *template) int { return cmp.Compare(a.Support, b.Support) }) = t
	}
}

// template returns a template by its trigger and id; nil if there is none.
func (m *state) template(trigger string, id hash) *template {
	known := m.templates[trigger]
	if i := slices.IndexFunc(known, func(t *template) bool { return t.id == id }); i >= 0 {
		return known[i]
	}
	return nil
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

// holdsValue reports whether a template contains a constant value.
func (t *template) holdsValue() bool {
	return slices.ContainsFunc(t.Sources, func(s valueSource) bool { return s.From == fromConstant || s.Dir == fromConstant })
}

var quotedName = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

// holdsData reports whether a template contains a value that may be private: a directory, or
// a member name that looks like data. Constants are always public, and paths in results have
// such names replaced.
func (t *template) holdsData() bool {
	names := slices.Clone(t.Names)
	for _, s := range t.Sources {
		if s.Dir == fromConstant {
			return true
		}
		if s.From == fromArgument {
			names = append(names, s.Name)
		}
		names = append(names, s.Base)
	}
	for _, name := range quotedName.FindAllStringSubmatch(strings.Join(t.Pieces, "0"), -1) {
		names = append(names, name[1])
	}
	return slices.ContainsFunc(names, hasDataKey)
}

// hasDataKey reports whether a part of an argument's name looks like data.
func hasDataKey(name string) bool {
	parts := strings.FieldsFunc(strings.ReplaceAll(name, "[]", ""), func(r rune) bool { return r == '.' })
	return slices.ContainsFunc(parts, isDataKey)
}

// maySecret reports whether a template may contain a secret.
func (t *template) maySecret() bool {
	all := slices.Concat(t.Pieces, t.Names)
	for _, s := range t.Sources {
		all = append(all, s.Name, s.Base, s.Value.Text)
	}
	return slices.ContainsFunc(all, func(s string) bool { return maySecret("", s) })
}

// sound reports whether the fields of a loaded template are consistent.
func (t *template) sound() bool {
	n := len(t.Sources)
	if n > maxSlots || len(t.Kinds) != n || len(t.Names) != n || len(t.Pieces) != n+1 || t.Driver >= n || t.Driver < -1 || t.Deepest < 0 || t.Deepest >= maxRank {
		return false
	}
	for i, s := range t.Sources {
		many := s.Pick == every || s.Pick == beside
		if many && (s.From != fromResult || t.Driver < 0) || (s.Pick == every) != (i == t.Driver) || s.Pick > beside {
			return false
		}
	}
	return true
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
			v, ok = src.inDir(v, e)
		case beside:
			if v, ok = e.values.lookup(src.Name).inGroup(r.group); ok {
				v, ok = src.inDir(v, e)
			}
		default:
			v, ok = src.value(e)
		}
		if ok {
			v, ok = v.convert(t.Kinds[i])
		}
		if !ok || v.Kind == text && src.From != fromConstant && !s.m.learned.resembles(t.Target, t.Names[i], v.Text) {
			return "", "", false
		}
		values[i] = v
		if v.Kind == text && len(v.Text) > len(value) {
			value = v.Text
		}
	}
	arguments, ok = build(t.Pieces, values)
	return arguments, value, ok
}
