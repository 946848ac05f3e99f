package predict

import (
	"bytes"
	"encoding/json"
	"slices"

	"mcpschedd/internal/jsonrpc"
)

const (
	maxDepth = 24       // of a value in a result
	maxSlots = 24       // of a call
	maxSplit = 64 << 10 // bytes of the arguments of a call
	maxShape = 4 << 10  // bytes of its shape, which templates retain
)

// kind is the syntactic kind of a scalar.
type kind byte

const (
	text    kind = 's'
	number  kind = 'n'
	literal kind = 'w' // true, false or null
)

// scalar is a scalar value: the decoded text of a string, the source text of anything else.
type scalar struct {
	Text string
	Kind kind
}

// scalarOf returns the scalar with a JSON text; false for an object or an array.
func scalarOf(raw []byte) (scalar, bool) {
	switch c := raw[0]; {
	case c == '{' || c == '[':
		return scalar{}, false
	case c == '"':
		s, ok := jsonrpc.String(raw)
		return scalar{s, text}, ok
	case c == '-' || isDigit(c):
		return scalar{string(raw), number}, true
	}
	return scalar{string(raw), literal}, true
}

// convert converts a value to the kind that a slot requires: the text "42" to a number, but
// not "abc".
func (v scalar) convert(k kind) (scalar, bool) {
	switch {
	case v.Kind == k:
		return v, true
	case k == text && v.Kind == number:
		return scalar{v.Text, text}, true
	case k == number && v.Kind == text && isNumber(v.Text):
		return scalar{v.Text, number}, true
	}
	return v, false
}

func (v scalar) hash() hash { return seed.num(int(v.Kind)).str(v.Text) }

// isNumber reports whether s is a JSON number, without white space.
func isNumber(s string) bool {
	return s != "" && len(s) <= 40 && (s[0] == '-' || isDigit(s[0])) && isDigit(s[len(s)-1]) && jsonrpc.Valid([]byte(s))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// maxHeading is the number of bytes of a text in which an object or array may begin.
const maxHeading = 1 << 10

// parse returns the object or array in a text, and the text before and after it; nil if there is
// none. It takes whole lines, as servers print a heading before it, or a remark after it. Several
// that follow each other are the elements of an array.
func parse(in []byte) (before, value, rest []byte) {
	at := 0
	for !opens(in[at:]) {
		line := bytes.IndexByte(in[at:min(len(in), maxHeading)], '\n')
		if line < 0 {
			return nil, nil, nil
		}
		at += line + 1
	}
	var all [][]byte
	for rest = in[at:]; len(all) < maxRows && opens(rest); rest = trim(rest) {
		one, after := parseOne(trimSpaces(rest))
		if after = trimSpaces(after); one == nil || len(after) > 0 && after[0] != '\n' && !opens(after) {
			break
		}
		all, rest = append(all, one), after
	}
	switch len(all) {
	case 0:
		return nil, nil, nil
	case 1:
		value = all[0]
	default:
		value = slices.Concat([]byte{'['}, bytes.Join(all, []byte{','}), []byte{']'})
	}
	return in[:at], value, rest
}

// opens reports whether a line begins with an object or an array, and not with a word in brackets.
func opens(line []byte) bool {
	line = trimSpaces(line)
	if len(line) == 0 || line[0] != '{' && line[0] != '[' {
		return false
	}
	line = trim(line[1:])
	return len(line) == 0 || !isLetter(line[0])
}

// parseOne returns the object or array with which a text begins, and the text after it. One that is cut
// off or not quite JSON is [repaired]; it is nil if it cannot be.
func parseOne(in []byte) (value, rest []byte) {
	var first json.RawMessage
	d := json.NewDecoder(bytes.NewReader(in))
	if d.Decode(&first) != nil {
		return repaired(in)
	}
	return first, in[d.InputOffset():]
}

// repaired returns the JSON of a text that is cut off, up to the last whole value, or that is written as
// Python prints it, which many servers do, and the text after it; nil if it is neither.
func repaired(in []byte) (value, rest []byte) {
	var out, open []byte // open: brackets that are to be closed
	whole, depth := 0, 0 // lengths of out and open after the last whole value
	for len(in) > 0 {
		c, end := in[0], 1
		token := in[:1]
		switch {
		case c == '"' || c == '\'':
			if end = quotedLen(in); end > len(in) {
				in = nil // it is cut off here
				continue
			}
			if token = in[:end]; c == '\'' {
				token = doubleQuoted(token)
			}
		case c == '{' || c == '[':
			open = append(open, c+2) // in ASCII
		case c == '}' || c == ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return nil, nil
			}
			open = open[:len(open)-1]
			whole, depth = len(out)+1, len(open)
		case c == ',':
			whole, depth = len(out), len(open)
		case isLetter(c):
			for end < len(in) && isLetter(in[end]) {
				end++
			}
			switch token = in[:end]; string(token) {
			case "True", "False":
				token = bytes.ToLower(token)
			case "None":
				token = []byte("null")
			}
		}
		if out, in = append(out, token...), in[end:]; len(open) == 0 {
			break
		}
	}
	out = out[:whole]
	for _, bracket := range slices.Backward(open[:depth]) {
		out = append(out, bracket)
	}
	if !jsonrpc.Valid(out) {
		return nil, nil
	}
	return out, in
}

