package clients

import (
	"regexp"
	"slices"
	"strings"
)

// tellsPassword reports whether a short number under that name may be a secret.
func tellsPassword(name string) bool {
	return slices.ContainsFunc(words(name), func(w string) bool {
		return strings.HasPrefix(w, "pass") || slices.Contains([]string{"pwd", "pin", "otp", "totp", "secret"}, w)
	})
}

var (
	truth   = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|none|null|0|1)$`)
	number  = regexp.MustCompile(`^[0-9]{1,7}$`)
	file    = regexp.MustCompile(`^(?:~|\.{0,2}/|[A-Za-z]:[\\/])[^\s=&;,]*\.[A-Za-z]{2,5}$`)
	segment = regexp.MustCompile(`[A-Za-z0-9_.~+=-]+`)
	run     = regexp.MustCompile(`[A-Za-z0-9]{20,}`)
	uuid    = regexp.MustCompile(`(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// harmless reports whether a value is none, although its name says that it is a secret:
// a switch, a count, the path of a file.
func harmless(s string, password bool) bool {
	s = strings.TrimSpace(s)
	return s == "" || truth.MatchString(s) || !password && number.MatchString(s) || file.MatchString(s)
}

// random are the parts of a text that look as if drawn by lot: a key in the path of a
// url, or one under a name that says nothing.
func random(s, label string) []span {
	var all []span
	for _, at := range segment.FindAllStringIndex(s, -1) {
		part := s[at[0]:at[1]]
		if uuid.MatchString(part) || slices.ContainsFunc(run.FindAllString(part, -1), lettersAndDigits) {
			all = append(all, span{at[0], at[1], label})
		}
	}
	return all
}

// mixed reports whether a whole argument looks so. A file or a package mostly has a
// slash, a dot or an @ in its name.
func mixed(s string) bool {
	return len(s) >= 24 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=") == "" &&
		strings.ToLower(s) != s && strings.ToUpper(s) != s && lettersAndDigits(s)
}

func lettersAndDigits(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c < 0x80 && isLetter(byte(c)) }) && strings.ContainsAny(s, "0123456789")
}
