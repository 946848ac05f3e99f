package secret

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// shape is the form of a maker's tokens: a prefix and a number of characters of a set.
type shape struct {
	prefix, rule string
	of           string // allowed characters; never = or :, so that a token cannot extend from a name into its value
	min, max     int    // characters after the prefix; max zero means any number
	dense        bool   // the rest must look random, since the prefix alone is weak evidence
}

const (
	letters      = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + lowerCase
	lowerCase    = "abcdefghijklmnopqrstuvwxyz"
	alphanumeric = letters + digits
)

// charsets holds the sets that shapes.txt names.
var charsets = map[string]string{
	"alnum": alphanumeric, "upper": letters[:26] + digits, "hex": digits + "abcdef",
	"word": alphanumeric + "_-", "dotted": alphanumeric + "_-.", "radix64": alphanumeric + "+/", "token": alphanumeric + "_-.+/~",
}

//go:embed shapes.txt
var shapesFile string

// shapes parses the file in the first call: first byte → shapes, longest prefix first.
var shapes = sync.OnceValue(func() (first [256][]shape) {
	for line := range strings.Lines(shapesFile) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] == "#" {
			continue
		}
		s := shape{prefix: f[0], rule: f[1], of: charsets[f[2]], dense: slices.Contains(f, "dense")}
		if n, _ := fmt.Sscanf(f[3], "%d-%d", &s.min, &s.max); n == 1 && !strings.Contains(f[3], "-") {
			s.max = s.min
		}
		first[s.prefix[0]] = append(first[s.prefix[0]], s)
	}
	for _, all := range first {
		slices.SortStableFunc(all, func(a, b shape) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	return first
})

// findShapes finds the tokens in a text by their shapes.
func findShapes(s string) (found []span) {
	first := shapes()
	for i := 0; i < len(s); i++ {
		if i > 0 && isAlnum(s[i-1]) {
			continue
		}
		for _, sh := range first[s[i]] {
			if rest, ok := strings.CutPrefix(s[i:], sh.prefix); ok && sh.fits(rest) > 0 {
				found = append(found, span{i, len(s) - len(rest) + sh.fits(rest), sh.rule, ""})
				i = found[len(found)-1].to - 1
				break
			}
		}
	}
	return found
}

// fits returns the number of characters after the prefix that belong to a token, or 0. It
// examines a bounded part of a text that is not a token.
func (sh *shape) fits(s string) int {
	part := s[:min(len(s), max(maxDense, sh.min, sh.max+1))]
	n := len(part) - len(strings.TrimLeft(part, sh.of))
	switch {
	case n < sh.min || sh.max > 0 && n > sh.max || sh.dense && !dense(part[:n]):
		return 0
	case sh.max == 0:
		n = len(s) - len(strings.TrimLeft(s, sh.of))
	}
	if n < len(s) && isAlnum(s[n]) {
		return 0 // other letters follow
	}
	return n
}

func isAlnum(c byte) bool { return letter(c) || digit(c) }

const maxDense = 64 // bytes that dense examines

// dense reports whether a text looks random: it has digits, letters and many different
// characters.
func dense(s string) bool {
	s = s[:min(len(s), maxDense)]
	seen := make(map[byte]bool)
	n := 0
	for i := range len(s) {
		seen[s[i]] = true
		if digit(s[i]) {
			n++
		}
	}
	return n >= 2 && len(s)-n >= 2 && len(seen) >= min(8, len(s)/2)
}
