package predict

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// What a session said is its own until others have said it too: a value stands in a
// state, or in a candidate of another session, only once it was seen in as many
// sessions as make it public. Which sessions that were is remembered until then, and
// kept and merged with the state: a count alone would count one session again after
// every merge.

// publicFrom is in how many sessions a value was seen before it is anybody's.
const publicFrom = 3

// seenIn is the sessions that something was seen in, up to publicFrom of them.
type seenIn struct {
	ids [publicFrom]uint64
	n   int
}

func (i *seenIn) see(session uint64) {
	if i.n < publicFrom && !i.has(session) {
		i.ids[i.n] = session
		i.n++
	}
}

func (i *seenIn) has(session uint64) bool { return slices.Contains(i.ids[:i.n], session) }

func (i *seenIn) public() bool { return i.n >= publicFrom }

func (i seenIn) plus(o seenIn) seenIn {
	for _, id := range o.ids[:o.n] {
		i.see(id)
	}
	return i
}

// everyone is what is public already.
func everyone() seenIn { return seenIn{n: publicFrom} }

// saved is the sessions as they are kept: those of what is public do not matter.
func (i *seenIn) saved() savedSeen {
	if i.public() {
		return savedSeen{Public: true}
	}
	return savedSeen{Sessions: slices.Clone(i.ids[:i.n])}
}

func (s *savedSeen) seenIn() seenIn {
	if s.Public {
		return everyone()
	}
	var i seenIn
	for _, id := range s.Sessions[:min(len(s.Sessions), publicFrom-1)] {
		i.see(id)
	}
	return i
}

// personal reports whether a template holds a value that is not public by itself: a
// directory, the end of a name, or the name of a member that looks like data. Of a
// constant it is known that it is.
func (t *template) personal() bool {
	for i := range t.sources {
		s := &t.sources[i]
		if s.Dir == fromConstant || s.Cut != "" || s.Add != "" || dataLike(s.Base) || dataLike(s.Plus) ||
			s.From != fromResult && s.From != fromElsewhere && dataLike(s.Name) { // the names of a result have lost theirs
			return true
		}
	}
	return slices.ContainsFunc(t.pieces, func(p string) bool {
		for name := range memberNames(p) {
			if name != "" && keyLike(name) {
				return true
			}
		}
		return false
	})
}

// names are the names of members in a piece of arguments: all else that stands in
// quotes is a value, and not in it.
func memberNames(piece string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			from := strings.IndexByte(piece, '"')
			if from < 0 {
				return
			}
			end := scalarEnd(piece, from)
			if end < 0 || !yield(piece[from+1:end-1]) {
				return
			}
			piece = piece[end:]
		}
	}
}

// dataLike reports whether a part of an argument's name looks like data.
func dataLike(name string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(name, "[]", ""), ".") {
		if part != "" && keyLike(part) {
			return true
		}
	}
	return false
}

// private reports whether a template holds a value that is not public yet.
func (t *template) private() bool { return t.owners != nil && !t.owners.in.public() }

// mayFollow reports whether a session may be told what a template holds.
func (t *template) mayFollow(session uint64) bool {
	return !t.private() || t.owners.in.has(session)
}

// seenBy notes that a session made the call that the template explains.
func (t *template) seenBy(s *History) {
	if t.owners != nil {
		t.owners.in.see(s.id)
		t.owners.last = s.number
	}
}

// owners are the sessions whose value a template holds.
type owners struct {
	in   seenIn
	last int // number of the one that saw it last
}

// plus is the owners of both; either may be nil.
func (o *owners) plus(p *owners) *owners {
	if o == nil || p == nil {
		return cmp.Or(o, p)
	}
	return &owners{o.in.plus(p.in), max(o.last, p.last)}
}

// withheld is what is kept of a template that is private: it is found again by the
// session that sees it next.
type withheld struct {
	owners
	support sum
}

const maxWithheld = 4096

// recall adds to a template that is new to the model what was kept of it.
func (m *Learner) recall(t *template) {
	if w, ok := m.withheld[t.id]; ok {
		t.owners = t.owners.plus(&w.owners)
		t.support = sum{w.support.now + t.support.now, w.support.base}
		delete(m.withheld, t.id)
	}
}

// withhold adds what another model kept.
func (m *Learner) withhold(h hash, w withheld) {
	o, ok := m.withheld[h]
	switch {
	case ok:
		m.withheld[h] = withheld{*o.owners.plus(&w.owners), o.support.plus(w.support)}
	case len(m.withheld) < 2*maxWithheld:
		m.withheld[h] = withheld{w.owners, sum{}.plus(w.support)}
	}
}

// withholds is what is kept of templates that are private, those that were seen last
// first.
func (m *Learner) withholds() []savedWithheld {
	all := maps.Clone(m.withheld)
	for _, list := range m.templates {
		for _, t := range list {
			if delete(all, t.id); t.private() {
				all[t.id] = withheld{*t.owners, t.support}
			}
		}
	}
	out := make([]savedWithheld, 0, len(all))
	for h, w := range all {
		out = append(out, savedWithheld{h, w.support.now, w.last, w.in.saved()})
	}
	slices.SortFunc(out, func(a, b savedWithheld) int { return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.H, b.H)) })
	return out[:min(len(out), maxWithheld)]
}
