package predict

import (
	"bytes"
	"slices"
	"strings"
)

// What a value looks like: the one place that knows paths, identifiers and extensions.

// pathLike reports whether a word could be the path of a file: it has a slash
// with something before or behind it, or an extension of one to five letters.
func isPath(w []byte) bool {
	if len(w) < 3 {
		return false
	}
	letters := false
	for _, c := range w {
		switch {
		case isLetter(c) || c >= 0x80:
			letters = true
		case isDigit(c) || strings.IndexByte("/._-+@~%#", c) >= 0:
		default:
			return false
		}
	}
	if !letters || w[0] == '-' {
		return false
	}
	if bytes.IndexByte(w, '/') >= 0 {
		return true
	}
	dot := bytes.LastIndexByte(w, '.')
	return dot > 0 && len(w)-dot >= 2 && len(w)-dot <= 6 && !isDigit(w[dot+1])
}

// idLike reports whether a word has digits, and letters or a # as well.
func isID(w []byte) bool {
	digits, others := 0, 0
	for _, c := range w {
		switch {
		case isDigit(c):
			digits++
		case isLetter(c) || c == '-' || c == '_' || c == '#':
			others++
		default:
			return false
		}
	}
	return digits > 0 && others > 0 && len(w) <= 64
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// folderEnd is where the directory of a path ends, with its slash.
func dirEnd(value string) int { return strings.LastIndexByte(value, '/') + 1 }

// extension is that of the last name of a path; one of none has its own.
func extension(value string) hash {
	name := value[dirEnd(value):]
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && len(name)-dot <= 6 {
		return seed.str(name[dot:])
	}
	return seed
}

// What may be told of a text at a glance: what it is made of (digits, marks within names
// and what is not ASCII stand in any), and how it begins.
const (
	spaces uint8 = 1 << iota
	colons
	others // quotes, brackets and the like
	fromRoot
	withScheme
	withAny
)

func traitsOf(t string) (all uint8) {
	switch {
	case strings.HasPrefix(t, "/"):
		all = fromRoot
	case strings.Contains(t, "://"):
		all = withScheme
	default:
		all = withAny
	}
	for i := range len(t) {
		switch c := t[i]; {
		case c >= 0x80 || isLetter(c) || isDigit(c) || strings.IndexByte("-_./@~#+=", c) >= 0:
		case c == ' ':
			all |= spaces
		case c == ':':
			all |= colons
		default:
			all |= others
		}
	}
	return all
}

// shape is what the texts that an argument had have in common. A candidate that is
// unlike all of them is not made: a matched line is no path, and a tool that was only
// ever given PDF files is not given an archive.
type shape struct {
	Texts      float32
	Traits     uint8
	Longest    int
	Extensions []hash
}

const (
	minTexts      = 4 // before which nothing is unlike them
	maxExtensions = 8
)

func (s *shape) learn(t string) {
	s.merge(&shape{s.Texts + 1, traitsOf(t), len(t), []hash{extension(t)}})
}

// has reports whether a text is like those that were seen. An extension is strange only
// where few different ones were seen in many texts.
func (s *shape) matches(t string) bool {
	if s.Texts < minTexts {
		return true
	}
	n := len(s.Extensions)
	known := n >= maxExtensions || float32(4*n*n) > s.Texts || slices.Contains(s.Extensions, extension(t))
	return known && traitsOf(t)&^s.Traits == 0 && len(t) <= 4*s.Longest+16
}

// plus adds what another process saw.
func (s *shape) merge(o *shape) {
	s.Texts = max(s.Texts, o.Texts)
	s.Traits |= o.Traits
	s.Longest = max(s.Longest, o.Longest)
	for _, e := range o.Extensions {
		if len(s.Extensions) < maxExtensions && !slices.Contains(s.Extensions, e) {
			s.Extensions = append(s.Extensions, e)
		}
	}
}