// quotedLen returns the length of the quoted text at the beginning of in; more than len(in) if it does not
// end.
func quotedLen(in []byte) int {
	for i := 1; i < len(in); i++ {
		switch in[i] {
		case in[0]:
			return i + 1
		case '\\':
			i++
		}
	}
	return len(in) + 1
}

// doubleQuoted replaces single quotes around a text.
func doubleQuoted(quoted []byte) []byte {
	text := bytes.ReplaceAll(quoted[1:len(quoted)-1], []byte(`\'`), []byte(`'`))
	text = bytes.ReplaceAll(text, []byte(`"`), []byte(`\"`))
	return slices.Concat([]byte{'"'}, text, []byte{'"'})
}

func trim(in []byte) []byte { return bytes.TrimLeft(in, " \t\r\n") }

func trimSpaces(in []byte) []byte { return bytes.TrimLeft(in, " \t\r") }

// slot is a scalar in the arguments of a call.
type slot struct {
	name  string // path to it, with [] for array elements: "filter.ids[]"
	value scalar
}

// split splits canonical arguments into slots and the pieces of text around them, one more
// than slots. Two calls with the same pieces have the same shape.
func split(canonical string) (pieces []string, slots []slot, ok bool) {
	if len(canonical) > maxSplit || canonical == "" {
		return nil, nil, false
	}
	var s splitter
	s.split([]byte(canonical), "")
	shape := len(s.piece)
	for _, piece := range s.pieces {
		shape += len(piece)
	}
	return append(s.pieces, string(s.piece)), s.slots, len(s.slots) <= maxSlots && shape <= maxShape
}

// splitter is a run of split.
type splitter struct {
	piece  []byte
	pieces []string
	slots  []slot
}

func (s *splitter) split(raw []byte, name string) {
	if len(s.slots) > maxSlots {
		return
	}
	if v, ok := scalarOf(raw); ok {
		s.pieces, s.slots, s.piece = append(s.pieces, string(s.piece)), append(s.slots, slot{name, v}), s.piece[:0]
		return
	}
	before, end := raw[0], raw[0]+2
	for m := range jsonrpc.Members(raw) {
		s.piece = append(append(s.piece, before), m.Raw[:len(m.Raw)-len(m.Value)]...)
		member := string(m.Name)
		if name != "" {
			member = name + "." + member
		}
		s.split(m.Value, member)
		before = ','
	}
	for e := range jsonrpc.Elements(raw) {
		s.piece = append(s.piece, before)
		s.split(e, name+"[]")
		before = ','
	}
	if before != ',' {
		s.piece = append(s.piece, before)
	}
	s.piece = append(s.piece, end)
}

// build inserts values between the pieces of a shape; false if the result is too long, or if servers may
// read a value differently.
func build(pieces []string, values []scalar) (string, bool) {
	out := make([]byte, 0, 128)
	for i, v := range values {
		out = append(out, pieces[i]...)
		if v.Kind != text {
			out = append(out, v.Text...)
		} else if quoted := jsonrpc.AppendString(nil, v.Text); len(quoted) == len(v.Text)+2 {
			out = append(out, quoted...)
		} else { // escapes have several spellings
			var ok bool
			if out, ok = jsonrpc.AppendCanonical(out, quoted); !ok {
				return "", false
			}
		}
	}
	out = append(out, pieces[len(values)]...)
	return string(out), len(out) <= maxSplit
}
