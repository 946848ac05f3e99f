package valuemodel

import (
	"errors"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mcpschedd/internal/classify"
)

// scalar returns one text for all spellings of a value: it normalises numbers, quoted or
// not, letter case, Unicode composition and escapes, and redundant parts of paths. A
// false match costs a refetch; a missed match would serve a stale result. It returns
// false for objects, arrays, null and absent values.
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

const maxEscapes = 3 // how many times a value may be percent-escaped

func canonical(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == '%' || r > unicode.MaxASCII }) {
		s = norm.NFKC.String(s)
		for range maxEscapes {
			if plain, err := url.PathUnescape(s); err == nil {
				s = plain
			}
		}
		s = norm.NFKC.String(strings.Map(withoutFormat, s))
	}
	s = strings.TrimSpace(strings.ReplaceAll(strings.ToUpper(s), `\`, "/"))
	if rest, ok := strings.CutPrefix(s, "FILE:"); ok {
		s = strings.TrimPrefix(rest, "//LOCALHOST")
	}
	s = strings.TrimLeft(s, "#! ") // #42 is an issue, !42 a merge request
	s = strings.TrimSpace(path.Clean(s))
	if f, err := strconv.ParseFloat(s, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return strconv.FormatFloat(f+0, 'g', -1, 64) // 0 for -0; large numbers may become equal
	}
	return s
}

// withoutFormat drops format characters and variation selectors.
func withoutFormat(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
		return -1
	}
	return r
}
