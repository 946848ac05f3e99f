package predict

import (
	"strings"
	"unicode"
)

// features are what the probabilities of all candidates of one moment are made of.
type features struct {
	s          *Session
	last, prev hash // symbols of this turn and the one before
	since      int  // turns since answers were invalidated
	readers    int  // remembered calls that might have been run early
	named      []named
	folders    []folder
	readable   map[string]bool    // tool → its calls might be run early
	targets    map[string]*target // of candidates
}

// named is a text that stood in an argument of late.
type named struct {
	text string
	dist int // 1: this turn
}

// folder is a directory of which something stood in an argument.
type folder struct {
	path string // with the slash at its end
	dist int
}

func (s *Session) features() *features {
	f := &features{
		s: s, last: seed.str(s.last()), prev: seed.str(s.past), since: distance(s.turn - s.invalidated), readable: map[string]bool{}, targets: map[string]*target{},
	}
	for i := len(s.events) - 1; i >= 0; i-- {
		e := s.events[i]
		if f.reads(e.tool) {
			f.readers++
		}
		for _, a := range e.args {
			if a.value.kind == text {
				f.name(a.value.text, s.turn-e.turn)
			}
		}
	}
	return f
}

const (
	maxNamed = 2000 // bytes of a text in which names are looked for
	nearest  = 2    // turns
)

// name notes a text that stood in an argument some turns ago.
func (f *features) name(t string, turns int) {
	if turns <= nearest && len(t) < maxNamed {
		f.named = append(f.named, named{t, min(turns+1, 2)})
	}
	if i := folderEnd(t); i > 1 && i < len(t) && len(t) < maxValueBytes {
		f.folders = append(f.folders, folder{t[:i], 1 + min(distance(turns), 3)})
	}
}

// reads reports whether calls of a tool may be run early.
func (f *features) reads(tool string) bool {
	is, known := f.readable[tool]
	if !known {
		is = f.s.m.target(tool)
		f.readable[tool] = is
	}
	return is
}

// near says how long ago the stem of a value stood in an argument: 1 for this
// turn, 2 for the two before, 3 for never, 0 if it has none to speak of.
func (f *features) near(value string) int {
	s := strings.TrimSuffix(stem(value), "_test")
	if len(s) < 3 {
		return 0
	}
	for _, n := range f.named {
		if strings.Contains(n.text, s) {
			return n.dist
		}
	}
	return 3
}

// beside says how long ago something in the same directory stood in an argument:
// from 1 for this turn to 4, 6 for never, 0 if the value has no directory.
func (f *features) beside(value string) int {
	i := folderEnd(value)
	if i <= 1 {
		return 0
	}
	for _, known := range f.folders {
		if known.path == value[:i] {
			return known.dist
		}
	}
	return 6
}

// form is what kind of name a value is: by its extension, and whether it is a test.
func form(value string) hash {
	s := value[folderEnd(value):]
	dot := strings.LastIndexByte(s, '.')
	if dot <= 0 {
		dot = len(s)
	}
	h := seed.str(s[dot:])
	if strings.HasSuffix(s[:dot], "_test") || strings.HasSuffix(s[:dot], ".test") || strings.HasSuffix(s[:dot], "-test") {
		h = h.str("test")
	}
	return h
}

// named says how much of a value the call before it named: 5 for its stem as a
// word, 4 for that within a word, 3 for a word that is more than half of it, 2 for
// a shorter one, 1 for nothing, 0 if it has no stem to speak of.
func (e *event) named(value string) int {
	s := stem(value)
	if len(s) < 3 {
		return 0
	}
	best := 1
	for _, a := range e.args {
		if a.value.kind == text && len(a.value.text) < maxNamed && strings.Contains(a.value.text, s) {
			best = 4
			break
		}
	}
	for _, w := range e.split() {
		switch {
		case w == s:
			return 5
		case len(w) >= 4 && best < 4 && strings.Contains(s, w):
			best = max(best, 2)
			if 2*len(w) > len(s) {
				best = 3
			}
		}
	}
	return best
}

const maxWords = 48 // of one call

// split returns the words of the arguments.
func (e *event) split() []string {
	if e.words != nil {
		return e.words
	}
	e.words = []string{}
	for _, a := range e.args {
		if a.value.kind != text || len(a.value.text) >= maxNamed {
			continue
		}
		for w := range strings.FieldsFuncSeq(a.value.text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }) {
			if len(w) >= 3 && len(e.words) < maxWords {
				e.words = append(e.words, w)
			}
		}
	}
	return e.words
}
