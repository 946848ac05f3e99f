package secret

import (
	_ "embed"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed rules.txt
var rulesFile string

// lazy returns an expression that is compiled in its first call: many processes use none.
func lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// finder finds secrets of one shape.
type finder struct {
	rule   string
	signs  []string // a text without any of them has no such secret
	re     func() *regexp.Regexp
	check  func(string) bool
	strict bool // only in arguments and URLs
}

// kind is the classification of a name: the rule by which its value is a secret, and
// when. rules.txt explains it. The zero kind means that the name says nothing.
type kind struct{ rule, when string }

// named is an expression for names.
type named struct {
	kind
	re *regexp.Regexp
}

// checks are the checks of what an expression found.
var checks = map[string]func(string) bool{
	"any":     func(string) bool { return true },
	"random":  dense,
	"likely":  looksRandom,
	"mixed":   mixed,
	"cases":   func(s string) bool { return mixed(s) && strings.ToLower(s) != s && strings.ToUpper(s) != s },
	"account": isAccount,
}

// rules parses rules.txt in the first call, and compiles the expressions for names.
// Those for shapes are compiled when they are needed.
var rules = sync.OnceValue(func() (r struct {
	finders []finder
	names   []named
	stems   []string // a name without any of them says nothing
	types   *regexp.Regexp
}) {
	lists := make(map[string][]string)
	var names [][]string
	for line := range strings.Lines(rulesFile) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] == "#" {
			continue
		}
		switch f[0] {
		case "prefix":
			prefixes := strings.ReplaceAll(strings.Join(f[4:], "|"), ".", `\.`)
			f[3] = `(?:^|[^A-Za-z0-9])((?:` + prefixes + `)` + f[3] + `)`
			fallthrough
		case "match", "argument":
			r.finders = append(r.finders, finder{f[1], f[4:], lazy(f[3]), checks[f[2]], f[0] == "argument"})
		case "name":
			names = append(names, f)
		case "words":
			lists[f[1]] = append(lists[f[1]], f[2:]...)
		}
	}
	for _, f := range names {
		text := strings.Join(f[3:], "|")
		for list, words := range lists {
			text = strings.ReplaceAll(text, "_"+list+"_", "_(?:"+strings.Join(words, "|")+")_")
		}
		r.names = append(r.names, named{kind{f[1], f[2]}, regexp.MustCompile(text)})
	}
	r.types = regexp.MustCompile(`(?i)^(?:` + strings.Join(lists["types"], "|") + `)$`)
	r.stems = lists["stems"]
	return r
})

const maxName = 64 // bytes at the end of a name that are examined

var (
	humps     = lazy(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)
	nonLetter = lazy(`[^A-Za-z]+`)
)

// classify returns the kind of a name, written like_this, like-this, likeThis or
// LikeTHIS2.
func classify(name string) kind {
	lower := strings.ToLower(name)
	hasStem := func(stem string) bool { return strings.Contains(lower, stem) }
	if !slices.ContainsFunc(rules().stems, hasStem) { // most names
		return kind{}
	}
	name = humps().ReplaceAllString(name[max(0, len(name)-maxName):], "${1}${3}_${2}${4}")
	name = strings.ToLower("_" + strings.Trim(nonLetter().ReplaceAllString(name, "_"), "_") + "_")
	for _, n := range rules().names {
		if n.re.MatchString(name) {
			return n.kind
		}
	}
	return kind{}
}

// isStrong reports whether all of a value under such a name may be secret.
func (k kind) isStrong() bool { return k.when == "always" || k.when == "token" || k.when == "header" }

var (
	// placeholder matches texts in place of a secret, or a reference to one: ****, ${TOKEN},
	// $TOKEN, <token>, {{ token }}, %TOKEN%, a mark.
	placeholder = lazy(`(?s)^(?:[*•x.\x{F0000}-\x{FFFFD}]*|(?:\$\{[^}]*\})+|\$\(.*|\$[A-Z_0-9]+|` +
		`<.*>|\{\{.*|%.|%[A-Z_0-9]+%|\[secret:.*)$`)
	// anyKey matches values of the plain name "key" that are not secret: of an issue
	// (PROJ-1234), an id, a path.
	anyKey     = lazy(`[/:.,]|^[A-Z0-9_]+-[0-9]+$|^[0-9A-Fa-f-]{36}$`)
	notToken   = lazy(`^(?:/.*|[A-Za-z]:\\.*|(?s).*\s.*\s.*\s.*|(?s).*[\r\n\t].*)$`)
	account    = lazy(`^[^\x00-\x1f]*:[^\x00-\x1f]*$`)
	fewDigits  = lazy(`^[0-9]{3,12}$`)
	hasDigits  = lazy(`[0-9]`)
	hasLetters = lazy(`[A-Za-z]`)
)

// isSecret reports whether a text is a secret under a name of kind k.
func (k kind) isSecret(s string) bool {
	switch {
	case placeholder().MatchString(s):
		return false
	case k.when == "token":
		return !notToken().MatchString(s) && !rules().types.MatchString(s)
	case k.when == "likely":
		return looksRandom(s) && (k.rule != "key" || mixed(s) && !anyKey().MatchString(s))
	case k.when == "digits":
		return fewDigits().MatchString(s)
	case k.rule == "cookie":
		return strings.Contains(s, "=") || looksRandom(s)
	}
	return k.when == "always" || k.when == "header"
}

// looksRandom reports whether a text may be a token: one word that is long or contains
// letters and digits.
func looksRandom(s string) bool {
	const least, surely = 8, 20 // bytes
	return len(s) >= least && !strings.ContainsAny(s, " \t\r\n") && (mixed(s) || len(s) >= surely)
}

// mixed reports whether a text has digits and letters.
func mixed(s string) bool { return hasDigits().MatchString(s) && hasLetters().MatchString(s) }

// dense reports whether a text looks random: it has digits, letters and many different
// characters.
func dense(s string) bool {
	s = s[:min(len(s), 64)]
	seen := make(map[rune]bool)
	for _, c := range s {
		seen[c] = true
	}
	return mixed(s) && len(hasDigits().FindAllString(s, 2)) == 2 && len(seen) >= min(8, len(s)/2)
}

// isAccount reports whether a text is base64 of a user, a colon and a password.
func isAccount(s string) bool {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return err == nil && account().Match(plain)
}
