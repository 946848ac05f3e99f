package predict

import (
	"math"
	"slices"
	"strings"
)

// secret reports whether arguments hold what looks like a secret, by the name of
// an argument or by the look of a value.
func hasSecret(slots []slot) bool {
	for _, a := range slots {
		if a.value.kind != word && secretName(a.name) || secretText(a.value.text) {
			return true
		}
	}
	return false
}

// secretNames are what the names of secrets have in them, without what stands
// between words.
var secretNames = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "credential", "privatekey",
	"authorization", "cookie", "bearer", "signature", "sessionid", "accesskey",
}

// secretWords are whole words of such names.
var secretWords = []string{"pass", "pwd", "pin", "otp", "auth", "sig", "session"}

func secretName(name string) bool {
	name = strings.ToLower(name)
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune("_- ", r) {
			return -1
		}
		return r
	}, name)
	for _, part := range secretNames {
		if strings.Contains(plain, part) {
			return true
		}
	}
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r < 'a' || r > 'z' }) {
		if slices.Contains(secretWords, word) {
			return true
		}
	}
	return false
}

// tells reports whether what is kept of a source could give a secret away: what
// stands in it, or what it is the value of.
func (s *valueSource) tells() bool {
	return slices.ContainsFunc([]string{s.Name, s.Base, s.Cut, s.Add, s.Value.text}, secretText)
}

// secretText reports whether a value looks like a key: one of the known
// beginnings, or a long run of letters and digits without any order.
func secretText(s string) bool {
	for _, begin := range []string{"ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xox", "AKIA", "AIza", "ASIA", "eyJ", "bearer ", "Bearer ", "Basic ", "-----BEGIN"} {
		if strings.Contains(s, begin) {
			return true
		}
	}
	for run := range strings.FieldsFuncSeq(s, func(r rune) bool { return !isKey(r) }) {
		if len(run) >= 24 && disorder(run) > 3.7 && mixed(run) {
			return true
		}
	}
	return strings.Contains(s, "://") && strings.Contains(s, "@")
}

func isKey(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '+' || r == '='
}

// mixed reports whether a run has digits and letters.
func mixed(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.ContainsAny(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz")
}

// disorder is the entropy of the bytes of a text, in bits.
func disorder(s string) float64 {
	var n [256]int
	for i := range len(s) {
		n[s[i]]++
	}
	bits := 0.0
	for _, c := range n {
		if c > 0 {
			p := float64(c) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
