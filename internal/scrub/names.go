package scrub

import (
	"slices"
	"strings"
)

// kind is what a name says of its value.
type kind uint8

const (
	plain kind = iota // nothing
	password
	pwd // a password, or the working directory
	secret
	key
	credential
	authorization
	cookie
	pin
	tokenKind
	signature
	session
	bare // "key" or "auth" alone, which mostly mean something else
)

// kinds say what the values of each kind look like. What is sure is a secret
// whatever it looks like; the others are names of harmless things too, so that
// their values have to look like secrets.
var kinds = [...]struct {
	rule string
	sure bool
}{
	password:      {"password", true},
	pwd:           {"password", true},
	secret:        {"secret", true},
	key:           {"key", true},
	credential:    {"credential", true},
	authorization: {"authorization", true},
	cookie:        {"cookie", false},
	pin:           {"pin", false},
	tokenKind:     {"token", false},
	signature:     {"signature", false},
	session:       {"session", false},
	bare:          {"key", false},
}

// sure are parts of names that say it by themselves, in the name without what
// stands between its words.
var sure = []struct {
	part string
	kind kind
}{
	{"password", password}, {"passwd", password}, {"passphrase", password}, {"passcode", password}, {"passwort", password}, {"kennwort", password}, {"contrasena", password}, {"motdepasse", password},
	{"apikey", key}, {"privatekey", key}, {"accesskey", key}, {"accountkey", key}, {"secretkey", key}, {"signingkey", key}, {"encryptionkey", key}, {"masterkey", key}, {"authkey", key}, {"appkey", key}, {"servicekey", key}, {"licensekey", key},
	{"secret", secret}, {"mnemonic", secret}, {"seedphrase", secret}, {"recoveryphrase", secret}, {"recoverycode", secret},
	{"credential", credential}, {"authorization", authorization}, {"authorisation", authorization},
}

// unsure are words of names that say it if the value agrees.
var unsure = map[string]kind{
	"pwd": pwd, "pass": tokenKind, "pat": tokenKind,
	"token": tokenKind, "tokens": tokenKind, "jwt": tokenKind, "bearer": tokenKind, "auth": bare, "key": bare, "keys": bare,
	"cookie": cookie, "cookies": cookie, "sid": session, "session": session, "sessionid": session, "sessid": session,
	"sig": signature, "signature": signature, "hmac": signature,
	"pin": pin, "otp": pin, "totp": pin, "cvv": pin, "cvc": pin,
}

// about are last words of names whose values tell something of a secret, and are
// none: token_count, secret_name, password_policy.
var about = []string{
	"age", "algorithm", "arn", "at", "budget", "count", "counts", "created", "date", "description", "disabled", "enabled", "env", "error",
	"expiration", "expires", "expiry", "field", "file", "filename", "format", "help", "hint", "id", "ids", "in", "index", "kind", "label",
	"len", "length", "limit", "manager", "max", "message", "min", "name", "names", "path", "placeholder", "policy", "prefix", "provider", "ref", "required",
	"reset", "scope", "scopes", "size", "status", "store", "strength", "time", "timestamp", "title", "ttl", "type", "types", "updated",
	"uri", "url", "usage", "valid", "var", "version",
}

// counted are words that make a token one of a text or of a list, or a key one of
// a table.
var counted = []string{
	"bos", "cached", "change", "completion", "context", "continuation", "cursor", "delta", "eos", "first", "foreign", "group", "idempotency", "input", "last",
	"mask", "max", "min", "next", "num", "object", "output", "pad", "page", "partition", "per", "prev", "previous", "primary", "progress", "prompt", "public",
	"publishable", "reasoning", "resume", "routing", "skip", "sort", "start", "stop", "sync", "total", "unk", "watch",
}

const longestName = 64 // bytes of a name that are looked at: the last ones

// classify says what a name says of its value.
func classify(name string) kind {
	var few [8]string
	all := words(few[:0], name)
	if n := len(all); n > 1 && slices.Contains(about, all[n-1]) {
		return plain
	}
	return kindOf(all)
}

