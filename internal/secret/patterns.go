package secret

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// pattern is a kind of secret found by a regular expression, for secrets without a fixed
// prefix.
type pattern struct {
	signs []string // a text without any of them has no match
	re    *regexp.Regexp
	is    func(s string) bool // checks the last group's match; nil means always true
	rule  string
}

const (
	armorBegin = "-----BEGIN "
	armorEnd   = "-----END "
	awsID      = "aws-key" // rule of a key id, which shows that a secret key is near
)

// patterns compiles the expressions in the first call.
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
		// A truncated key extends as far as its characters can.
		{[]string{armorBegin}, regexp.MustCompile(`-----BEGIN [^-]{0,50}PRIVATE KEY[^-]{0,10}-----(?:(?s:.*?)-----END (?:[^-]{0,50}-----)?|[A-Za-z0-9+/=\\ \t\r\n:,-]*)`), nil, "private-key"},
		{[]string{"@"}, regexp.MustCompile("://[^:/?#\\\\ \\t\\r\\n\"'`<>\\[]*:([^/?#\\\\ \\t\\r\\n\"'`<>\\[]+)@"), nil, "url-password"},
		{[]string{"@"}, regexp.MustCompile("://([^:/?#\\\\ \\t\\r\\n\"'`<>\\[]{16,})@"), dense, "url-password"}, // a token in place of a user
	}
})

// findPatterns finds the secrets that match a pattern. aws means that the id of an AWS key is
// in the text or near it: 40 characters of base64 alone are not enough evidence.
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

// isAWSSecret reports whether 40 characters of base64 are not a hex digest, which has no upper
// case.
func isAWSSecret(s string) bool { return strings.ToLower(s) != s && strings.ToUpper(s) != s }

// encodedPassword reports whether a text is base64 of a user, a colon and a password.
func encodedPassword(s string) bool {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return err == nil && strings.Contains(string(plain), ":") && !strings.ContainsFunc(string(plain), func(c rune) bool { return c < ' ' })
}

// encodedJWT reports whether a text is base64 of a JSON Web Token. It requires two parts:
// base64 of one object may be a cursor.
func encodedJWT(s string) bool {
	const maxHeader, minHeader = 512, 10 // characters of base64, and of what it encodes
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	s = s[:min(len(s), maxHeader)]
	plain, err := encoding.DecodeString(s[:len(s)&^3])
	header, payload, found := strings.Cut(string(plain), ".")
	return err == nil && found && len(header) >= minHeader && strings.HasPrefix(payload, "eyJ")
}
