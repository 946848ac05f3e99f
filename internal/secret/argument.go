package secret

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Span is where a secret stands in a text.
type Span struct {
	From, To int
	Name     string // that says that it is one; "": its shape does
}

// Find returns what may be a secret in an argument of a command, or in a URL, in order and
// apart. before is the argument before it. Here in doubt a value is a secret, other than in a
// text that is read: the caller puts it elsewhere, where it works as well. A \x01 in the text
// stands for what is none.
func Find(s, before string) []Span {
	if isOption(before) && classify(before) != plain && !option.MatchString(s) && !harmless(s) {
		return []Span{{0, len(s), before}}
	}
	found := slices.Concat(find(s, false, true), findElements(s))
	if isRandom(s) {
		found = append(found, span{0, len(s), "random", ""})
	}
	var all []Span
	for _, p := range apart(found) {
		if p.rule != "" {
			all = append(all, Span{p.from, p.to, p.name})
		}
	}
	return all
}

// isOption reports whether an argument is an option whose value is the next.
func isOption(s string) bool { return strings.HasPrefix(s, "-") && !strings.ContainsAny(s, "=: ") }

var (
	option   = regexp.MustCompile(`^(?:-[A-Za-z]|--[a-z][a-z0-9-]*(?:=.*)?)$`)
	truth    = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|none|null|0|1)$`)
	filePath = regexp.MustCompile(`^(?:~|\.{0,2}/|[A-Za-z]:[\\/])[^\s=&;,]*\.[A-Za-z]{2,5}$`)
)

// harmless reports whether a value is no secret, although its name says so: it is empty, a
// switch, or the path of a file.
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

const leastElement = 16 // characters of a token in a path

// findElements finds what may be a token in a URL: a user without a password, and elements that
// are long and mixed.
func findElements(s string) (found []span) {
	at := host.FindStringIndex(s)
	if at == nil {
		return nil
	}
	begin, path := at[0], at[1]
	if at := userOnly.FindStringSubmatchIndex(s); at != nil && lettersAndDigits(s[at[2]:at[3]]) {
		found = append(found, span{at[2], at[3], "url-password", ""})
	}
	for _, at := range element.FindAllStringIndex(s[begin:], -1) {
		from, to := begin+at[0], begin+at[1]
		text, err := url.PathUnescape(s[from:to])
		if err != nil {
			continue
		}
		// The name of a machine has letters and digits, too, but not so many together.
		if from >= path && len(text) >= leastElement && dense(text) || slices.ContainsFunc(streak.FindAllString(text, -1), lettersAndDigits) {
			found = append(found, span{from, to, "random", ""})
		}
	}
	return found
}

// isRandom reports whether a whole argument looks random. A file or a package mostly
// has a slash, a dot or an @ in its name.
func isRandom(s string) bool {
	return len(s) >= 24 && strings.Trim(s, lettersIn+"_-+=") == "" && strings.ToLower(s) != s && strings.ToUpper(s) != s && lettersAndDigits(s)
}

func lettersAndDigits(s string) bool {
	return strings.ContainsAny(s, letters) && strings.ContainsAny(s, digits)
}
