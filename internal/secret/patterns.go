package secret

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// pattern is a kind of secret that an expression finds: what has a form rather than a
// beginning.
type pattern struct {
	signs []string // without one of which there is none
	re    *regexp.Regexp
	is    func(s string) bool // nil: what the last group of the expression finds is one
	rule  string
}

const (
	armorBegin = "-----BEGIN "
	armorEnd   = "-----END "
	awsID      = "aws-key" // the rule for what says that a secret is beside it
)

// patterns are compiled when a text is looked at first.
var patterns = sync.OnceValue(func() []pattern {
	return []pattern{
		{[]string{"eyJ"}, regexp.MustCompile(`(?:^|[^A-Za-z0-9])(eyJ[A-Za-z0-9_-]{7,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)*)`), nil, "jwt"},
		{[]string{"ZXlK"}, regexp.MustCompile(`(?:^|[^A-Za-z0-9])(ZXlK[A-Za-z0-9+/]{20,}|ZXlK[A-Za-z0-9_-]{20,})`), encodedJWT, "jwt"}, // base64 of eyJ
		{[]string{"Q~"}, regexp.MustCompile(`(?:^|[^A-Za-z0-9])([A-Za-z0-9._~-]{3}[0-9]Q~[A-Za-z0-9._~-]{31,64})`), nil, "azure-secret"},
		{[]string{".atlasv1."}, regexp.MustCompile(`(?:^|[^A-Za-z0-9])([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,})`), nil, "terraform-token"},
		{[]string{"ATATT3", "ATCTT3"}, regexp.MustCompile(`(?:^|[^A-Za-z0-9])(AT[AC]TT3[A-Za-z0-9_-]{60,}(?:=[0-9A-F]{8})?)`), nil, "atlassian-token"},
		{[]string{":AA"}, regexp.MustCompile(`:(AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9]|$)`), dense, "telegram-token"},
		{[]string{"earer ", "EARER "}, regexp.MustCompile(`(?i)(?:^|[^a-z0-9])bearer ([a-z0-9_.+/~-]+={0,2})`), looksRandom, "bearer"},
		{[]string{"asic ", "ASIC "}, regexp.MustCompile(`(?i)(?:^|[^a-z0-9])basic ([a-z0-9+/]+={0,2})`), encodedPassword, "basic"},
		// A key that is cut goes as far as it may reach.
		{[]string{armorBegin}, regexp.MustCompile(`-----BEGIN [^-]{0,50}PRIVATE KEY[^-]{0,10}-----(?:(?s:.*?)-----END (?:[^-]{0,50}-----)?|[A-Za-z0-9+/=\\ \t\r\n:,-]*)`), nil, "private-key"},
		{[]string{"@"}, regexp.MustCompile("://[^:/?#\\\\ \\t\\r\\n\"'`<>\\[]*:([^/?#\\\\ \\t\\r\\n\"'`<>\\[]+)@"), nil, "url-password"},
		{[]string{"@"}, regexp.MustCompile("://([^:/?#\\\\ \\t\\r\\n\"'`<>\\[]{16,})@"), dense, "url-password"}, // a token in place of a user
	}
})

// findPatterns finds what has such a form. aws says that the id of an AWS key stands in the
// text, or around it: 40 characters of base64 are too little to go by otherwise.
func findPatterns(s string, aws bool) (found []span) {
	for _, p := range patterns() {
		if !slices.ContainsFunc(p.signs, func(sign string) bool { return strings.Contains(s, sign) }) {
			continue
		}
		for _, at := range p.re.FindAllStringSubmatchIndex(s, -1) {
			from, to := at[len(at)-2], at[len(at)-1]
			if p.is == nil || p.is(s[from:to]) {
				found = append(found, span{from, to, p.rule, ""})
			}
		}
	}
	if aws {
		for _, at := range awsSecret.FindAllStringIndex(s, -1) {
			from, to := at[0], at[1]
			if to-from == 41 && s[from] == '/' {
				from++ // ID/SECRET
			}
			if to-from == 40 && isAWSSecret(s[from:to]) {
				found = append(found, span{from, to, "aws-secret", ""})
			}
		}
	}
	return found
}

var awsSecret = regexp.MustCompile(`[A-Za-z0-9+/]{40,}`)

// isAWSSecret reports whether 40 characters of base64 are no digest, which has no capitals.
func isAWSSecret(s string) bool { return strings.ToLower(s) != s && strings.ToUpper(s) != s }

// encodedPassword reports whether a text is base64 of a name, a colon and a password.
func encodedPassword(s string) bool {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return err == nil && strings.Contains(string(plain), ":") && !strings.ContainsFunc(string(plain), func(c rune) bool { return c < ' ' })
}

// encodedJWT reports whether a text is base64 of a JSON Web Token. One part alone is no token:
// what is only base64 of an object may be a cursor.
func encodedJWT(s string) bool {
	const longestHeader, leastHeader = 512, 10 // characters of base64, and of what it encodes
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	s = s[:min(len(s), longestHeader)]
	plain, err := encoding.DecodeString(s[:len(s)&^3])
	header, payload, found := strings.Cut(string(plain), ".")
	return err == nil && found && len(header) >= leastHeader && strings.HasPrefix(payload, "eyJ")
}
