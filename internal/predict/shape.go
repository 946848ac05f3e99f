package predict

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// This file recognises paths, identifiers and extensions by their form.

// isPath reports whether a word could be the path of a file: it contains a slash and other
// characters, or has an extension of one to five characters.
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

// isID reports whether a word has digits and also letters or a #.
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

// extension returns the hash of a path's extension; the seed if it has none.
func extension(value string) hash {
	_, name := path.Split(value)
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && len(name)-dot <= 6 {
		return seed.str(name[dot:])
	}
	return seed
}

// Traits of a text: the unusual characters that it contains, and how it begins. Letters,
// digits, punctuation of names and non-ASCII characters are usual.
const (
	spaces uint8 = 1 << iota
	colons
	others // such as quotes and brackets
	fromRoot
	withScheme
	withAny
)

// looks are the traits, the length and the extension of a text.
type looks struct {
	traits    uint8
	length    int
	extension hash
}

func looksOf(t string) looks {
	l := looks{length: len(t), extension: extension(t)}
	switch {
	case strings.HasPrefix(t, "/"):
		l.traits = fromRoot
	case strings.Contains(t, "://"):
		l.traits = withScheme
	default:
		l.traits = withAny
	}
	for i := range len(t) {
		switch c := t[i]; {
		case c >= 0x80 || isLetter(c) || isDigit(c) || strings.IndexByte("-_./@~#+=", c) >= 0:
		case c == ' ':
			l.traits |= spaces
		case c == ':':
			l.traits |= colons
		default:
			l.traits |= others
		}
	}
	return l
}

// likeness describes the texts that an argument had so far. Candidates that do not match it are
// not made: a matched line is not a path, and a tool that only ever received PDF files does
// not receive an archive.
type likeness struct {
	Texts      float32
	Traits     uint8
	Longest    int
	Extensions []hash
}

const (
	minTexts      = 4 // before which every text matches
	maxExtensions = 8
)

func (s *likeness) learn(t looks) {
	s.Texts++
	s.Traits |= t.traits
	s.Longest = max(s.Longest, t.length)
	if len(s.Extensions) < maxExtensions && !slices.Contains(s.Extensions, t.extension) {
		s.Extensions = append(s.Extensions, t.extension)
	}
}

// matches reports whether a text is similar to those seen so far. An unseen extension counts
// only if many texts had few different ones.
func (s *likeness) matches(t looks) bool {
	if s.Texts < minTexts {
		return true
	}
	n := len(s.Extensions)
	known := n >= maxExtensions || float32(4*n*n) > s.Texts || slices.Contains(s.Extensions, t.extension)
	return known && t.traits&^s.Traits == 0 && t.length <= 4*s.Longest+16
}
