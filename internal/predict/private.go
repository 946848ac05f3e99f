package predict

import (
	"slices"
	"sync"

	"mcpschedd/internal/secret"
)

// The values of a session are private until other sessions have used them too. Only a public
// value is saved in a state or used in a candidate of another session. Until a value is
// public, the ids of its sessions are saved with its hash: a mere count would count one
// session again after every merge.

const (
	publicFrom   = 3       // number of sessions after which a value is public
	maxSeen      = 1 << 15 // values
	maxArguments = 8192
	maxConstant  = 120 // bytes of a constant

	// minConstantShare is the share of the sessions with an argument that use a public value, from which
	// the value counts as a constant: one in this many.
	minConstantShare = 20
)

// sighting is what is known of a value.
type sighting struct {
	In [publicFrom]uint64 // the first sessions that used it
	N  float32            // number of sessions that used it; of a private template, of calls
}

func (s *sighting) public() bool { return s.In[publicFrom-1] != 0 }

// sessions returns the number of sessions, up to publicFrom.
func (s *sighting) sessions() int {
	if n := slices.Index(s.In[:], 0); n >= 0 {
		return n
	}
	return publicFrom
}

// see records that a session used a value, which is identified by a hash.
func (m *state) see(of hash, session uint64) *sighting {
	known, ok := m.seen.Get(of)
	if !ok {
		known = &sighting{}
		m.seen.Add(of, known)
	}
	known.N++
	if i := slices.IndexFunc(known.In[:], func(id uint64) bool { return id == 0 || id == session }); i >= 0 {
		known.In[i] = session
	}
	return known
}

// argument is what is known of the values of one argument.
type argument struct {
	Sessions float32 // number of sessions that used it
	Texts    likeness
}

// argumentHash identifies an argument.
func argumentHash(tool, name string) hash { return seed.str(tool).str(name) }

// learnValues learns from the values of a call's arguments, except those with names that look like data,
// of which there may be any number.
func (s *Session) learnValues(tool, arguments string, slots []slot) {
	m, session := s.m, s.id
	// Scrubbing costs more than all else here. It goes by the names around a value too, such as
	// {"name": "X-Api-Key", "value": …}. Marks may lengthen the text beyond maxSplit; then nothing is learned.
	scrub := sync.OnceValue(func() []slot {
		_, scrubbed, _ := split(string(secret.JSON([]byte(arguments))))
		return scrubbed
	})
	for i, a := range slots {
		if a.value.Kind == literal || len(a.value.Text) > maxConstant || hasDataKey(a.name) {
			continue
		}
		of, kind, value, looks := argumentHash(tool, a.name), a.value.Kind, a.value.hash(), looksOf(a.value.Text)
		if !m.learned.seen.Contains(of.mix(value)) {
			if scrubbed := scrub(); len(scrubbed) != len(slots) || scrubbed[i].value != a.value || maySecret(a.name, a.value.Text) {
				continue
			}
		}
		newArgument, newValue := s.count(of) == 1, s.count(of.mix(value)) == 1
		m.learn(func(l *state) {
			known := l.arguments[of]
			if known == nil {
				if len(l.arguments) >= maxArguments {
					return
				}
				known = &argument{}
				l.arguments[of] = known
			}
			if newArgument {
				known.Sessions++
			}
			if kind == text {
				known.Texts.learn(looks)
			}
			if newValue {
				l.see(of.mix(value), session)
			}
		})
	}
}

// isConstant reports whether the value of an argument counts as a constant.
func (m *state) isConstant(tool string, a slot) bool {
	if a.value.Kind == literal {
		return true
	}
	of := argumentHash(tool, a.name)
	known, seen := m.seen.Peek(of.mix(a.value.hash()))
	return seen && known.public() && known.N*minConstantShare >= m.arguments[of].Sessions
}

// maySecret reports whether a value with the given name may be a secret.
func maySecret(name, value string) bool {
	return secret.Named(name, value) || len(secret.In(value)) > 0
}

// resembles reports whether a text is similar to the argument's values so far.
func (m *state) resembles(tool, name, value string) bool {
	known := m.arguments[argumentHash(tool, name)]
	return known == nil || known.Texts.matches(looksOf(value))
}

// mayUse reports whether a session may use the values of a template.
func (m *state) mayUse(t *template, session uint64) bool {
	if !t.private {
		return true
	}
	known, ok := m.seen.Peek(t.id)
	return ok && (known.public() || slices.Contains(known.In[:], session))
}

// persistent reports whether a template may be saved.
func (m *state) persistent(t *template) bool {
	known, ok := m.seen.Peek(t.id)
	return !t.private || ok && known.public()
}
