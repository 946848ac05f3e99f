package predict

import (
	"bytes"
	"strings"
)

// The kinds of things that a text is searched for stand for paths: # and a name.
const (
	wholeLine = "#line"  // a line without spaces: what find and ls print
	linePath  = "#grep"  // the path of `path:12: text` or `path-12-text`
	entryName = "#entry" // of `[FILE] name`, `├── name`, `- name`
	linkGoal  = "#link"  // of [text](goal)
	urlWord   = "#url"
	pathWord  = "#path" // anything with a slash or a short extension
	hexWord   = "#hex"
	idWord    = "#id"   // letters and digits: ENT-258, #42 without its #
	quoted    = "#tick" // `like this`, 'this' or "this"
)

// scanText takes from a text what looks as if a later call could name it.
func (v *Values) scanText(b []byte) {
	for line := int32(1); len(b) > 0 && v.count < maxValues; line++ {
		l, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		v.scanLine(l, line)
	}
}

func (v *Values) scanLine(l []byte, line int32) {
	l = bytes.TrimSpace(withoutNumber(l))
	if len(l) == 0 {
		return
	}
	if len(l) <= maxValueBytes && bytes.IndexByte(l, ' ') < 0 {
		if p, ok := grepPath(l); ok {
			v.add(v.list(linePath), string(p), text, line)
		} else {
			v.add(v.list(wholeLine), string(l), text, line)
		}
	} else if p, ok := grepPath(l); ok {
		v.add(v.list(linePath), string(p), text, line)
		l = l[len(p):]
	} else if name, ok := entry(l); ok {
		v.add(v.list(entryName), string(name), text, line)
	}
	v.scanWords(l, line)
}

// withoutNumber cuts off the number that some tools put before every line.
func withoutNumber(l []byte) []byte {
	i := blank(l, 0)
	from := i
	for i < len(l) && isDigit(l[i]) {
		i++
	}
	if i == from || i == len(l) {
		return l
	}
	if l[i] == '\t' {
		return l[i+1:]
	}
	if rest, ok := bytes.CutPrefix(l[i:], []byte("→")); ok {
		return rest
	}
	return l
}

// grepPath is what stands before :12: or :12 at the end, if it looks like a path.
func grepPath(l []byte) ([]byte, bool) {
	i := bytes.IndexByte(l[:min(len(l), maxValueBytes)], ':')
	if i <= 0 || i+1 >= len(l) || !isDigit(l[i+1]) || !pathLike(l[:i]) {
		return nil, false
	}
	j := i + 1
	for j < len(l) && isDigit(l[j]) {
		j++
	}
	return l[:i], j == len(l) || l[j] == ':' || l[j] == ' '
}

// entry is the name in a line of a listing or a drawn tree.
func entry(l []byte) ([]byte, bool) {
	for _, mark := range []string{"[FILE] ", "[DIR] "} {
		if rest, ok := bytes.CutPrefix(l, []byte(mark)); ok {
			return bytes.TrimSpace(rest), true
		}
	}
	rest := bytes.TrimLeft(l, "│├└─ \u00a0|`+-\\")
	if len(rest) == len(l) || len(rest) == 0 || bytes.IndexByte(rest, ' ') >= 0 {
		return nil, false
	}
	return bytes.TrimSuffix(rest, []byte("/")), true
}

// ends reports whether a byte ends a word.
func ends(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '"', '\'', '`', '<', '>', '(', ')', '[', ']', '{', '}', ',', ';', '|', '=', '*':
		return true
	}
	return false
}

// scanWords takes the words of a line that look like a path, a URL, a hash or an
// identifier, and what stands between quotes.
func (v *Values) scanWords(l []byte, line int32) {
	closed := -1 // where the quote stands that closes the last quoted text: it opens none
	for i := 0; i < len(l); {
		if ends(l[i]) {
			if (l[i] == '`' || l[i] == '"' || l[i] == '\'') && i > closed {
				closed = v.scanQuoted(l, i, line)
			}
			i++
			continue
		}
		from := i
		for i < len(l) && !ends(l[i]) {
			i++
		}
		if i-from >= 3 && i-from <= maxValueBytes {
			link := from >= 2 && l[from-1] == '(' && l[from-2] == ']'
			v.word(l[from:i], link, line)
		}
	}
}

// scanQuoted takes what stands between the quote at l[i] and the next one, and
// returns where that is.
func (v *Values) scanQuoted(l []byte, i int, line int32) int {
	rest := l[i+1 : min(len(l), i+64)]
	end := bytes.IndexByte(rest, l[i])
	if end < 0 {
		return i
	}
	if end >= 3 && rest[0] != ' ' {
		v.add(v.list(quoted), string(rest[:end]), text, line)
	}
	return i + 1 + end
}

// word files a word under what it looks like.
func (v *Values) word(w []byte, link bool, line int32) {
	w = bytes.TrimRight(w, ".:!?")
	if link {
		v.add(v.list(linkGoal), string(w), text, line)
	}
	if bytes.Contains(w, []byte("://")) {
		v.add(v.list(urlWord), string(w), text, line)
		return
	}
	if p, _, ok := bytes.Cut(w, []byte{':'}); ok && pathLike(p) {
		w = p
	}
	switch {
	case pathLike(w):
		v.add(v.list(pathWord), strings.TrimPrefix(string(w), "./"), text, line)
	case hexLike(w):
		v.add(v.list(hexWord), string(w), text, line)
	case idLike(w):
		v.add(v.list(idWord), strings.TrimPrefix(string(w), "#"), text, line)
	}
}

// pathLike reports whether a word could be the path of a file: it has a slash
// with something before or behind it, or an extension of one to five letters.
func pathLike(w []byte) bool {
	if len(w) < 3 {
		return false
	}
	letters := false
	for _, c := range w {
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
			letters = true
		case isDigit(c) || strings.IndexByte("/._-+@~%#", c) >= 0:
		default:
			return false
		}
	}
	if !letters || w[0] == '-' {
		return false
	}
	if bytes.Contains(w, []byte{'/'}) {
		return true
	}
	dot := bytes.LastIndexByte(w, '.')
	return dot > 0 && len(w)-dot >= 2 && len(w)-dot <= 6 && !isDigit(w[dot+1])
}

// hexLike reports whether a word is a hash or a UUID.
func hexLike(w []byte) bool {
	digits := 0
	for _, c := range w {
		switch {
		case isDigit(c):
			digits++
		case c >= 'a' && c <= 'f' || c == '-':
		default:
			return false
		}
	}
	return len(w) >= 7 && digits > 0 && digits < len(w)
}

// idLike reports whether a word has digits, and letters or a # as well.
func idLike(w []byte) bool {
	digits, others := 0, 0
	for _, c := range w {
		switch {
		case isDigit(c):
			digits++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '#':
			others++
		default:
			return false
		}
	}
	return digits > 0 && others > 0 && len(w) <= 64
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
