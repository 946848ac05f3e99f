package predict

import (
	"bytes"
	"strings"
)

// The kinds of things that a text is searched for stand for paths: # and a name.
const (
	wholeLine  = "#line"  // a line without spaces: what find and ls print
	linePath   = "#grep"  // the path of `path:12: text`
	entryName  = "#entry" // of `[FILE] name`, `├── name`, `- name`
	linkTarget = "#link"  // of [text](goal)
	urlWord    = "#url"
	pathWord   = "#path" // anything with a slash or a short extension
	idWord     = "#id"   // letters and digits: ENT-258, a hash, #42 without its #
	quoted     = "#tick" // `like this`, 'this' or "this"
)

// addText takes from a text what looks as if a later call could name it.
func (v *values) addText(b []byte) {
	for line := int32(1); len(b) > 0 && v.count < maxValues; line++ {
		l, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		v.addLine(bytes.TrimSpace(trimLineNumber(l)), line)
	}
}

func (v *values) addKind(kind string, t []byte, line int32) {
	v.add(v.listIndex(kind), scalar{string(t), text}, line)
}

func (v *values) addLine(l []byte, line int32) {
	if len(l) == 0 {
		return
	}
	word := len(l) <= maxValueBytes && bytes.IndexByte(l, ' ') < 0
	if p := leadingPath(l); p != nil && startsWithLineNumber(l[len(p):]) {
		v.addKind(linePath, p, line)
		if !word {
			l = l[len(p):]
		}
	} else if word {
		v.addKind(wholeLine, l, line)
	} else if name := listingEntry(l); name != nil {
		v.addKind(entryName, name, line)
	}
	v.addWords(l, line)
}

// withoutNumber cuts off the number that some tools put before every line.
func trimLineNumber(l []byte) []byte {
	from := skipBlank(l, 0)
	rest := bytes.TrimLeft(l[from:], "0123456789")
	if len(rest) < len(l)-from {
		for _, mark := range []string{"\t", "→"} {
			if line, ok := bytes.CutPrefix(rest, []byte(mark)); ok {
				return line
			}
		}
	}
	return l
}

// leadingPath is the path of a file with which a line begins, and which is all of it or
// ends at a colon; nil if there is none.
func leadingPath(line []byte) []byte {
	p, _, _ := bytes.Cut(line[:min(len(line), maxValueBytes)], []byte{':'})
	if !isPath(p) || bytes.HasPrefix(line[len(p):], []byte("://")) {
		return nil
	}
	return p
}

// numbered reports whether a line goes on with a colon and a number: behind a path, that
// of a line.
func startsWithLineNumber(rest []byte) bool {
	number, ok := bytes.CutPrefix(rest, []byte{':'})
	behind := bytes.TrimLeft(number, "0123456789")
	return ok && len(behind) < len(number) && (len(behind) == 0 || behind[0] == ':' || behind[0] == ' ')
}

// entry is the name in a line of a listing or a drawn tree; nil if there is none.
func listingEntry(l []byte) []byte {
	for _, mark := range []string{"[FILE] ", "[DIR] "} {
		if rest, ok := bytes.CutPrefix(l, []byte(mark)); ok {
			return bytes.TrimSpace(rest)
		}
	}
	rest := bytes.TrimLeft(l, "│├└─ \u00a0|`+-\\")
	if len(rest) == len(l) || len(rest) == 0 || bytes.IndexByte(rest, ' ') >= 0 {
		return nil
	}
	return bytes.TrimSuffix(rest, []byte("/"))
}

// ends reports whether a byte ends a word.
func isDelimiter(c byte) bool { return strings.IndexByte(" \t\r\"'`<>()[]{},;|=*", c) >= 0 }

// addWords takes the words of a line that look like a path, a URL or an identifier, and
// what stands between quotes.
func (v *values) addWords(l []byte, line int32) {
	closed := -1 // where the quote stands that closes the last quoted text: it opens none
	for i := 0; i < len(l); {
		if isDelimiter(l[i]) {
			if (l[i] == '`' || l[i] == '"' || l[i] == '\'') && i > closed {
				closed = v.addQuoted(l, i, line)
			}
			i++
			continue
		}
		from := i
		for i < len(l) && !isDelimiter(l[i]) {
			i++
		}
		if i-from >= 3 && i-from <= maxValueBytes {
			w := bytes.TrimRight(l[from:i], ".:!?")
			if bytes.HasSuffix(l[:from], []byte("](")) {
				v.addKind(linkTarget, w, line)
			}
			v.addWord(w, line)
		}
	}
}

// addQuoted takes what stands between the quote at l[i] and the next one, and
// returns where that is.
func (v *values) addQuoted(l []byte, i int, line int32) int {
	rest := l[i+1 : min(len(l), i+64)]
	end := bytes.IndexByte(rest, l[i])
	if end < 0 {
		return i
	}
	if end >= 3 && rest[0] != ' ' {
		v.addKind(quoted, rest[:end], line)
	}
	return i + 1 + end
}

// addWord files a word under what it looks like.
func (v *values) addWord(w []byte, line int32) {
	if bytes.Contains(w, []byte("://")) {
		v.addKind(urlWord, w, line)
		return
	}
	if p, _, ok := bytes.Cut(w, []byte{':'}); ok && isPath(p) {
		w = p
	}
	switch {
	case isPath(w):
		v.addKind(pathWord, bytes.TrimPrefix(w, []byte("./")), line)
	case isID(w):
		v.addKind(idWord, bytes.TrimPrefix(w, []byte("#")), line)
	}
}
