package predict

import (
	"bytes"
	"strings"
)

// Kinds of values found in plain text. They take the place of paths in a result.
const (
	wholeLine  = "#line"  // a line without spaces, as printed by find and ls
	linePath   = "#grep"  // the path of `path:12: text`
	entryName  = "#entry" // of `[FILE] name`, `├── name`, `- name`
	linkTarget = "#link"  // target of a Markdown link
	urlWord    = "#url"
	pathWord   = "#path" // see isPath
	idWord     = "#id"   // see isID: ENT-258, a hash, #42 without its #
	quoted     = "#tick" // `like this`, 'this' or "this"
)

// addText adds the values in a text that look like arguments of later calls.
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

// trimLineNumber removes the line number that some tools print before each line.
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

// leadingPath returns the file path at the beginning of a line, which ends at a colon or at
// the end of the line; nil if there is none.
func leadingPath(line []byte) []byte {
	p, _, _ := bytes.Cut(line[:min(len(line), maxValueBytes)], []byte{':'})
	if !isPath(p) || bytes.HasPrefix(line[len(p):], []byte("://")) {
		return nil
	}
	return p
}

// startsWithLineNumber reports whether the text after a path starts with a colon and a line
// number.
func startsWithLineNumber(rest []byte) bool {
	number, ok := bytes.CutPrefix(rest, []byte{':'})
	behind := bytes.TrimLeft(number, "0123456789")
	return ok && len(behind) < len(number) && (len(behind) == 0 || behind[0] == ':' || behind[0] == ' ')
}

// listingEntry returns the name in a line of a listing or a drawn tree; nil if there is none.
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

// isDelimiter reports whether a byte ends a word.
func isDelimiter(c byte) bool { return strings.IndexByte(" \t\r\"'`<>()[]{},;|=*", c) >= 0 }

// addWords adds the words of a line that look like a path, a URL or an identifier, and
// quoted texts.
func (v *values) addWords(l []byte, line int32) {
	closed := -1 // position of the last closing quote, which does not open a quoted text
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

// addQuoted adds the text between the quote at l[i] and the next one, whose position it
// returns.
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

// addWord adds a word under the kind that it looks like.
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
