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

// scalar returns one text for all spellings of a value: it normalises numbers, quoted or
// not, letter case, Unicode composition and escapes, and redundant parts of paths. A false
// match costs a refetch; a missed match would serve a stale result. It returns false for
// objects, arrays, null and absent values.
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
		// Decoded text may need composing again, or contain invisible characters.
		s = norm.NFKC.String(s)
		s = norm.NFKC.String(strings.Map(visible, unescape(s)))
	}
	s = strings.TrimSpace(strings.Map(fold, s))
	if rest, ok := strings.CutPrefix(s, "FILE:"); ok { // fold maps to upper case
		s = strings.TrimPrefix(rest, "//LOCALHOST")
	}
	s = strings.TrimLeft(s, "#! ") // #42 is an issue, !42 a merge request
	s = strings.TrimSpace(path.Clean(s))
	if n, ok := number(s); ok {
		return n
	}
	return s
}

// unescape decodes percent escapes repeatedly, as a value may have been escaped more than
// once.
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

// visible drops format characters and variation selectors.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
		return -1
	}
	return r
}

// fold maps all cases of a letter to one, and a backslash to a slash.
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

// number returns the normal form of a number. Large numbers may become equal.
func number(s string) (string, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return "", false
	}
	return strconv.FormatFloat(f+0, 'g', -1, 64), true // 0 for -0
}
