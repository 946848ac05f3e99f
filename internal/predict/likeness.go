package predict

import (
	"slices"
	"strings"
)

// What texts are made of. Digits, marks within names and what is not ASCII stand in any.
const (
	spaces uint8 = 1 << iota
	colons
	others // quotes, brackets and the like
)

// How texts begin.
const (
	fromRoot uint8 = 1 << iota
	withScheme
	withAny
)

// likeness is what the texts that an argument had have in common. A candidate that is
// unlike all of them is not made: a matched line is no path, and a tool that was only
// ever given PDF files is not given an archive.
type likeness struct {
	Texts      float32 `json:"texts,omitempty"`
	Characters uint8   `json:"characters,omitempty"`
	Begins     uint8   `json:"begins,omitempty"`
	Longest    int     `json:"longest,omitempty"`
	Extensions []hash  `json:"extensions,omitempty"`
}

const (
	fewTexts      = 4 // before which nothing is unlike them
	maxExtensions = 8
)

func (l *likeness) learn(t string) {
	l.Texts++
	l.Characters |= charactersOf(t)
	l.Begins |= beginOf(t)
	l.Longest = max(l.Longest, len(t))
	if e := extensionOf(t); len(l.Extensions) < maxExtensions && !slices.Contains(l.Extensions, e) {
		l.Extensions = append(l.Extensions, e)
	}
}

// has reports whether a text is like those that were seen. An extension is strange only
// where few different ones were seen in many texts.
func (l *likeness) has(t string) bool {
	if l.Texts < fewTexts {
		return true
	}
	n := len(l.Extensions)
	known := n >= maxExtensions || float32(4*n*n) > l.Texts || slices.Contains(l.Extensions, extensionOf(t))
	return known && charactersOf(t)&^l.Characters == 0 && beginOf(t)&l.Begins != 0 && len(t) <= 4*l.Longest+16
}

func (l *likeness) plus(o *likeness) {
	l.Texts = max(l.Texts, o.Texts)
	l.Characters |= o.Characters
	l.Begins |= o.Begins
	l.Longest = max(l.Longest, o.Longest)
	for _, e := range o.Extensions {
		if len(l.Extensions) < maxExtensions && !slices.Contains(l.Extensions, e) {
			l.Extensions = append(l.Extensions, e)
		}
	}
}

func charactersOf(t string) (all uint8) {
	for i := range len(t) {
		switch c := t[i]; {
		case c >= 0x80 || isKey(rune(c)) || strings.IndexByte("-_./@~#", c) >= 0:
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

func beginOf(t string) uint8 {
	switch {
	case strings.HasPrefix(t, "/"):
		return fromRoot
	case strings.Contains(t, "://"):
		return withScheme
	}
	return withAny
}

// extensionOf is that of the last name of a path; one of none has its own.
func extensionOf(t string) hash {
	name := t[folderEnd(t):]
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && len(name)-dot <= 6 {
		return seed.str(name[dot:])
	}
	return seed
}
