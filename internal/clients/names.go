package clients

import (
	"slices"
	"strings"
)

// secretWords are words of names whose values are secrets. More of them are here than
// in what scrubs records: there a harmless value is lost, here it becomes a variable.
var secretWords = []string{
	"token", "tokens", "key", "keys", "secret", "secrets", "password", "passwords", "passwd", "pwd", "pass", "passphrase", "passcode",
	"pat", "auth", "authorization", "authentication", "credential", "credentials", "creds", "cred", "cookie", "cookies", "jwt", "bearer",
	"session", "sid", "signature", "sig", "hmac", "otp", "totp", "pin", "dsn", "salt", "mnemonic", "license", "licence",
}

// secretEnds are what such names end in where their words stand together.
var secretEnds = []string{"token", "key", "secret", "password", "passwd", "pwd", "auth", "connectionstring", "credentials", "cookie"}

// toldWords, at the end of a name, say that its value is about a secret, and is none.
var toldWords = []string{
	"file", "path", "dir", "directory", "folder", "url", "uri", "host", "hostname", "port", "id", "ids", "name", "type", "mode", "ttl", "timeout",
	"count", "limit", "max", "min", "size", "version", "enabled", "disabled", "region", "format", "header", "prefix", "scope", "scopes", "policy", "expiry", "level",
}

// tellsSecret reports whether the value of what is called so has to be taken for a
// secret.
func tellsSecret(name string) bool {
	all := words(name)
	if len(all) == 0 || len(all) > 1 && slices.Contains(toldWords, all[len(all)-1]) {
		return false
	}
	if slices.ContainsFunc(all, func(w string) bool { return slices.Contains(secretWords, w) }) {
		return true
	}
	joined := strings.Join(all, "")
	return slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(joined, end) })
}

// tellsOther reports whether a name says that its value only names something.
func tellsOther(name string) bool {
	all := words(name)
	return len(all) > 1 && slices.Contains(toldWords, all[len(all)-1])
}

// words are those of a name, in small letters: API_KEY, api-key, apiKey and APIKey
// have the same two.
func words(name string) []string {
	var all []string
	var word []byte
	end := func() {
		if len(word) > 0 {
			all = append(all, strings.ToLower(string(word)))
			word = nil
		}
	}
	for i := range len(name) {
		c := name[i]
		if !isLetter(c) {
			end()
			continue
		}
		if isUpper(c) && i > 0 && (!isUpper(name[i-1]) || i+1 < len(name) && isLetter(name[i+1]) && !isUpper(name[i+1])) {
			end()
		}
		word = append(word, c)
	}
	end()
	return all
}

func isUpper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return isUpper(c) || c >= 'a' && c <= 'z' }
