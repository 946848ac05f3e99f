package secret

import (
	"encoding/base64"
	"strings"
)

// What has a form rather than a beginning: tokens of three parts, credentials
// behind the name of a scheme, the armor of a key, the password of a URL.

const (
	jwtBegin  = "eyJ" // base64 of {"
	leastPart = 10    // characters of the header and of the payload of a token
)

// jwt takes the JSON Web Token that begins at i. One part alone is no token: what
// is only base64 of an object may be a cursor or an image's description.
func (f *finder) jwt(i int) bool {
	if !strings.HasPrefix(f.s[i:], jwtBegin) {
		return false
	}
	to := f.end(word, i)
	if to-i < leastPart || to >= len(f.s) || f.s[to] != '.' {
		return false
	}
	next := f.end(word, to+1)
	if next-to <= leastPart {
		return false
	}
	for to = next; to < len(f.s) && f.s[to] == '.'; to = next {
		if next = f.end(word, to+1); next == to+1 {
			break
		}
	}
	f.take(span{i, to, "jwt"})
	return true
}

// scheme takes the credentials behind the word Bearer or Basic that begins at i,
// without the word.
func (f *finder) scheme(i int) bool {
	for _, name := range [...]string{"bearer", "basic"} {
		from := i + len(name) + 1
		if from >= len(f.s) || f.s[from-1] != ' ' || !strings.EqualFold(f.s[i:from-1], name) {
			continue
		}
		of, credentials := token, likely
		if name == "basic" {
			of, credentials = radix64, encoded
		}
		for to := range f.ends(of, from) {
			if !credentials(f.s[from:to]) {
				continue
			}
			for n := 0; n < 2 && to < len(f.s) && f.s[to] == '='; n++ {
				to++
			}
			f.take(span{from, to, name})
			return true
		}
	}
	return false
}

// encoded reports whether s is base64 of a name, a colon and a password.
func encoded(s string) bool {
	plain, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil || !strings.Contains(string(plain), ":") {
		return false
	}
	for _, c := range plain {
		if c < ' ' {
			return false
		}
	}
	return true
}

const (
	armorBegin = "-----BEGIN "
	armorEnd   = "-----END "
	armorLine  = 64 // bytes that the name of what is in an armor may have
)

// block takes the private key that begins at i, armor and all. If it has no end,
// the text has been cut: all that may belong to it goes.
func (f *finder) block(i int) {
	if strings.HasPrefix(f.s[i:], armorEnd) {
		f.armor = i
		return
	}
	kind, ok := strings.CutPrefix(f.s[i:], armorBegin)
	if !ok {
		return
	}
	kind, _, ok = strings.Cut(kind[:min(len(kind), armorLine)], "-----")
	if !ok || !strings.Contains(kind, "PRIVATE KEY") {
		return
	}
	to := i + len(armorBegin) + len(kind) + len("-----")
	if f.armor == len(f.s) {
		for to < f.next() && armored(f.s[to]) {
			to++
		}
		f.take(span{i, to, "private-key"})
		return
	}
	to = max(to, f.armor+len(armorEnd))
	if n := strings.Index(f.s[to:min(len(f.s), to+armorLine)], "-----"); n >= 0 {
		to += n + len("-----")
	}
	f.take(span{i, to, "private-key"})
}

// armored reports whether c may stand in a key, as it is or in a quoted text.
func armored(c byte) bool {
	return alphabetsOf(c)&radix64 != 0 || strings.IndexByte("=\\ \t\r\n:,-", c) >= 0
}

// leastUser is how long the user of a URL without a password must be to be taken
// for a token.
const leastUser = 16

// url takes the password of the URL whose colon stands at i, and of what stands in
// place of a user what looks random: many hand over a token there.
func (f *finder) url(i int) {
	if !strings.HasPrefix(f.s[i:], "://") {
		return
	}
	from := i + len("://")
	authority := f.s[from:]
	if n := strings.IndexAny(authority, "/?#\\ \t\r\n\"'`<>["); n >= 0 {
		authority = authority[:n]
	}
	user, _, found := strings.Cut(authority, "@")
	if !found {
		return
	}
	to := from + strings.LastIndexByte(authority, '@')
	switch user, word, has := strings.Cut(user, ":"); {
	case has && word != "":
		f.take(span{from + len(user) + 1, to, "url-password"})
	case !has && len(user) >= leastUser && dense(user):
		f.take(span{from, to, "url-password"})
	}
}
