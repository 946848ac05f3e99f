package predict

import (
	"cmp"
	"math"
	"slices"
)

// hash identifies a feature, or a value that is only compared.
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
	learningRate  = 0.13   // of candidates; per-weight steps decrease as gradients accumulate
	shrinkageRate = 0.2    // of shrinkage
	damping       = 0.15   // added to the root of the gradients; bounds the first steps
	forgetting    = 0.9999 // of squared gradients per update: old weights still adapt, but not to one session
	decay         = 0.9995 // of other counts per update
	maxWeight     = 8
	maxWeights    = 1 << 17
)

// weight is the weight of one feature.
type weight struct {
	W, Gradients float32 // Gradients: decayed sum of squared gradients
}

// weights are a logistic regression over hashed features with per-weight learning rates, as
// in FTRL-proximal (McMahan et al. 2013) without the L1 term, which would zero no weight here.
type weights map[hash]weight

// logit returns the sum of a base and the weights of the features.
func (m weights) logit(base float64, features []hash) float64 {
	for _, f := range features {
		base += float64(m[f].W)
	}
	return base
}

// learn updates the weights of the features of one candidate by its label.
func (m weights) learn(base float64, features []hash, hit bool, rate float64) {
	g := sigmoid(m.logit(base, features))
	if hit {
		g--
	}
	for _, f := range features {
		w := m[f]
		w.Gradients = w.Gradients*forgetting + float32(g*g)
		step := rate * g / (damping + math.Sqrt(float64(w.Gradients)))
		w.W = min(max(w.W-float32(step), -maxWeight), maxWeight)
		m[f] = w
	}
	if len(m) > maxWeights {
		m.evict()
	}
}

// evict drops the quarter of the weights with the smallest absolute values.
func (m weights) evict() {
	type sized struct {
		size float64
		of   hash
	}
	all := make([]sized, 0, len(m))
	for f, w := range m {
		all = append(all, sized{math.Abs(float64(w.W)), f})
	}
	slices.SortFunc(all, func(a, b sized) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.of, b.of)) })
	for _, w := range all[:len(all)-maxWeights*3/4] {
		delete(m, w.of)
	}
}

// shrinkage returns the features that lower the logit of a probable candidate: one for each
// threshold that the contribution of its values reaches, and if the session has made the call
// before, one for each that the logit reaches. Values of one task, and repeats, are less
// predictive than their labels suggest, so each feature learns how candidates above its threshold
// turned out. A new call with new values has no such features.
func shrinkage(logit, ofValues float64, again bool) (reached []hash) {
	if logit < logitOf(0.1) {
		return nil
	}
	for i, step := range [...]float64{0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4} {
		if ofValues >= step {
			reached = append(reached, seed.num(3000+i))
		}
	}
	for i, step := range [...]float64{0.1, 0.2, 0.3, 0.5, 0.7} {
		if again && logit >= logitOf(step) {
			reached = append(reached, seed.num(3100+i))
		}
	}
	return reached
}

// logitOf returns the logit of a probability, clamped; sigmoid is its inverse.
func logitOf(p float64) float64 {
	p = min(max(p, 1e-4), 1-1e-4)
	return math.Log(p / (1 - p))
}

func sigmoid(x float64) float64 {
	return 1 / (1 + math.Exp(-min(max(x, -12), 12)))
}
