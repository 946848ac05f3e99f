package secret

import (
	"regexp"
	"strings"
)

// strong reports whether a value under a name of kind k is a secret as a whole, so that no
// part of it may remain.
func (k kind) strong() bool {
	switch k.how {
	case sure, path, loud, count, way:
		return true
	case header:
		return k.rule != "cookie"
	}
	return false
}

// insists reports whether every value under a name of kind k is a secret.
func (k kind) insists() bool {
	return k.how == sure || k.how == path || k.how == header && k.rule != "cookie"
}

// number reports whether a number with that many digits is a secret under a name of kind k. A
// count of tokens is not, nor is the pin of a circuit.
func (k kind) number(digits int) bool {
	return k.strong() && k.how != count && k.how != way || k.how == pin && digits >= minPin
}

// value reports whether a text is a secret under a name of kind k.
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
		return len(s) >= minPin && len(s) <= 12 && strings.Trim(s, digits) == ""
	case bare:
		return looksRandom(s) && mixed(s) && !anyKey.MatchString(s)
	case user:
		_, word, _ := strings.Cut(s, ":")
		return !isPlaceholder(word) && !strings.HasPrefix(word, "//") && strings.Trim(s, digits+":") != ""
	}
	return looksRandom(s)
}

// loud is value for kinds under which any value is a secret except a sentence, a type or
// scheme, and, for tokens, a number.
func (k kind) loud(s string) bool {
	switch {
	case strings.Count(s, " ") > maxWords-1 || strings.ContainsAny(s, "\r\n\t"):
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
	digits   = "0123456789"
	maxWords = 3 // of a token, with its scheme

	minRandom  = 8  // bytes of a random token
	minPin     = 3  // digits of a PIN
	surelyLong = 20 // bytes of a token without digits
)

// looksRandom reports whether a text may be a token: one word that is long or contains letters
// and digits.
func looksRandom(s string) bool {
	return len(s) >= minRandom && !strings.ContainsAny(s, " \t\r\n") && (mixed(s) || len(s) >= surelyLong)
}

// mixed reports whether a text has digits and letters.
func mixed(s string) bool {
	return strings.ContainsAny(s, digits) && strings.ContainsFunc(s, func(r rune) bool { return r < 0x80 && letter(byte(r)) })
}

// placeholder matches texts in place of a secret, or a reference to one: ****, ${TOKEN},
// $TOKEN, <token>, {{ token }}, %TOKEN%, filler.
var placeholder = regexp.MustCompile(`(?s)^(?:[*•x.\x01]*|\$[({].*|\$[A-Z_0-9]+|<.*>|\{\{.*|%.|%[A-Z_0-9]+%)$`)

func isPlaceholder(s string) bool { return placeholder.MatchString(s) }

// anyKey matches values of the plain name "key" that are not secret: of an issue (PROJ-1234),
// an id, a path.
var anyKey = regexp.MustCompile(`[/:.,]|^[A-Z0-9_]+-[0-9]+$|^[0-9A-Fa-f-]{36}$`)
