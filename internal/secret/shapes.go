package secret

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// shape is what the tokens of one maker look like: how they begin, and so many characters of
// a set behind that.
type shape struct {
	prefix, rule string
	of           string // none has = or :, so that no token reaches from a name into its value
	min, max     int    // characters behind the prefix; max 0: any number
	dense        bool   // what stands behind the prefix must look random, for the prefix alone says little
}

const (
	letters   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + smalls
	smalls    = "abcdefghijklmnopqrstuvwxyz"
	lettersIn = letters + digits
)

// charsets are those that shapes.txt names.
var charsets = map[string]string{
	"alnum": lettersIn, "upper": letters[:26] + digits, "hex": digits + "abcdef",
	"word": lettersIn + "_-", "dotted": lettersIn + "_-.", "radix64": lettersIn + "+/", "token": lettersIn + "_-.+/~",
}

//go:embed shapes.txt
var shapesFile string

// shapes are those of the file, read when they are needed first: first byte → shapes, the
// longest prefix first.
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

// findShapes finds the tokens of a text by their shapes.
func findShapes(s string) (found []span) {
	first := shapes()
	for i := 0; i < len(s); i++ {
		if i > 0 && isAlnum(s[i-1]) {
			continue
		}
		for _, sh := range first[s[i]] {
			if behind, ok := strings.CutPrefix(s[i:], sh.prefix); ok && sh.fits(behind) > 0 {
				found = append(found, span{i, len(s) - len(behind) + sh.fits(behind), sh.rule, ""})
				i = found[len(found)-1].to - 1
				break
			}
		}
	}
	return found
}

// fits is how many characters at the beginning of what stands behind the prefix belong to a
// token; 0: it is none. Of a text that is none only a bounded part is looked at.
func (sh *shape) fits(s string) int {
	part := s[:min(len(s), max(enough, sh.min, sh.max+1))]
	n := len(part) - len(strings.TrimLeft(part, sh.of))
	switch {
	case n < sh.min || sh.max > 0 && n > sh.max || sh.dense && !dense(part[:n]):
		return 0
	case sh.max == 0:
		n = len(s) - len(strings.TrimLeft(s, sh.of))
	}
	if n < len(s) && isAlnum(s[n]) {
		return 0 // it goes on in other letters
	}
	return n
}

func isAlnum(c byte) bool { return letter(c) || digit(c) }

const enough = 64 // bytes of a text that tell whether it looks random

// dense reports whether a text looks random: digits and letters, and many different ones.
func dense(s string) bool {
	s = s[:min(len(s), enough)]
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
