package predict

import "math"

const (
	lifts  = 10            // contexts whose lift is an opinion
	inputs = 1 + lifts + 5 // opinions that the mixer weighs; the last one is always 1
	sets   = 3             // of weights, whose verdicts are averaged

	maxMixers   = 4096
	maxWeight   = 8   // of the last input
	turnsWeight = 0.6 // of the first context's lift, to begin with
	liftWeight  = 0.2 // of each other one's
	learnRate   = 0.1
	firstSeen   = 0.5
)

// weights turn opinions, as logits, into one logit. They learn from every label by
// gradient descent, each at a pace of its own, the slower the more it has learned
// (Adagrad: Duchi, Hazan, Singer 2011).
type weights struct {
	w, seen            [inputs]float64 // seen: sum of squared gradients
	loaded, loadedSeen [inputs]float64 // what both were when the state was loaded
}

// firstWeight is what a weight is before anything is learned.
func firstWeight(input int) float64 {
	switch {
	case input == 0:
		return 1
	case input == 1:
		return turnsWeight
	case input <= lifts:
		return liftWeight
	}
	return 0
}

func newWeights() *weights {
	var m weights
	for i := range m.w {
		m.w[i] = firstWeight(i)
	}
	m.loaded = m.w
	return &m
}

// weigh mixes opinions by the weights of a set; without any, by those that all sets
// begin with.
func (m *Learner) weigh(set hash, x *[inputs]float64) float64 {
	if w := m.mixers[set]; w != nil {
		return w.mix(x)
	}
	return newWeights().mix(x)
}

func (m *weights) mix(x *[inputs]float64) float64 {
	sum := 0.0
	for i, w := range m.w {
		sum += w * x[i]
	}
	return sum
}

// learn moves the weights towards the outcome.
func (m *weights) learn(x *[inputs]float64, hit bool) {
	miss := -squash(m.mix(x))
	if hit {
		miss++
	}
	for i := range m.w {
		if x[i] == 0 {
			continue
		}
		g := miss * x[i]
		m.seen[i] += g * g
		w := m.w[i] + learnRate*g/math.Sqrt(firstSeen+m.seen[i])
		if i < inputs-1 {
			m.w[i] = min(max(w, 0), 2)
		} else {
			m.w[i] = min(max(w, -maxWeight), maxWeight)
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
