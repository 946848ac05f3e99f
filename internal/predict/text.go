package predict

import (
	"bytes"
	"strconv"
	"strings"
)

// Kinds of values found in plain text. They take the place of paths in a result.
const (
	wholeLine = "#line"  // a line without spaces, as printed by find and ls
	linePath  = "#grep"  // the path of `path:12: text`
	entryName = "#entry" // of `[FILE] name`, `├── name`, `- name`
	urlWord   = "#url"
	pathWord  = "#path" // see isPath
	idWord    = "#id"   // see isID: ENT-258, a hash, #42 without its #
)

const maxLabel = 24 // bytes; see labelled

// addText adds the values in a text that look like arguments of later calls.
func (v *values) addText(b []byte) {
	for len(b) > 0 && v.count < maxValues {
		l, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		v.groups++
		v.addLine(bytes.TrimSpace(trimLineNumber(l)), v.groups)
	}
}

func (v *values) addKind(kind string, t []byte, line int32) {
	v.add(kind, scalar{string(t), text}, line)
}

func (v *values) addLine(l []byte, line int32) {
	if len(l) == 0 {
		return
	}
	word := len(l) <= maxLearnedBytes && bytes.IndexByte(l, ' ') < 0
	if p := leadingPath(l); p != nil && startsWithLineNumber(l[len(p):]) {
		v.addKind(linePath, p, line)
		if !word {
			l = l[len(p):]
		}
	} else if word {
		v.addKind(wholeLine, l, line)
	} else if name := listingEntry(l); name != nil {
		v.addKind(entryName, name, line)
		v.addShort(entryName, entryType(l), line)
	} else if kind, value := labelled(l); kind != "" {
		if _, known := v.paths[kind]; known || len(v.lists) < maxPaths/2 { // labels leave room for other kinds
			v.addKind(kind, value, line)
		}
	}
	v.addWords(l, line)
}

// trimLineNumber removes the line number that some tools print before each line.
func trimLineNumber(l []byte) []byte {
	number := bytes.TrimLeft(l, " \t")
	rest := bytes.TrimLeft(number, "0123456789")
	if len(rest) < len(number) {
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
	p, _, _ := bytes.Cut(line, []byte{':'})
	if len(p) > maxLearnedBytes || !isPath(p) || bytes.HasPrefix(line[len(p):], []byte("://")) {
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
	if len(rest) == len(l) {
		return nil
	}
	rest, _, _ = bytes.Cut(rest, []byte(" ("))
	if len(rest) == 0 || bytes.IndexByte(rest, ' ') >= 0 {
		return nil
	}
	return bytes.TrimSuffix(rest, []byte("/"))
}

// entryType returns the type of the entry in a line of a listing: "/" for a directory.
func entryType(l []byte) string {
	if bytes.HasPrefix(l, []byte("[DIR]")) || bytes.HasSuffix(l, []byte("/")) {
		return "/"
	}
	return ""
}

// labelled returns the kind and the value of a line such as `Message ID: 42`, `1. ID: 42` or `- **ID**: 42`;
// "" if it is none. The kind has a hash of the label, as the label, which is saved, may be private.
func labelled(l []byte) (kind string, value []byte) {
	if number, item, ok := bytes.Cut(l, []byte(". ")); ok && len(bytes.TrimLeft(number, "0123456789")) == 0 {
		l = item
	}
	label, value, ok := bytes.Cut(bytes.TrimLeft(l, "-*# "), []byte{':'})
	label = bytes.TrimRight(label, "*")
	if !ok || len(label) == 0 || len(label) > maxLabel || len(value) == 0 || value[0] != ' ' && value[0] != '*' {
		return "", nil
	}
	for _, c := range label {
		if !isLetter(c) && c != ' ' && c != '_' && c != '-' {
			return "", nil
		}
	}
	return "#" + strconv.FormatUint(uint64(seed.str(string(label))), 36), bytes.Trim(bytes.TrimLeft(value, "*"), " `")
}

// addWords adds the words of a line that look like a path, a URL or an identifier.
func (v *values) addWords(l []byte, line int32) {
	for w := range bytes.FieldsFuncSeq(l, func(r rune) bool { return strings.ContainsRune(" \t\r\"'`<>()[]{},;|=*", r) }) {
		if len(w) >= 3 && len(w) <= maxLearnedBytes {
			v.addWord(bytes.TrimRight(w, ".:!?"), line)
		}
	}
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
