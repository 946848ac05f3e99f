package secret

import (
	"regexp"
	"strings"
)

// strong reports whether what stands under a name of kind k is a secret in itself, so that
// nothing of it may stay.
func (k kind) strong() bool {
	switch k.how {
	case sure, path, loud, count, way:
		return true
	case header:
		return k.rule != "cookie"
	}
	return false
}

// insists reports whether any value under a name of kind k is a secret.
func (k kind) insists() bool {
	return k.how == sure || k.how == path || k.how == header && k.rule != "cookie"
}

// number reports whether a number of so many digits is a secret under a name of kind k: a
// count of tokens is none, nor is a pin of a circuit.
func (k kind) number(digits int) bool {
	return k.strong() && k.how != count && k.how != way || k.how == pin && digits >= leastPin
}

// value reports whether a text is a secret if a name of kind k stands before it.
func (k kind) value(s string) bool {
	if k == plain || k.how == only || isPlaceholder(s) {
		return false
	}
	switch k.how {
	case sure:
		return true
	case path:
		return s[0] != '/' && !(len(s) > 2 && s[1] == ':' && s[2] == '\\')
	case header:
		return k.rule != "cookie" || strings.Contains(s, "=") || looksRandom(s)
	case loud, count, way:
		return k.loud(s)
	case pin:
		return len(s) >= leastPin && len(s) <= 12 && strings.Trim(s, digits) == ""
	case bare:
		return looksRandom(s) && mixed(s) && !anyKey.MatchString(s)
	case user:
		_, word, _ := strings.Cut(s, ":")
		return !isPlaceholder(word) && !strings.HasPrefix(word, "//") && strings.Trim(s, digits+":") != ""
	}
	return looksRandom(s)
}

// loud reports the same of what says it of any value that is no sentence, no word for a
// value, and for tokens no number.
func (k kind) loud(s string) bool {
	switch {
	case strings.Count(s, " ") > mostWords-1 || strings.ContainsAny(s, "\r\n\t"):
		return false
	case among("types", s):
		return false
	case k.how == count:
		return strings.Trim(s, digits+".,-") != ""
	case k.how == way:
		return !among("ways", s)
	}
	return true
}

const (
	digits    = "0123456789"
	mostWords = 3 // of a token: with the name of its scheme, and something between

	leastRandom = 8
	leastPin    = 3
	surelyLong  = 20
)

// looksRandom reports whether a text may be a token: one word, long, or with digits among its
// letters.
func looksRandom(s string) bool {
	return len(s) >= leastRandom && !strings.ContainsAny(s, " \t\r\n") && (mixed(s) || len(s) >= surelyLong)
}

// mixed reports whether a text has digits and letters.
func mixed(s string) bool {
	return strings.ContainsAny(s, digits) && strings.ContainsFunc(s, func(r rune) bool { return r < 0x80 && letter(byte(r)) })
}

// placeholder is a text that stands in for a secret that is not there, or names where it is: ****,
// ${TOKEN}, $TOKEN, <token>, {{ token }}, %TOKEN%, what was found already.
var placeholder = regexp.MustCompile(`(?s)^(?:[*•x.\x01]*|\$[({].*|\$[A-Z_0-9]+|<.*>|\{\{.*|%.|%[A-Z_0-9]+%)$`)

func isPlaceholder(s string) bool { return placeholder.MatchString(s) }

// anyKey is what stands under the name "key" alone: of an issue (PROJ-1234), an id, a path.
var anyKey = regexp.MustCompile(`[/:.,]|^[A-Z0-9_]+-[0-9]+$|^[0-9A-Fa-f-]{36}$`)
