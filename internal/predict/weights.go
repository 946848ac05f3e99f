package predict

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// hash names a feature, or a thing that is only ever compared.
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

// Parameters of the learner.
const (
	rate       = 0.15   // the first steps are the largest
	memoryRate = 0.12   // of the features of memory: each stands for many values, so no single label moves it far
	damping    = 0.15   // of the first steps
	remember   = 0.9995 // of the squared gradients after the next: what has changed is still learned after years
	maxWeight  = 8
	maxWeights = 1 << 17
	maxLabels  = 1 << 13
)

// weight is that of one feature.
type weight struct {
	w, seen float32 // seen: sum of squared gradients, the older ones counting less
}

// weights are a logistic regression over hashed features. Each weight moves at a pace
// of its own, the slower the more it has learned: FTRL-proximal (McMahan et al. 2013)
// without its L1 term, by which no weight would be zero here, comes to this.
type weights struct {
	of     map[hash]weight
	labels []label // since the state was loaded or kept last, oldest first; of more than maxLabels the latest
}

// label is what came of one candidate.
type label struct {
	base     float64
	features []hash
	hit      bool
	rate     float64
}

// logit is what the features come to, from a base on.
func (m *weights) logit(base float64, features []hash) float64 {
	for _, f := range features {
		base += float64(m.of[f].w)
	}
	return base
}

// learn moves the weights of the features towards the outcome.
func (m *weights) learn(l label) {
	if len(l.features) == 0 {
		return
	}
	g := squash(m.logit(l.base, l.features))
	if l.hit {
		g--
	}
	for _, f := range l.features {
		w := m.of[f]
		w.seen = w.seen*remember + float32(g*g)
		step := l.rate * g / (damping + math.Sqrt(float64(w.seen)))
		w.w = min(max(w.w-float32(step), -maxWeight), maxWeight)
		m.of[f] = w
	}
	m.bound()
	if m.labels = append(m.labels, l); len(m.labels) > maxLabels {
		m.labels = slices.Delete(m.labels, 0, maxLabels/4)
	}
}

// plus learns from the labels that another process, or this one, has had since it loaded its
// weights. The sum of two processes' steps would be beyond what either saw, as each took the
// largest ones first, and their mean as if only one of them had seen anything.
func (m *weights) plus(o *weights) {
	for _, l := range o.labels {
		m.learn(l)
	}
}

// bound forgets the quarter of the weights that say least, if there are too many.
func (m *weights) bound() {
	if len(m.of) <= maxWeights {
		return
	}
	type one struct {
		says float32
		f    hash
	}
	all := make([]one, 0, len(m.of))
	for f, w := range m.of {
		all = append(all, one{max(w.w, -w.w), f})
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.says, b.says), cmp.Compare(a.f, b.f)) })
	for _, o := range all[:len(all)-maxWeights*3/4] {
		delete(m.of, o.f)
	}
}

// memory are the features by which the logit of a likely candidate is lowered, one for each
// step of what is remembered of its values. Values that came up in one task say less of the
// next than the labels so far made them seem, so what is learned for a step is how the
// candidates that reach it came out. A candidate with new values reaches none: a new upstream
// loses nothing by it.
func memory(logit, ofValues float64) (reached []hash) {
	if logit < stretch(0.1) {
		return nil
	}
	for i, step := range [...]float64{0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4} {
		if ofValues >= step {
			reached = append(reached, seed.num(3000+i))
		}
	}
	return reached
}

const weightSize = 16 // bytes of a saved weight: its feature, the weight, what it has seen

func appendWeight(dst []byte, f hash, w weight) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f))
	dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(w.w))
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(w.seen))
}

// load reads weights as they are saved, without those that cannot be.
func (m *weights) load(saved []byte) {
	m.of = make(map[hash]weight, len(saved)/weightSize)
	for ; len(saved) >= weightSize && len(m.of) < maxWeights; saved = saved[weightSize:] {
		w := math.Float32frombits(binary.LittleEndian.Uint32(saved[8:]))
		seen := math.Float32frombits(binary.LittleEndian.Uint32(saved[12:]))
		if math.Abs(float64(w)) <= maxWeight && (&sum{Now: seen}).valid() {
			m.of[hash(binary.LittleEndian.Uint64(saved))] = weight{w, seen}
		}
	}
}

// stretch is the logit of a probability, within bounds; squash is its inverse.
func stretch(p float64) float64 {
	p = min(max(p, 1e-4), 1-1e-4)
	return math.Log(p / (1 - p))
}

func squash(x float64) float64 {
	return 1 / (1 + math.Exp(-min(max(x, -12), 12)))
}
