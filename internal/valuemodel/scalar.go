package valuemodel

import (
	"encoding/json"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text is the string that raw JSON holds; false if it holds none, or one that
// cannot be written in UTF-8, so that the server may read another.
func text(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, utf8.RuneError) {
		return "", false
	}
	return s, true
}

// scalar is one text for all spellings of a value: a number however written and
// whether or not in quotes, names in any case, paths with or without what changes
// nothing in them. What it makes equal and is not costs an answer; what it does
// not make equal and is would leave one stale. Objects, arrays, null and nothing
// are no scalar.
func scalar(raw []byte) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		s, ok := text(raw)
		return canonical(s), ok
	case '{', '[', 'n':
		return "", false
	}
	return canonical(string(raw)), true
}

func canonical(s string) string {
	s = strings.Map(fold, strings.TrimSpace(s))
	s = strings.TrimSpace(path.Clean(s))
	if n, ok := number(s); ok {
		return n
	}
	return s
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
