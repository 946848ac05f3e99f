package valuemodel

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mcpschedd/internal/classify"
)

// scalar is one text for all spellings of a value: a number however written and
// whether or not in quotes, names in any case, letters however composed or
// escaped, paths with or without what changes nothing in them. A false match costs a
// refetch; a missed match would serve a stale answer. Objects, arrays, null and nothing
// are no scalar.
func scalar(raw []byte) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		s, ok := classify.Text(raw)
		return canonical(s), ok
	case '{', '[', 'n':
		return "", false
	}
	return canonical(string(raw)), true
}

func canonical(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == '%' || r > unicode.MaxASCII }) {
		// What is decoded may be composed in another way, or stand for no width.
		s = norm.NFKC.String(s)
		s = norm.NFKC.String(strings.Map(visible, unescape(s)))
	}
	s = strings.TrimSpace(strings.Map(fold, s))
	if rest, ok := strings.CutPrefix(s, "FILE:"); ok { // fold gives capitals
		s = strings.TrimPrefix(rest, "//LOCALHOST")
	}
	s = strings.TrimLeft(s, "#! ") // #42 and !42 are the numbers of an issue and a merge request
	s = strings.TrimSpace(path.Clean(s))
	if n, ok := number(s); ok {
		return n
	}
	return s
}

// unescape decodes %2F, and what is decoded so again: a value may have gone
// through several hands.
func unescape(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		out = append(out, s[i])
		for n := len(out) - 3; n >= 0 && out[n] == '%'; n = len(out) - 3 {
			b, err := strconv.ParseUint(string(out[n+1:]), 16, 8)
			if err != nil {
				break
			}
			out = append(out[:n], byte(b))
		}
	}
	return string(out)
}

// visible drops what only says how its neighbours are to be shown.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
		return -1
	}
	return r
}

// fold maps the letters that are alike but for their case to one, and both
// slashes.
func fold(r rune) rune {
	if r == '\\' {
		return '/'
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// number writes a number in one way. Great numbers that differ may become one.
func number(s string) (string, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return "", false
	}
	return strconv.FormatFloat(f+0, 'g', -1, 64), true // 0 for -0
}
