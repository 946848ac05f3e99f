package predict

import (
	"strconv"
	"strings"
)

// Bounds on the arguments that are looked at: a call beyond them is counted for
// its tool and nothing else.
const (
	maxSlots   = 24
	maxSplit   = 64 << 10 // bytes
	maxNesting = 16
)

// kind is what a scalar is written as.
type kind byte

const (
	text   kind = 's'
	number kind = 'n'
	word   kind = 'w' // true, false or null
)

// scalar is one value: a string as it reads, anything else as it is written.
type scalar struct {
	text string
	kind kind
}

// slot is a scalar of some arguments, and the way to it.
type slot struct {
	name  string // members joined by dots, [] for elements: "filter.ids[]"
	value scalar
}

// split takes canonical arguments apart into slots and the text around them: one
// piece more than slots. Two calls with the same pieces have the same shape.
func split(canonical string) (pieces []string, slots []slot, ok bool) {
	if len(canonical) > maxSplit {
		return nil, nil, false
	}
	s := splitter{in: canonical}
	if !s.value("", 0) || s.at != len(s.in) || len(s.slots) > maxSlots {
		return nil, nil, false
	}
	return append(s.pieces, s.in[s.from:]), s.slots, true
}

type splitter struct {
	in     string
	at     int // read
	from   int // where the current piece began
	pieces []string
	slots  []slot
}

func (s *splitter) value(name string, depth int) bool {
	if s.at >= len(s.in) || depth > maxNesting || len(s.slots) > maxSlots {
		return false
	}
	switch s.in[s.at] {
	case '{':
		return s.object(name, depth+1)
	case '[':
		return s.array(name, depth+1)
	}
	end := scalarEnd(s.in, s.at)
	if end <= s.at {
		return false
	}
	v, ok := readScalar(s.in[s.at:end])
	s.pieces = append(s.pieces, s.in[s.from:s.at])
	s.slots = append(s.slots, slot{name, v})
	s.at, s.from = end, end
	return ok
}

func (s *splitter) object(name string, depth int) bool {
	s.at++
	for first := true; !s.skip('}'); first = false {
		if !first && !s.skip(',') {
			return false
		}
		if s.at >= len(s.in) || s.in[s.at] != '"' {
			return false
		}
		end := scalarEnd(s.in, s.at)
		if end < 0 {
			return false
		}
		member, ok := readScalar(s.in[s.at:end])
		s.at = end
		if !ok || !s.skip(':') || !s.value(join(name, member.text), depth) {
			return false
		}
	}
	return true
}

func (s *splitter) array(name string, depth int) bool {
	s.at++
	for first := true; !s.skip(']'); first = false {
		if !first && !s.skip(',') || !s.value(name+"[]", depth) {
			return false
		}
	}
	return true
}

func (s *splitter) skip(c byte) bool {
	if s.at >= len(s.in) || s.in[s.at] != c {
		return false
	}
	s.at++
	return true
}

func join(name, member string) string {
	if name == "" {
		return member
	}
	return name + "." + member
}

// scalarEnd is the place behind the scalar that begins at s[i].
func scalarEnd(s string, i int) int {
	if s[i] != '"' {
		for i < len(s) && !strings.ContainsRune(",:]}[{\" \t\r\n", rune(s[i])) {
			i++
		}
		return i
	}
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// readScalar reads a scalar as written in JSON.
func readScalar(s string) (scalar, bool) {
	switch {
	case s == "true" || s == "false" || s == "null":
		return scalar{s, word}, true
	case s[0] == '"':
		if strings.IndexByte(s, '\\') < 0 {
			return scalar{s[1 : len(s)-1], text}, true
		}
		t, ok := unquote(s)
		return scalar{t, text}, ok
	}
	return scalar{s, number}, isNumber(s)
}

// isNumber reports whether s is a number as JSON writes it.
func isNumber(s string) bool {
	if s == "" || len(s) > 40 || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	if digits := strings.TrimPrefix(s, "-"); len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		return false
	}
	if last := s[len(s)-1]; last < '0' || last > '9' || strings.ContainsAny(s, "xXpP_") || strings.Contains(s, "-.") || strings.Contains(s, ".e") || strings.Contains(s, ".E") {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// build puts values between the pieces of a shape; false if one of them cannot
// be written as its slot wants it.
func build(pieces []string, values []scalar) (string, bool) {
	out := make([]byte, 0, 128)
	for i, v := range values {
		out = append(out, pieces[i]...)
		if v.kind == text {
			out = appendQuoted(out, v.text)
			continue
		}
		out = append(out, v.text...)
	}
	out = append(out, pieces[len(values)]...)
	return string(out), len(out) <= maxSplit
}

// as turns what was found somewhere into what the slot holds: 42 in a text is
// good for a number, "abc" is not.
func (v scalar) as(k kind) (scalar, bool) {
	switch {
	case v.kind == k:
		return v, true
	case k == text && v.kind == number:
		return scalar{v.text, text}, true
	case k == number && v.kind == text && isNumber(v.text):
		return scalar{v.text, number}, true
	}
	return v, false
}
