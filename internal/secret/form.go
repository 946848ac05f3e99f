package secret

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// What has a form rather than a beginning: tokens of parts, credentials behind the name of a
// scheme, the armor of a key, the password of a URL, and what stands beside the id of a key.

// pattern is a kind of secret that an expression finds.
type pattern struct {
	sign string // without which there is none
	of   *regexp.Regexp
	is   func(s string) bool // nil: what the expression finds is one
	rule string
}

var forms = []pattern{
	{".", regexp.MustCompile(`eyJ[A-Za-z0-9_-]{7,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)*`), nil, "jwt"},
	{"ZXlK", regexp.MustCompile(`ZXlK[A-Za-z0-9+/]{20,}|ZXlK[A-Za-z0-9_-]{20,}`), encodedJWT, "jwt"}, // base64 of eyJ
	{"Q~", regexp.MustCompile(`[A-Za-z0-9._~-]{3}[0-9]Q~[A-Za-z0-9._~-]{31,64}`), nil, "azure-secret"},
	{".atlasv1.", regexp.MustCompile(`[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}`), nil, "terraform-token"},
}

// forms are the spans of these, of armors and of URLs.
func (f *finder) forms() []span {
	var all []span
	for _, form := range forms {
		if !strings.Contains(f.s, form.sign) {
			continue
		}
		for _, at := range form.of.FindAllStringIndex(f.s, -1) {
			if f.fresh(at[0]) && (form.is == nil || form.is(f.s[at[0]:at[1]])) {
				all = append(all, span{at[0], at[1], form.rule})
			}
		}
	}
	return slices.Concat(all, armors(f.s), addresses(f.s))
}

// encodedJWT reports whether a text is base64 of a JSON Web Token. One part alone is no
// token: what is only base64 of an object may be a cursor.
func encodedJWT(s string) bool {
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	s = s[:min(len(s), longestHeader)]
	plain, err := encoding.DecodeString(s[:len(s)&^3])
	header, payload, found := strings.Cut(string(plain), ".")
	return err == nil && found && len(header) >= leastPart && strings.HasPrefix(payload, "eyJ")
}

const (
	longestHeader = 512 // characters of base64 of base64 in which the header of a token has to end
	leastPart     = 10  // characters of that header
)

// scheme is the credentials behind the word Bearer or Basic that begins at i, without the
// word.
func (f *finder) scheme(i int) span {
	for _, name := range [...]string{"bearer", "basic"} {
		from := i + len(name) + 1
		if from >= len(f.s) || f.s[from-1] != ' ' || !strings.EqualFold(f.s[i:from-1], name) {
			continue
		}
		of, credentials := token, likely
		if name == "basic" {
			of, credentials = radix64, encoded
		}
		to := f.end(of, from)
		if !credentials(f.s[from:to]) {
			continue
		}
		for n := 0; n < 2 && to < len(f.s) && f.s[to] == '='; n++ {
			to++
		}
		return span{from, to, name}
	}
	return span{}
}

// encoded reports whether s is base64 of a name, a colon and a password.
func encoded(s string) bool {
	plain, err := base64.RawStdEncoding.DecodeString(s)
	return err == nil && strings.Contains(string(plain), ":") && !strings.ContainsFunc(string(plain), func(c rune) bool { return c < ' ' })
}

const (
	armorBegin = "-----BEGIN "
	armorEnd   = "-----END "
)

var armor = regexp.MustCompile(`-----BEGIN [^-]{0,50}PRIVATE KEY[^-]{0,10}-----`)

// armors are private keys, armor and all. Of one that has no end, as the text was cut, all
// goes that may belong to it.
func armors(s string) []span {
	if !strings.Contains(s, armorBegin) {
		return nil
	}
	var all []span
	for done := 0; ; {
		at := armor.FindStringIndex(s[done:])
		if at == nil {
			return all
		}
		from, to := done+at[0], done+at[1]
		if n := strings.Index(s[to:], armorEnd); n >= 0 {
			to += n + len(armorEnd)
			if n := strings.Index(s[to:min(len(s), to+64)], "-----"); n >= 0 {
				to += n + len("-----")
			}
		} else {
			for to < len(s) && (alphabetsOf(s[to])&radix64 != 0 || strings.IndexByte("=\\ \t\r\n:,-", s[to]) >= 0) {
				to++
			}
		}
		all = append(all, span{from, to, "private-key"})
		done = to
	}
}

// leastUser is how long the user of a URL without a password must be to be taken
// for a token.
const leastUser = 16

var address = regexp.MustCompile("://([^/?#\\\\ \\t\\r\\n\"'`<>\\[]*)@")

// addresses are the passwords of URLs, and of what stands in place of a user what looks
// random: many hand over a token there.
func addresses(s string) []span {
	if !strings.Contains(s, "://") {
		return nil
	}
	var all []span
	for _, at := range address.FindAllStringSubmatchIndex(s, -1) {
		from, to := at[2], at[3]
		user, word, has := strings.Cut(s[from:to], ":")
		switch {
		case has && word != "":
			all = append(all, span{from + len(user) + 1, to, "url-password"})
		case !has && len(user) >= leastUser && dense(user):
			all = append(all, span{from, to, "url-password"})
		}
	}
	return all
}

const awsKey = "aws-key" // the rule for what says that a secret is beside it

// idOfKey reports whether the id of an AWS key stands in a text, or stood there.
func idOfKey(s string, spans []span) bool {
	return slices.ContainsFunc(spans, func(p span) bool {
		return p.rule == awsKey || p.rule == "" && s[p.from:p.to] == mark(awsKey)
	})
}

var awsSecret = regexp.MustCompile(`[A-Za-z0-9+/]{40,}`)

// besideID adds to the spans of a text what may be the secret that belongs to the id
// of an AWS key: 40 characters of base64 that look random. By itself that is too
// little to go by.
func besideID(s string, spans []span) []span {
	all := slices.Clone(spans)
	for _, at := range awsSecret.FindAllStringIndex(s, -1) {
		from, to := at[0], at[1]
		if to-from == 41 && s[from] == '/' {
			from++ // ID/SECRET
		}
		if to-from == 40 && random(s[from:to]) {
			all = append(all, span{from, to, "aws-secret"})
		}
	}
	return apart(all)
}

// random reports whether 40 characters of base64 look random: those that are come to
// some 4.7 bits each, words and paths to less than 4.2, digests have no capitals.
func random(s string) bool {
	return strings.ToLower(s) != s && strings.ToUpper(s) != s && disorder(s) >= 4.2
}
