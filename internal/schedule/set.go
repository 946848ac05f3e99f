package schedule

import (
	"iter"
	"math/bits"
)

// set is a set of item indices, one bit each.
type set []uint64

// newSets makes n sets of the given words in one piece of memory.
func newSets(n, words int) []set {
	memory := make([]uint64, n*words)
	sets := make([]set, n)
	for i := range sets {
		sets[i] = memory[i*words : (i+1)*words : (i+1)*words]
	}
	return sets
}

func (s set) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }
func (s set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s set) drop(i int)     { s[i>>6] &^= 1 << (i & 63) }

func (s set) unite(t set) {
	for w := range s {
		s[w] |= t[w]
	}
}

func (s set) empty() bool { return s.size() == 0 }

func (s set) size() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// all yields the members, least first.
func (s set) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(w<<6 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
