package predict

import "math"

// inputs is how many opinions the mixer weighs; the last one is always 1.
const inputs = 17

const maxMixers = 4096

// weights turn the opinions of several contexts, as logits, into one
// probability. They learn from every label by gradient descent, so that a context
// that is right more often weighs more, and what comes out is calibrated.
type weights struct {
	w     [inputs]float64
	n     float64         // labels so far
	loadW [inputs]float64 // what both were when the state was loaded
	loadN float64
}

func newWeights() *weights {
	var m weights
	for i := range inputs - 1 {
		m.w[i] = 0.2
	}
	m.w[0] = 1
	m.loadW = m.w
	return &m
}

func (m *weights) mix(x *[inputs]float64) float64 {
	sum := 0.0
	for i, w := range m.w {
		sum += w * x[i]
	}
	return squash(sum)
}

// weigh mixes opinions by the weights of a set; without any, by those that all sets
// begin with.
func (m *Model) weigh(set string, x *[inputs]float64) float64 {
	if w := m.mixers[set]; w != nil {
		return w.mix(x)
	}
	return newWeights().mix(x)
}

// learn moves the weights towards the outcome.
func (m *weights) learn(x *[inputs]float64, hit bool) {
	want := 0.0
	if hit {
		want = 1
	}
	m.n++
	step := (want - m.mix(x)) * max(0.003, 0.04/(1+m.n/1000))
	for i := range m.w {
		m.w[i] += step * x[i]
		if i < inputs-1 {
			m.w[i] = min(max(m.w[i], 0), 2)
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
