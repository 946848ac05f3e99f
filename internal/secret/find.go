package secret

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// finder finds the secrets of a text that have a shape of their own. It goes from
// right to left and looks at each run of an alphabet once. Where one secret seems
// to stand in another, the whole is tried first, and then what is left before the
// part: so it decides on a text with marks as it did on the one with the secrets.
type finder struct {
	*index
	s     string
	runs  [alphabets]run
	found []span // the nearest last
	armor int    // the next end of an armor; see block
}

// run is a part of a text that is all of one alphabet.
type run struct{ from, to int }

// index is what the tables are turned into when they are needed first.
type index struct {
	first [256][]shape  // first byte → shapes, the longest prefix first
	in    [256]alphabet // byte → the alphabets that it is in
}

var indexed = sync.OnceValue(func() *index {
	x := new(index)
	for _, s := range shapes {
		x.first[s.prefix[0]] = append(x.first[s.prefix[0]], s)
	}
	for _, all := range x.first {
		slices.SortStableFunc(all, func(a, b shape) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	for c := range x.in {
		x.in[c] = alphabetsOf(byte(c))
	}
	return x
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

// shaped returns the secrets and marks of a text, in order and apart.
func shaped(s string) []span {
	f := finder{index: indexed(), s: s, armor: len(s)}
	for i := len(s) - 1; i >= 0; i-- {
		switch c := s[i]; c {
		case '[':
			f.mark(i)
		case '-':
			f.block(i)
		case ':':
			f.url(i)
		case '~':
			f.azure(i)
		case '.':
			f.atlas(i)
		case 'Z':
			if f.fresh(i) && !f.encodedJWT(i) {
				f.shape(i)
			}
		case 'b', 'B':
			if f.fresh(i) && !f.scheme(i) {
				f.shape(i)
			}
		case 'e':
			if f.fresh(i) && !f.jwt(i) {
				f.shape(i)
			}
		default:
			if len(f.first[c]) > 0 && f.fresh(i) {
				f.shape(i)
			}
		}
		i = min(i, f.next()) // what has its sign within
	}
	slices.Reverse(f.found)
	return f.found
}

// fresh reports whether a word may begin at i.
func (f *finder) fresh(i int) bool { return i == 0 || f.in[f.s[i-1]]&alnum == 0 }

// take adds a secret. What was found in it is part of it, and what was found
// before it stays.
func (f *finder) take(p span) {
	n := len(f.found)
	for n > 0 && f.found[n-1].from < p.to {
		n--
		if f.found[n].to > p.from {
			p.to = max(p.to, f.found[n].to)
		}
	}
	before := slices.DeleteFunc(slices.Clone(f.found[n:]), func(o span) bool { return o.to > p.from })
	f.found = append(append(f.found[:n], p), before...)
}

// next is where the nearest span begins; the end of the text if there is none.
func (f *finder) next() int {
	if n := len(f.found); n > 0 {
		return f.found[n-1].from
	}
	return len(f.s)
}

// shape takes the secret of the table that begins at i.
func (f *finder) shape(i int) {
	all := f.first[f.s[i]]
	for k := range all {
		sh := &all[k]
		if !strings.HasPrefix(f.s[i:], sh.prefix) || sh.behind != 0 && (i == 0 || f.s[i-1] != sh.behind) {
			continue
		}
		from := i + len(sh.prefix)
		for to := range f.ends(sh.of, from) {
			if f.fits(sh, from, to) {
				if sh.sum && to < len(f.s) && f.s[to] == '=' {
					to = min(f.end(upper, to+1), to+len("=12345678"))
				}
				f.take(span{i, to, sh.rule})
				return
			}
		}
	}
}

func (f *finder) fits(sh *shape, from, to int) bool {
	n := to - from
	if n < sh.min || sh.max > 0 && n > sh.max {
		return false
	}
	if to < len(f.s) && to != f.next() && f.in[f.s[to]]&alnum != 0 {
		return false // it goes on in other letters
	}
	return !sh.dense || dense(f.s[from:to])
}

// ends are where the run of an alphabet may end that begins at from: as it is, and
// where something was found in it.
func (f *finder) ends(a alphabet, from int) iter.Seq[int] {
	return func(yield func(int) bool) {
		to := f.end(a, from)
		if next := max(from, f.next()); yield(to) && next < to {
			yield(next)
		}
	}
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
		if to == r.from && r.from < r.to {
			to = r.to
			break
		}
		to++
	}
	*r = run{from, to}
	return to
}

// mark takes the mark that begins at i.
func (f *finder) mark(i int) {
	if n := marked(f.s[i:]); n > 0 {
		f.take(span{from: i, to: i + n})
	}
}

// marked is how long the mark is that s begins with; 0: it begins with none.
func marked(s string) int {
	rest, ok := strings.CutPrefix(s, markBegin)
	if !ok {
		return 0
	}
	rule, _, ok := strings.Cut(rest[:min(len(rest), longestRule+len(markEnd))], markEnd)
	if !ok || !slices.Contains(rules(), rule) {
		return 0
	}
	return len(markBegin) + len(rule) + len(markEnd)
}

const longestRule = 32

// rules are the names of all rules: nothing else in brackets is taken for a mark.
var rules = sync.OnceValue(func() []string {
	all := []string{"jwt", "bearer", "basic", "private-key", "url-password", "aws-secret", "azure-secret", "terraform-token", everything, configured}
	for _, s := range shapes {
		all = append(all, s.rule)
	}
	for k := range kinds {
		all = append(all, kinds[k].rule)
	}
	slices.Sort(all)
	return slices.Compact(all)
})

const enough = 64 // bytes of a text that tell whether it looks random

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
