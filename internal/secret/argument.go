package secret

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Span is the position of a secret in a text, in bytes.
type Span struct {
	From, To int
	Name     string // name that marks the value as secret; "" if its shape does
}

// Find returns the possible secrets in an argument of a command or in a URL, ordered and
// disjoint. before is the preceding argument. In doubt a value is a secret, unlike in [Text]:
// the caller only moves it to a place where it works as well. A \x01 in the text represents a
// part that is not secret.
func Find(s, before string) []Span {
	if isOption(before) && classify(before) != plain && !option.MatchString(s) && !harmless(s) {
		return []Span{{0, len(s), before}}
	}
	found := slices.Concat(find(s, false, true), findElements(s))
	if isRandom(s) {
		found = append(found, span{0, len(s), "random", ""})
	}
	var all []Span
	for _, p := range merge(found) {
		if p.rule != "" {
			all = append(all, Span{p.from, p.to, p.name})
		}
	}
	return all
}

// isOption reports whether an argument is an option with its value in the next argument.
func isOption(s string) bool { return strings.HasPrefix(s, "-") && !strings.ContainsAny(s, "=: ") }

var (
	option   = regexp.MustCompile(`^(?:-[A-Za-z]|--[a-z][a-z0-9-]*(?:=.*)?)$`)
	truth    = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|none|null|0|1)$`)
	filePath = regexp.MustCompile(`^(?:~|\.{0,2}/|[A-Za-z]:[\\/])[^\s=&;,]*\.[A-Za-z]{2,5}$`)
)

// harmless reports whether a value is not secret in spite of its name: it is empty, a boolean,
// or the path of a file.
func harmless(value string) bool {
	value = strings.TrimSpace(value)
	return strings.Trim(value, " :,;"+filler) == "" || truth.MatchString(value) || filePath.MatchString(value)
}

var (
	userOnly = regexp.MustCompile(`://([^:/?#@\s"']+)@`)
	host     = regexp.MustCompile(`://[^/?#\s"']*`)
	element  = regexp.MustCompile(`[A-Za-z0-9_.~+%-]+`)
	streak   = regexp.MustCompile(`[A-Za-z0-9]{20,}`)
)

const minElement = 16 // characters of a token in a path

// findElements finds possible tokens in a URL: a user without a password, and long elements
// with letters and digits.
func findElements(s string) (found []span) {
	at := host.FindStringIndex(s)
	if at == nil {
		return nil
	}
	authority, path := at[0], at[1]
	if at := userOnly.FindStringSubmatchIndex(s); at != nil && lettersAndDigits(s[at[2]:at[3]]) {
		found = append(found, span{at[2], at[3], "url-password", ""})
	}
	for _, at := range element.FindAllStringIndex(s[authority:], -1) {
		from, to := authority+at[0], authority+at[1]
		text, err := url.PathUnescape(s[from:to])
		if err != nil {
			continue
		}
		// A host name has letters and digits too, but shorter runs of them.
		if from >= path && len(text) >= minElement && dense(text) || slices.ContainsFunc(streak.FindAllString(text, -1), lettersAndDigits) {
			found = append(found, span{from, to, "random", ""})
		}
	}
	return found
}

// isRandom reports whether a whole argument looks random. Names of files and packages usually
// contain a slash, a dot or an @.
func isRandom(s string) bool {
	return len(s) >= 24 && strings.Trim(s, alphanumeric+"_-+=") == "" && strings.ToLower(s) != s && strings.ToUpper(s) != s && lettersAndDigits(s)
}

func lettersAndDigits(s string) bool {
	return strings.ContainsAny(s, letters) && strings.ContainsAny(s, digits)
}
