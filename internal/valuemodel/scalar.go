package valuemodel

import (
	"path"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mcpschedd/internal/classify"
)

// scalar is one text for all spellings of a value: a number however written and
// whether or not in quotes, names in any case, letters however composed or
// escaped, paths with or without what changes nothing in them. What it makes equal and is not costs an answer; what it does
// not make equal and is would leave one stale. Objects, arrays, null and nothing
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

// number writes a decimal number in one way: its digits without zeros at either
// end, and the power of ten they are to be multiplied by. It reckons with text,
// for a float would take great numbers that differ for one, and an exact one of
// 1e999999999 would fill the memory.
func number(s string) (string, bool) {
	sign := ""
	if rest, negative := strings.CutPrefix(s, "-"); negative {
		sign, s = "-", rest
	} else {
		s = strings.TrimPrefix(s, "+")
	}
	mantissa, power, exponent := strings.Cut(strings.ToLower(s), "e")
	shift := 0
	if exponent {
		n, err := strconv.Atoi(power)
		if err != nil || n > 1<<30 || n < -1<<30 {
			return "", false
		}
		shift = n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	digits = strings.TrimLeft(digits, "0")
	shift -= len(fraction)
	short := strings.TrimRight(digits, "0")
	shift += len(digits) - len(short)
	if short == "" {
		return "0", true
	}
	return sign + short + "e" + strconv.Itoa(shift), true
}
