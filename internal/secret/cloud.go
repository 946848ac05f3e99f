package secret

import (
	"encoding/base64"
	"slices"
	"strings"
)

// Secrets whose sign stands within them, or beside them.

const (
	awsKey    = "aws-key" // the rule for what says whose a secret is
	awsSecret = 40        // characters of the secret that belongs to such an id
)

// idOfKey reports whether the id of an AWS key stands in a text, or stood there.
func idOfKey(s string, spans []span) bool {
	return slices.ContainsFunc(spans, func(p span) bool {
		return p.rule == awsKey || p.rule == "" && s[p.from:p.to] == mark(awsKey)
	})
}

// besideID adds to the spans of a text what may be the secret that belongs to the id
// of an AWS key: 40 characters of base64 that look random. By itself that is too
// little to go by.
func besideID(s string, spans []span) []span {
	in := &indexed().in
	var all []span
	i := 0
	for _, p := range append(slices.Clip(spans), span{from: len(s), to: len(s)}) {
		for i < p.from {
			if in[s[i]]&radix64 == 0 {
				i++
				continue
			}
			from := i
			for i < p.from && in[s[i]]&radix64 != 0 {
				i++
			}
			if i-from == awsSecret+1 && s[from] == '/' {
				from++ // ID/SECRET
			}
			if i-from == awsSecret && random(s[from:i]) {
				all = append(all, span{from, i, "aws-secret"})
			}
		}
		if p.from < len(s) {
			all = append(all, p)
		}
		i = max(i, p.to)
	}
	return all
}

// random reports whether 40 characters of base64 look random: those that are come to
// some 4.7 bits each, words and paths to less than 4.2, digests have no capitals.
func random(s string) bool {
	return strings.ToLower(s) != s && strings.ToUpper(s) != s && disorder(s) >= 4.2
}

const (
	azureBefore              = 5      // characters before the sign: abc8Q~
	leastAzure, mostAzure    = 31, 64 // behind it
	atlas                    = ".atlasv1."
	atlasBefore, leastBehind = 14, 40
	longestHeader            = 512 // characters of base64 of base64 in which the header of a token has to end
)

// azure takes the secret of an application of Microsoft Entra whose ~ stands at i.
func (f *finder) azure(i int) {
	if i < azureBefore || f.s[i-1] != 'Q' || f.s[i-2] < '0' || f.s[i-2] > '9' {
		return
	}
	for _, c := range []byte(f.s[i-azureBefore : i-2]) {
		if f.in[c]&dotted == 0 && c != '~' {
			return
		}
	}
	to := i + 1
	for to < len(f.s) && to <= i+mostAzure && (f.in[f.s[to]]&dotted != 0 || f.s[to] == '~') {
		to++
	}
	if to-i-1 >= leastAzure {
		f.take(span{i - azureBefore, to, "azure-secret"})
	}
}

// atlas takes the token of Terraform Cloud whose first dot stands at i.
func (f *finder) atlas(i int) {
	if !strings.HasPrefix(f.s[i:], atlas) {
		return
	}
	from := i
	for from > 0 && i-from < atlasBefore && f.in[f.s[from-1]]&alnum != 0 {
		from--
	}
	to := f.end(word, i+len(atlas))
	if i-from == atlasBefore && to-i-len(atlas) >= leastBehind {
		f.take(span{from, to, "terraform-token"})
	}
}

// encodedJWT takes the JSON Web Token that begins at i and is in base64 once more.
func (f *finder) encodedJWT(i int) bool {
	if !strings.HasPrefix(f.s[i:], "ZXlK") { // base64 of eyJ
		return false
	}
	for _, of := range [...]alphabet{radix64, word} {
		encoding := base64.RawStdEncoding
		if of == word {
			encoding = base64.RawURLEncoding
		}
		to := f.end(of, i)
		part := f.s[i:min(to, i+longestHeader)]
		plain, err := encoding.DecodeString(part[:len(part)&^3])
		header, payload, found := strings.Cut(string(plain), ".")
		if err != nil || !found || len(header) < leastPart || !strings.HasPrefix(payload, jwtBegin) {
			continue
		}
		f.take(span{i, to, "jwt"})
		return true
	}
	return false
}
