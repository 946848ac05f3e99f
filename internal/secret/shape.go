package secret

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// alphabet names a set of characters that secrets are made of. None has = or :,
// so that none reaches from a name into its value.
type alphabet uint8

const (
	upper   alphabet = 1 << iota // A-Z 0-9
	hex                          // 0-9 a-f
	alnum                        // A-Z a-z 0-9
	word                         // alnum and _ -
	dotted                       // word and .
	radix64                      // alnum and + /
	token                        // dotted and + / ~: what may follow Bearer

	alphabets = iota
)

// shape is what a kind of secret looks like: a beginning, and so many characters
// of an alphabet behind it.
type shape struct {
	prefix, rule string
	of           alphabet
	min, max     int  // characters behind the prefix; max 0: any number
	dense        bool // what stands behind the prefix must look random, for the prefix alone says little
	sum          bool // = and eight digits of a checksum may follow
	behind       byte // that must stand before it; 0: anything but a letter or digit
}

//go:embed shapes.txt
var shapesFile string

// table is what the file of shapes is turned into when it is needed first.
type table struct {
	first [256][]shape  // first byte → shapes, the longest prefix first
	in    [256]alphabet // byte → the alphabets that it is in
	rules []string      // the names of all rules: nothing else in brackets is a mark
}

var shapes = sync.OnceValue(func() *table {
	t := &table{rules: []string{"jwt", "bearer", "basic", "private-key", "url-password", "aws-secret", "azure-secret", "terraform-token", everything, configured}}
	names := map[string]alphabet{"upper": upper, "hex": hex, "alnum": alnum, "word": word, "dotted": dotted, "radix64": radix64, "token": token}
	lines := bufio.NewScanner(strings.NewReader(shapesFile))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[0] == "#" {
			continue
		}
		s := shape{prefix: fields[0], rule: fields[1], of: names[fields[2]]}
		if least, most, open := strings.Cut(fields[3], "-"); open {
			_, _ = fmt.Sscan(least, &s.min)
			_, _ = fmt.Sscan(most, &s.max) // "": any number
		} else {
			_, _ = fmt.Sscan(least, &s.min)
			s.max = s.min
		}
		s.dense, s.sum = slices.Contains(fields, "dense"), slices.Contains(fields, "sum")
		if last := fields[len(fields)-1]; strings.HasPrefix(last, "behind=") {
			s.behind = last[len(last)-1]
		}
		t.first[s.prefix[0]] = append(t.first[s.prefix[0]], s)
		t.rules = append(t.rules, s.rule)
	}
	for _, all := range t.first {
		slices.SortStableFunc(all, func(a, b shape) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	for c := range t.in {
		t.in[c] = alphabetsOf(byte(c))
	}
	for k := range kinds {
		t.rules = append(t.rules, kinds[k].rule)
	}
	return t
})

func alphabetsOf(c byte) (in alphabet) {
	switch {
	case c >= '0' && c <= '9':
		in = upper | hex | alnum
	case c >= 'a' && c <= 'f':
		in = hex | alnum
	case c >= 'a' && c <= 'z':
		in = alnum
	case c >= 'A' && c <= 'Z':
		in = upper | alnum
	}
	if in != 0 {
		in |= word | dotted | radix64 | token
	}
	switch c {
	case '_', '-':
		in |= word | dotted | token
	case '.':
		in |= dotted | token
	case '+', '/':
		in |= radix64 | token
	case '~':
		in |= token
	}
	return in
}

// finder finds the secrets of a text that have a shape of their own.
type finder struct {
	*table
	s    string
	runs [alphabets]run // the last of each alphabet that was looked at
}

// run is a part of a text that is all of one alphabet.
type run struct{ from, to int }

// shaped returns the secrets and marks of a text, in order and apart.
func shaped(s string) []span {
	f := finder{table: shapes(), s: s}
	found := f.forms()
	for i := 0; i < len(s); i++ {
		if p := f.at(i); p.to > 0 {
			found = append(found, p)
			i = p.to - 1
		}
	}
	return apart(found)
}

// apart puts spans in order. Of two that overlap one goes from where the first begins to
// where the last ends.
func apart(all []span) []span {
	slices.SortStableFunc(all, func(a, b span) int { return a.from - b.from })
	var out []span
	for _, p := range all {
		if n := len(out); n > 0 && p.from < out[n-1].to {
			out[n-1].to = max(out[n-1].to, p.to)
			out[n-1].rule = cmp.Or(out[n-1].rule, p.rule)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// at is the secret or the mark that begins at i.
func (f *finder) at(i int) span {
	if f.s[i] == '[' {
		if n := marked(f.s[i:]); n > 0 {
			return span{from: i, to: i + n}
		}
	}
	if !f.fresh(i) {
		return span{}
	}
	if f.s[i]|0x20 == 'b' {
		if p := f.scheme(i); p.to > 0 {
			return p
		}
	}
	for k := range f.first[f.s[i]] {
		sh := &f.first[f.s[i]][k]
		if !strings.HasPrefix(f.s[i:], sh.prefix) || sh.behind != 0 && (i == 0 || f.s[i-1] != sh.behind) {
			continue
		}
		from := i + len(sh.prefix)
		if to := f.end(sh.of, from); f.fits(sh, from, to) {
			if sh.sum && to < len(f.s) && f.s[to] == '=' {
				to = min(f.end(upper, to+1), to+len("=12345678"))
			}
			return span{i, to, sh.rule}
		}
	}
	return span{}
}

// fresh reports whether a word may begin at i.
func (f *finder) fresh(i int) bool { return i == 0 || f.in[f.s[i-1]]&alnum == 0 }

func (f *finder) fits(sh *shape, from, to int) bool {
	n := to - from
	if n < sh.min || sh.max > 0 && n > sh.max {
		return false
	}
	if to < len(f.s) && f.in[f.s[to]]&alnum != 0 {
		return false // it goes on in other letters
	}
	return !sh.dense || dense(f.s[from:to])
}

// end is where the run of an alphabet ends that from stands in, from itself if it
// stands in none.
func (f *finder) end(a alphabet, from int) int {
	r := &f.runs[bits.TrailingZeros8(uint8(a))]
	if r.from <= from && from < r.to {
		return r.to
	}
	to := from
	for to < len(f.s) && f.in[f.s[to]]&a != 0 {
		to++
	}
	*r = run{from, to}
	return to
}

// marked is how long the mark is that s begins with; 0: it begins with none.
func marked(s string) int {
	rest, ok := strings.CutPrefix(s, markBegin)
	if !ok {
		return 0
	}
	rule, _, ok := strings.Cut(rest[:min(len(rest), longestRule+len(markEnd))], markEnd)
	if !ok || !slices.Contains(shapes().rules, rule) {
		return 0
	}
	return len(markBegin) + len(rule) + len(markEnd)
}

const (
	longestRule = 32
	enough      = 64 // bytes of a text that tell whether it looks random
)

// dense reports whether a text looks random: digits and letters, and few of them
// twice.
func dense(s string) bool {
	s = s[:min(len(s), enough)]
	digits := 0
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			digits++
		}
	}
	return digits >= 2 && len(s)-digits >= 2 && disorder(s) >= min(3, 0.75*math.Log2(float64(len(s))))
}

// disorder is the entropy of the bytes of a text, in bits per byte.
func disorder(s string) float64 {
	var n [256]int
	for i := range len(s) {
		n[s[i]]++
	}
	sum := 0.0
	for _, c := range n {
		if c > 0 {
			p := float64(c) / float64(len(s))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}
