package predict

import (
	"strings"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

// mend makes valid JSON of the beginning of an object or an array: what is whole
// stays, and what stands open is closed. With partial, a string that the end falls
// into stays as far as it goes. It is false if b is no such beginning.
func mend(b []byte, partial bool) ([]byte, bool) {
	m := mending{}
	m.scan(b)
	if len(m.open) == 0 {
		return nil, false
	}
	end := m.whole
	if partial && m.value {
		end = m.quote + 1 + wholeText(b[m.quote+1:])
	}
	out := append(make([]byte, 0, end+1+len(m.open)), b[:end]...) // not in place: b is the caller's
	if end > m.whole {
		out = append(out, '"')
	}
	for i := len(m.open) - 1; i >= 0; i-- {
		out = append(out, m.open[i])
	}
	return out, jsonrpc.Valid(out)
}

// mending is what is known at the end of a beginning. It does not check anything:
// what comes of it is checked.
type mending struct {
	open  []byte // brackets that would close what is open
	whole int    // up to here every value is whole
	quote int    // where the string begins that the end falls into
	value bool   // it is a value and not a name
}

func (m *mending) scan(b []byte) {
	before := byte(0) // the last character that gives structure
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '"':
			end := endOfString(b, i)
			if end < 0 {
				m.quote = i
				m.value = before == ':' || len(m.open) > 0 && m.open[len(m.open)-1] == ']'
				return
			}
			i = end
		case '{', '[':
			m.open = append(m.open, c+2) // } and ] stand two after { and [
			m.whole, before = i+1, c
		case '}', ']':
			if len(m.open) > 0 {
				m.open = m.open[:len(m.open)-1]
			}
			if m.whole, before = i+1, c; len(m.open) == 0 {
				return
			}
		case ',':
			m.whole, before = i, c
		case ':':
			before = c
		}
	}
}

// endOfString is the place of the quote that ends the string at b[i]; negative if
// none does.
func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// wholeText is how far the inside of a JSON string goes before a character or an
// escape that is cut off.
func wholeText(s []byte) int {
	i := 0
	for i < len(s) {
		n := 1
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == 'u':
			n = len(`\u0000`)
		case s[i] == '\\':
			n = 2
		case s[i] >= utf8.RuneSelf && !utf8.FullRune(s[i:]):
			return i
		case s[i] >= utf8.RuneSelf:
			_, n = utf8.DecodeRune(s[i:])
		}
		if i+n > len(s) || n == len(`\u0000`) && half(s[i:]) {
			return i
		}
		i += n
	}
	return i
}

// half reports whether a text ends in or right behind its first escape, which is
// one half of a pair.
func half(s []byte) bool {
	const one = len(`\u0000`)
	return s[2]|0x20 == 'd' && strings.IndexByte("89abAB", s[3]) >= 0 &&
		len(s) < 2*one && (len(s) == one || s[one] == '\\')
}
