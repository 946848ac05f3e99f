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

// publicFrom is in how many sessions a value was seen before it may be told to any.
const publicFrom = 3

// seenIn is the sessions that something was seen in, up to publicFrom of them.
type seenIn [publicFrom]uint64

func (i *seenIn) see(session uint64) {
	for k := range i {
		if i[k] == session {
			return
		}
		if i[k] == 0 {
			i[k] = session
			return
		}
	}
}

// join adds the sessions that another process knows of.
func (i *seenIn) join(o seenIn) {
	for _, session := range o {
		i.see(session)
	}
}

// count is how many sessions those are.
func (i *seenIn) count() int {
	if n := slices.Index(i[:], 0); n >= 0 {
		return n
	}
	return publicFrom
}

func (i *seenIn) public() bool { return i[publicFrom-1] != 0 }

// sightings are the sessions that had the value of a template that is not public yet. It
// is kept as a hash, by which the next session that has the value adds to it.
type sightings struct {
	Of   hash
	In   seenIn
	Last int // number of the session that had it last
}

const maxSightings = 4096

// see notes that a session made the call that a template explains, and returns in how many
// sessions that happened; 0 if its values are public.
func (m *state) see(t *template, s *Session) int {
	if !t.personal {
		return 0
	}
	known := m.sightings[t.id]
	if known == nil {
		if len(m.sightings) >= 2*maxSightings {
			return 0
		}
		known = &sightings{Of: t.id}
		m.sightings[t.id] = known
	}
	known.In.see(s.id)
	known.Last = s.number
	t.personal = !known.In.public()
	return known.In.count()
}

// mayFollow reports whether a session may be told what a template holds.
func (m *state) mayFollow(t *template, session uint64) bool {
	if !t.personal {
		return true
	}
	known := m.sightings[t.id]
	return known != nil && slices.Contains(known.In[:], session)
}

// newestSightings are those that are kept: of what was seen last.
func (m *state) newestSightings() []*sightings {
	all := slices.SortedFunc(maps.Values(m.sightings), func(a, b *sightings) int { return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.Of, b.Of)) })
	return all[:min(len(all), maxSightings)]
}

// holdsData reports whether a template holds a value that is not public by itself: a
// directory, or the name of a member that looks like data. Of a
// constant it is known that it is.
func (t *template) holdsData() bool {
	for i := range t.Sources {
		s := &t.Sources[i]
		if s.Dir == fromConstant || dataLike(s.Base) || dataLike(s.Plus) ||
			s.From != fromResult && s.From != fromElsewhere && dataLike(s.Name) { // the names of a result have lost theirs
			return true
		}
	}
	d := parse([]byte(strings.Join(t.Pieces, "0"))) // all that stands in quotes there is a name
	return d.cut || slices.ContainsFunc(d.nodes, func(n node) bool { return len(n.name) > 0 && isDataKey(string(n.name)) })
}

// dataLike reports whether a part of an argument's name looks like data.
func dataLike(name string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(name, "[]", ""), ".") {
		if part != "" && isDataKey(part) {
			return true
		}
	}
	return false
}
