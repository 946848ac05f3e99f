package secret

import (
	"cmp"
	_ "embed"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// shape is what the tokens of one maker look like: how they begin, and so many characters of
// a set behind that.
type shape struct {
	prefix, rule string
	of           charset
	min, max     int  // characters behind the prefix; max 0: any number
	dense        bool // what stands behind the prefix must look random, for the prefix alone says little
}

// charset names characters that tokens are made of. None has = or :, so that no token reaches
// from a name into its value.
type charset uint8

const (
	letters   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + smalls
	smalls    = "abcdefghijklmnopqrstuvwxyz"
	lettersIn = letters + digits
)

// charsets are those that shapes.txt names, each a bit of a charset.
var charsets = []struct{ name, chars string }{
	{"alnum", lettersIn},
	{"upper", letters[:26] + digits},
	{"hex", digits + "abcdef"},
	{"word", lettersIn + "_-"},
	{"dotted", lettersIn + "_-."},
	{"radix64", lettersIn + "+/"},
	{"token", lettersIn + "_-.+/~"},
}

const alnum charset = 1 // the first of these

//go:embed shapes.txt
var shapesFile string

// table is what the file of shapes is turned into when it is needed first.
type table struct {
	first [256][]shape // first byte → shapes, the longest prefix first
	in    [256]charset // byte → the sets that it is in
}

var shapes = sync.OnceValue(func() *table {
	t := new(table)
	named := make(map[string]charset)
	for i, c := range charsets {
		named[c.name] = 1 << i
		for _, char := range []byte(c.chars) {
			t.in[char] |= 1 << i
		}
	}
	for line := range strings.Lines(shapesFile) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] == "#" {
			continue
		}
		s := shape{prefix: f[0], rule: f[1], of: named[f[2]], dense: slices.Contains(f, "dense")}
		if n, _ := fmt.Sscanf(f[3], "%d-%d", &s.min, &s.max); n == 1 && !strings.Contains(f[3], "-") {
			s.max = s.min
		}
		t.first[s.prefix[0]] = append(t.first[s.prefix[0]], s)
	}
	for _, all := range t.first {
		slices.SortStableFunc(all, func(a, b shape) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	return t
})

// shapeFinder finds the tokens of a text by their shapes.
type shapeFinder struct {
	*table
	s    string
	runs [8]run // by charset: the last part of the text that is all of it, so that none is gone through twice
}

type run struct{ from, to int }

func findShapes(s string) (found []span) {
	f := shapeFinder{table: shapes(), s: s}
	for i := 0; i < len(s); i++ {
		if p := f.at(i); p.to > 0 {
			found = append(found, p)
			i = p.to - 1
		}
	}
	return found
}

// at is the token that begins at i.
func (f *shapeFinder) at(i int) span {
	if i > 0 && f.in[f.s[i-1]]&alnum != 0 {
		return span{}
	}
	for k := range f.first[f.s[i]] {
		sh := &f.first[f.s[i]][k]
		if !strings.HasPrefix(f.s[i:], sh.prefix) {
			continue
		}
		from := i + len(sh.prefix)
		if to := f.end(sh.of, from); f.fits(sh, from, to) {
			return span{i, to, sh.rule, ""}
		}
	}
	return span{}
}

func (f *shapeFinder) fits(sh *shape, from, to int) bool {
	n := to - from
	if n < sh.min || sh.max > 0 && n > sh.max {
		return false
	}
	if to < len(f.s) && f.in[f.s[to]]&alnum != 0 {
		return false // it goes on in other letters
	}
	return !sh.dense || dense(f.s[from:to])
}

// end is where the run of a set ends that from stands in, from itself if it stands in none.
func (f *shapeFinder) end(of charset, from int) int {
	r := &f.runs[bits.TrailingZeros8(uint8(of))]
	if r.from <= from && from < r.to {
		return r.to
	}
	to := from
	for to < len(f.s) && f.in[f.s[to]]&of != 0 {
		to++
	}
	*r = run{from, to}
	return to
}

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
