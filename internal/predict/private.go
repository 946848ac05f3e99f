package predict

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// The values of a session are private until other sessions have used them too. Only a public
// value is saved in a state or used in a candidate of another session. Until a value is
// public, the ids of its sessions are saved and merged with the state: a mere count would
// count one session again after every merge.

// publicFrom is the number of sessions after which a value is public.
const publicFrom = 3

// seenIn is the set of sessions that used a value, up to publicFrom of them.
type seenIn [publicFrom]uint64

func (i *seenIn) add(session uint64) {
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

// merge adds the sessions of another process.
func (i *seenIn) merge(o seenIn) {
	for _, session := range o {
		i.add(session)
	}
}

// count returns the number of sessions.
func (i *seenIn) count() int {
	if n := slices.Index(i[:], 0); n >= 0 {
		return n
	}
	return publicFrom
}

func (i *seenIn) public() bool { return i[publicFrom-1] != 0 }

// sightings are the sessions that used the value of a template that is not public yet. The
// template is identified by a hash, so that the next session with the value can be added.
type sightings struct {
	Of   hash
	In   seenIn
	Last int // number of the latest of these sessions
}

const maxSightings = 4096

// recordSighting records that a session made a call that the template explains. It returns
// the number of such sessions; 0 if the template's values are public.
func (m *state) recordSighting(t *template, s *Session) int {
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
	known.In.add(s.id)
	known.Last = s.number
	t.personal = !known.In.public()
	return known.In.count()
}

// mayUse reports whether a session may use the values of a template.
func (m *state) mayUse(t *template, session uint64) bool {
	if !t.personal {
		return true
	}
	known := m.sightings[t.id]
	return known != nil && slices.Contains(known.In[:], session)
}

// newestSightings returns the most recent sightings, which are saved.
func (m *state) newestSightings() []*sightings {
	all := slices.SortedFunc(maps.Values(m.sightings), func(a, b *sightings) int { return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.Of, b.Of)) })
	return all[:min(len(all), maxSightings)]
}

// holdsData reports whether a template contains a value that may be private: a directory, or
// a member name that looks like data. Constants are always public.
func (t *template) holdsData() bool {
	for i := range t.Sources {
		s := &t.Sources[i]
		if s.Dir == fromConstant || dataLike(s.Base) || dataLike(s.Plus) ||
			s.From != fromResult && s.From != fromElsewhere && dataLike(s.Name) { // paths in results have such names replaced
			return true
		}
	}
	d := parse([]byte(strings.Join(t.Pieces, "0"))) // all quoted texts in it are names
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
