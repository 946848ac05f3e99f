package predict

import (
	"math"
	"strings"
)

// secret reports whether arguments hold what looks like a secret, by the name of
// an argument or by the look of a value.
func secret(slots []slot) bool {
	for _, a := range slots {
		if a.value.kind == text && (secretName(a.name) || secretText(a.value.text)) {
			return true
		}
	}
	return false
}

func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"password", "passwd", "secret", "token", "apikey", "api_key", "credential", "private_key", "authorization"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// secretText reports whether a value looks like a key: one of the known
// beginnings, or a long run of letters and digits without any order.
func secretText(s string) bool {
	for _, begin := range []string{"ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xox", "AKIA", "eyJ", "Bearer ", "-----BEGIN"} {
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
