package predict

import "slices"

// Bounds and weights of the counts.
const (
	priorWeight = 4      // how many labels what is known more generally is worth
	keep        = 0.9995 // what is left of a label after the next one
	maxCounts   = 1 << 17
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
// more: the two parameters of a Beta posterior without its prior.
type beta struct {
	hits, n           float32
	freshHits, freshN float32 // since the state was loaded: what a merge adds
}

// mean is the posterior mean under a prior worth priorWeight labels.
func (b beta) mean(prior float64) float64 {
	return (float64(b.hits) + priorWeight*prior) / (float64(b.n) + priorWeight)
}

// label counts one outcome.
func (b *beta) label(hit bool) {
	b.hits *= keep
	b.n = b.n*keep + 1
	b.freshN++
	if hit {
		b.hits++
		b.freshHits++
	}
}

// counts are the betas of all contexts, bounded.
type counts struct {
	m       map[hash]beta
	dropped int // contexts evicted
}

func newCounts() counts { return counts{m: map[hash]beta{}} }

func (c *counts) label(h hash, hit bool) {
	b := c.m[h]
	b.label(hit)
	c.m[h] = b
	if len(c.m) > maxCounts {
		c.evict()
	}
}

// evict forgets the quarter that says least: few labels, and no hit among them.
func (c *counts) evict() {
	worth := make([]float32, 0, len(c.m))
	for _, b := range c.m {
		worth = append(worth, b.worth())
	}
	slices.Sort(worth)
	limit := worth[len(worth)/4]
	excess := len(c.m) - maxCounts*3/4
	for h, b := range c.m {
		if b.worth() <= limit && excess > 0 {
			delete(c.m, h)
			c.dropped++
			excess--
		}
	}
}

func (b beta) worth() float32 { return b.n + 16*b.hits }
