package secret

import (
	"html"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// view is a text as a reader would decode it, and where each byte of it stands in
// the text as written.
type view struct {
	text string
	at   []int // place in text → place as written; nil: it is the text as written
}

func (v view) source(i int) int {
	if v.at == nil {
		return i
	}
	return v.at[i]
}

// sourceEnd is where what ends at i ends as written.
func (v view) sourceEnd(i int) int {
	for v.at != nil && i > 0 && i < len(v.text) && v.at[i] == v.at[i-1] {
		i++ // within one escape
	}
	return v.source(i)
}

// levels is how often a text may have been escaped: JSON in a JSON string is twice.
const levels = 2

// views are the ways in which a text can be read.
func (m *Masker) views(s string) iter.Seq[view] {
	return func(yield func(view) bool) {
		if m == nil || len(m.values) == 0 {
			return
		}
		v := view{text: s}
		for range levels + 1 {
			if !yield(v) ||
				strings.Contains(v.text, "%") && !yield(v.decoded(percent)) ||
				strings.Contains(v.text, "%25") && !yield(v.decoded(percent).decoded(percent)) ||
				strings.Contains(v.text, "&") && !yield(v.decoded(entity)) ||
				m.spaced && strings.Contains(v.text, "+") && !yield(v.decoded(form)) ||
				!strings.Contains(v.text, `\`) {
				return
			}
			v = v.decoded(unescape)
		}
	}
}

// decoded is a view decoded once more. one decodes what begins at i, and says how
// long that is as written; 0: it stands for itself.
func (v view) decoded(one func(s string, i int) (string, int)) view {
	out := view{at: make([]int, 0, len(v.text)+1)}
	var b strings.Builder
	for i := 0; i < len(v.text); {
		plain, n := one(v.text, i)
		if n == 0 {
			plain, n = v.text[i:i+1], 1
		}
		b.WriteString(plain)
		for range len(plain) {
			out.at = append(out.at, v.source(i))
		}
		i += n
	}
	out.at = append(out.at, v.source(len(v.text)))
	out.text = b.String()
	return out
}

// percent decodes %41.
func percent(s string, i int) (string, int) {
	if s[i] != '%' || i+3 > len(s) {
		return "", 0
	}
	plain, err := url.PathUnescape(s[i : i+3])
	if err != nil {
		return "", 0
	}
	return plain, 3
}

// longestEntity is how many bytes one may have: &#x10ffff; is long, &quot; usual.
const longestEntity = 10

// entity decodes what pages of HTML have for characters: &amp; and &#43;.
func entity(s string, i int) (string, int) {
	if s[i] != '&' {
		return "", 0
	}
	n := strings.IndexByte(s[i:min(len(s), i+longestEntity)], ';') + 1
	if n == 0 {
		return "", 0
	}
	if plain := html.UnescapeString(s[i : i+n]); plain != s[i:i+n] {
		return plain, n
	}
	return "", 0
}

// form decodes %41 and + as forms have them.
func form(s string, i int) (string, int) {
	if s[i] == '+' {
		return " ", 1
	}
	return percent(s, i)
}

// unescape decodes what JSON and programs escape: \n, \u00e9, \x41.
func unescape(s string, i int) (string, int) {
	if s[i] != '\\' || i+1 == len(s) {
		return "", 0
	}
	if strings.IndexByte(`/'"`, s[i+1]) >= 0 {
		return s[i+1 : i+2], 2
	}
	c, wide, rest, err := strconv.UnquoteChar(s[i:], '"')
	n := len(s) - i - len(rest)
	switch {
	case s[i+1] == 'u' && utf16.IsSurrogate(rune(hexadecimal(s, i+2))): // which that does not take
		n = len(`\uD83C`)
		c = utf8.RuneError
		if low := utf16.DecodeRune(rune(hexadecimal(s, i+2)), rune(hexadecimal(s, i+8))); low != utf8.RuneError && s[i+6:i+8] == `\u` {
			c, n = low, 2*n
		}
		return string(c), n
	case err != nil || s[i+1] >= '0' && s[i+1] <= '7':
		return "", 0
	case !wide:
		return string([]byte{byte(c)}), n
	}
	return string(c), n
}

// hexadecimal reads four digits; -1: they are none.
func hexadecimal(s string, i int) int64 {
	if i+4 > len(s) {
		return -1
	}
	n, err := strconv.ParseUint(s[i:i+4], 16, 16)
	if err != nil {
		return -1
	}
	return int64(n)
}