// phrase says the same of a description, such as "Password field": it may end in
// any word.
func phrase(text string) kind {
	var few [8]string
	return kindOf(words(few[:0], text))
}

// tells reports whether a name is that of something told of a secret.
func tells(name string) bool {
	var few [8]string
	all := words(few[:0], name)
	return len(all) > 0 && slices.Contains(about, all[len(all)-1])
}

func kindOf(words []string) kind {
	joined := strings.Join(words, "")
	if len(joined) < 3 {
		return plain
	}
	for _, s := range sure {
		if strings.Contains(joined, s.part) {
			return s.kind
		}
	}
	if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(counted, w) }) {
		return plain
	}
	for _, w := range slices.Backward(words) {
		if k := unsure[w]; k != plain {
			return k
		}
	}
	if strings.HasSuffix(joined, "token") {
		return tokenKind
	}
	return plain
}

// words splits a name, be it written like_this, like-this, likeThis or LikeTHIS2,
// into words in small letters. Of a long one only the end is looked at.
func words(dst []string, name string) []string {
	name = name[max(0, len(name)-longestName):]
	from := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && letter(name[i]) && !(i > from && hump(name, i)) {
			continue
		}
		if i > from {
			dst = append(dst, strings.ToLower(name[from:i]))
		}
		from = i
		if i < len(name) && !letter(name[i]) {
			from++
		}
	}
	return dst
}

func letter(c byte) bool  { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func capital(c byte) bool { return c >= 'A' && c <= 'Z' }
func small(c byte) bool   { return c >= 'a' && c <= 'z' }
func hump(s string, i int) bool { // reports whether a new word begins at the letter s[i]
	return capital(s[i]) && (small(s[i-1]) || i+1 < len(s) && small(s[i+1]))
}

// value reports whether a text is a secret if a name of kind k stands before it.
func (k kind) value(s string) bool {
	switch {
	case s == "" || hollow(s):
		return false
	case k == pwd && (s[0] == '/' || len(s) > 2 && s[1] == ':' && s[2] == '\\'):
		return false
	case kinds[k].sure:
		return true
	}
	switch k {
	case pin:
		return len(s) >= leastPin && len(s) <= 12 && strings.Trim(s, "0123456789") == ""
	case cookie:
		return strings.Contains(s, "=") || likely(s)
	case bare:
		return len(s) >= leastKey && !hexadecimal(s) && !strings.ContainsAny(s, " \t\r\n/:.") && dense(s)
	}
	return likely(s)
}

const (
	leastKey    = 20 // characters of what is only called a key
	leastLikely = 8
	leastPin    = 3
	surelyLong  = 20
)

// likely reports whether a text may be a token: one word, long, or with digits
// among its letters.
func likely(s string) bool {
	if len(s) < leastLikely || strings.ContainsAny(s, " \t\r\n") {
		return false
	}
	digits, letters := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case letter(c):
			letters++
		}
	}
	return digits > 0 && letters > 0 || len(s) >= surelyLong
}

// hexadecimal reports whether a text is the digest or the id of something.
func hexadecimal(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF-") == "" }

// hollow reports whether a text stands in for a secret that is not there, or names
// where it is: ****, ${TOKEN}, $TOKEN, <token>, {{ token }}, %TOKEN%.
func hollow(s string) bool {
	last := s[len(s)-1]
	switch s[0] {
	case '$':
		return strings.HasPrefix(s, "${") || strings.HasPrefix(s, "$(") || len(s) > 1 && strings.Trim(s[1:], variable) == ""
	case '<':
		return last == '>'
	case '{':
		return strings.HasPrefix(s, "{{")
	case '%':
		return len(s) > 2 && last == '%' && strings.Trim(s[1:len(s)-1], variable) == ""
	}
	return strings.Trim(s, "*•x.") == ""
}

const variable = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
