package predict

import (
	"cmp"
	"math"
	"slices"
)

// Bounds and weights of the counts.
const (
	keep      = 0.9995 // what is left of a label after the next one
	maxCounts = 1 << 17
	expecting = 0.5 // hits, expected and seen, that every context begins with
)

// hash names a context in which something was counted.
type hash uint64

const seed hash = 14695981039346656037

func (h hash) str(s string) hash {
	for i := range len(s) {
		h = (h ^ hash(s[i])) * 1099511628211
	}
	return (h ^ 0xff) * 1099511628211
}

func (h hash) num(n int) hash {
	return h.mix(hash(n) + 0x9e3779b97f4a7c15)
}

func (h hash) mix(x hash) hash {
	h ^= x
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// beta is how often something was true of how many labels, newer ones counting
// more: the two parameters of a Beta posterior without its prior. Of some contexts
// n is not the labels but what they come to together: lists, or expected hits.
type beta struct {
	hits, n           float32
	freshHits, freshN float32 // since the state was loaded: what a merge adds
}

// mean is the posterior mean under a prior worth a number of labels.
func (b beta) mean(prior, worth float64) float64 {
	return (float64(b.hits) + worth*prior) / (float64(b.n) + worth)
}

// lift is by how much more was hit than expected, as a logarithm.
func (b beta) lift() float64 {
	return math.Log((float64(b.hits) + expecting) / (float64(b.n) + expecting))
}

// label counts one outcome.
func (b *beta) label(hit bool, weight float32) {
	b.hits *= keep
	b.n = b.n*keep + weight
	b.freshN += weight
	if hit {
		b.hits++
		b.freshHits++
	}
}

// worth is what eviction goes by.
func (b beta) worth() float32 { return b.n + 16*b.hits }

// counts are the betas of all contexts, bounded.
type counts struct {
	m       map[hash]beta
	dropped int // contexts evicted
}

func newCounts() counts { return counts{m: map[hash]beta{}} }

func (c *counts) label(h hash, hit bool, weight float32) {
	b := c.m[h]
	b.label(hit, weight)
	c.m[h] = b
	if len(c.m) > maxCounts {
		c.evict()
	}
}

// evict forgets the quarter that says least: few labels, and no hit among them.
func (c *counts) evict() {
	type one struct {
		worth float32
		h     hash
	}
	all := make([]one, 0, len(c.m))
	for h, b := range c.m {
		all = append(all, one{b.worth(), h})
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.worth, b.worth), cmp.Compare(a.h, b.h)) })
	for _, o := range all[:len(all)-maxCounts*3/4] {
		delete(c.m, o.h)
		c.dropped++
	}
}
