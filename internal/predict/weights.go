package predict

import (
	"cmp"
	"encoding/binary"
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
	learningRate  = 0.15   // of candidates; per-weight steps decrease as gradients accumulate
	shrinkageRate = 0.12   // of valueShrinkage; smaller, as each of its features stands for many values
	damping       = 0.15   // added to the root of the gradients; bounds the first steps
	decay         = 0.9995 // of squared gradients per update, so that old weights still adapt
	maxWeight     = 8
	maxWeights    = 1 << 17
	maxLabels     = 1 << 13
)

// weight is the weight of one feature.
type weight struct {
	w, gradients float32 // gradients: decayed sum of squared gradients
}

// weights are a logistic regression over hashed features with per-weight learning rates, as
// in FTRL-proximal (McMahan et al. 2013) without the L1 term, which would zero no weight here.
type weights struct {
	byFeature map[hash]weight
	labels    []label // since the state was last loaded or saved, oldest first; at most the newest maxLabels
}

// label is the outcome of one sample.
type label struct {
	base     float64
	features []hash
	hit      bool
	rate     float64
}

// logit returns the sum of a base and the weights of the features.
func (m *weights) logit(base float64, features []hash) float64 {
	for _, f := range features {
		base += float64(m.byFeature[f].w)
	}
	return base
}

// learn updates the weights of the features by one label.
func (m *weights) learn(l label) {
	if len(l.features) == 0 {
		return
	}
	g := sigmoid(m.logit(l.base, l.features))
	if l.hit {
		g--
	}
	for _, f := range l.features {
		w := m.byFeature[f]
		w.gradients = w.gradients*decay + float32(g*g)
		step := l.rate * g / (damping + math.Sqrt(float64(w.gradients)))
		w.w = min(max(w.w-float32(step), -maxWeight), maxWeight)
		m.byFeature[f] = w
	}
	m.evict()
	if m.labels = append(m.labels, l); len(m.labels) > maxLabels {
		m.labels = slices.Delete(m.labels, 0, maxLabels/4)
	}
}

// merge learns from the labels that a process, possibly this one, has collected since it
// loaded its weights. Adding the steps of several processes would overshoot, as each takes its
// largest steps first. Averaging them would count the labels of only one process.
func (m *weights) merge(o *weights) {
	for _, l := range o.labels {
		m.learn(l)
	}
}

// evict drops the quarter of the weights with the smallest absolute values if there are too
// many.
func (m *weights) evict() {
	if len(m.byFeature) <= maxWeights {
		return
	}
	type one struct {
		says float32
		f    hash
	}
	all := make([]one, 0, len(m.byFeature))
	for f, w := range m.byFeature {
		all = append(all, one{max(w.w, -w.w), f})
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.says, b.says), cmp.Compare(a.f, b.f)) })
	for _, o := range all[:len(all)-maxWeights*3/4] {
		delete(m.byFeature, o.f)
	}
}

// valueShrinkage returns the features that lower the logit of a probable candidate, one for
// each threshold that the contribution of its values reaches. Values of one task are less
// predictive in the next than their labels suggest, so each feature learns how candidates
// above its threshold turned out. A candidate with new values has no such features.
func valueShrinkage(logit, ofValues float64) (reached []hash) {
	if logit < logitOf(0.1) {
		return nil
	}
	for i, step := range [...]float64{0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4} {
		if ofValues >= step {
			reached = append(reached, seed.num(3000+i))
		}
	}
	return reached
}

const weightSize = 16 // bytes of a saved weight: feature, weight, gradients

func appendWeight(dst []byte, f hash, w weight) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f))
	dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(w.w))
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(w.gradients))
}

// load decodes saved weights and skips implausible ones.
func (m *weights) load(saved []byte) {
	m.byFeature = make(map[hash]weight, len(saved)/weightSize)
	for ; len(saved) >= weightSize && len(m.byFeature) < maxWeights; saved = saved[weightSize:] {
		w := math.Float32frombits(binary.LittleEndian.Uint32(saved[8:]))
		seen := math.Float32frombits(binary.LittleEndian.Uint32(saved[12:]))
		if math.Abs(float64(w)) <= maxWeight && (&sum{Now: seen}).valid() {
			m.byFeature[hash(binary.LittleEndian.Uint64(saved))] = weight{w, seen}
		}
	}
}

// logitOf returns the logit of a probability, clamped; sigmoid is its inverse.
func logitOf(p float64) float64 {
	p = min(max(p, 1e-4), 1-1e-4)
	return math.Log(p / (1 - p))
}

func sigmoid(x float64) float64 {
	return 1 / (1 + math.Exp(-min(max(x, -12), 12)))
}
