package tune

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// against is why a rule is not proposed; "" if it is: it was seen often enough, and on
// both parts it is likelier than what its guesses cost.
func (m *Miner) against(p *picked) string {
	switch {
	case p.issues() < m.o.MinN:
		return fmt.Sprintf("too rare: it would have been guessed %d times, and %d are needed", p.issues(), m.o.MinN)
	case p.learn.right < leastSupport:
		return fmt.Sprintf("too rare: %d of %d guesses right in the sessions that it was read off, and %d are needed", p.learn.right, p.learn.issues, leastSupport)
	case p.held.issues == 0:
		return "there is no session to try it on beside those that it was read off"
	}
	if m.doubtful(p, m.o.MinProbability) {
		return fmt.Sprintf("accuracy %.2f (%d of %d guesses right, %d of %d in sessions that it was not read off) is, or may be, under the gate: min_probability = %v",
			ratio(p.right(), p.issues()), p.right(), p.issues(), p.held.right, p.held.issues, m.o.MinProbability)
	}
	if right, of := p.newest(); of > 0 && ratio(right, of) < m.o.MinProbability/2 {
		return fmt.Sprintf("of late it was not right: %d of the newest %d guesses were, of all %d of %d", right, of, p.right(), p.issues())
	}
	if hides := m.hides(p); m.doubtful(p, m.needs(hides)) {
		return fmt.Sprintf("hides less than it wastes: %.0f ms if right, and a wasted one counts for waste_ms = %v, so that %.2f would have to be right, and %d of %d were",
			hides, float64(m.o.Waste)/float64(time.Millisecond), m.needs(hides), p.right(), p.issues())
	}
	return ""
}

// doubtful reports whether a rule may be right less often than is needed. It was chosen
// among many that were tried on the same sessions, and what comes out best has been
// lucky: so what counts, and is proposed, is what it is right at least, by the lower
// bound at 80 %.
func (m *Miner) doubtful(p *picked, needs float64) bool {
	return p.probability < needs || ratio(p.held.right, p.held.issues) < needs/2
}

// newest is what came of the newest third of the guesses, by when their sessions began:
// what was so once need not be so now.
func (p *picked) newest() (right, issues int) {
	var all []*trial
	for t := range p.trials {
		if t.at > 0 {
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b *trial) int { return cmp.Compare(a.at, b.at) })
	var s score
	for _, t := range all[len(all)-len(all)/3:] {
		s.add(t)
	}
	return s.right, s.issues
}

// hides is how long a right guess hides (ms), as it will be judged when it is to be
// made: by percentiles, for a few answers that took minutes say nothing of the others.
// It is no more than what calls of the tool take as a rule.
func (m *Miner) hides(p *picked) float64 {
	var all []float64
	for t := range p.trials {
		if t.right {
			all = append(all, float64(t.hidden))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	mean := middle(func(share float64) float64 {
		return all[min(int(share*float64(len(all))), len(all)-1)]
	})
	if t := m.tools[p.tool]; t != nil && t.latency.n >= m.o.MinN {
		mean = min(mean, middle(t.latency.at))
	}
	return mean
}

// middle is the mean of what varies, by Swanson's rule, as live.
func middle(at func(share float64) float64) float64 { return 0.3*at(0.1) + 0.4*at(0.5) + 0.3*at(0.9) }

// failings tell why nothing is proposed for the tools that edges lead to, by the rule
// that came closest.
func (m *Miner) failings(edges []*edge, found map[string]bool, why map[[2]string]string) {
	best := make(map[string]float64)
	for _, e := range edges {
		if found[e.tool] {
			why[[2]string{e.trigger, e.tool}] = ""
			continue
		}
		for _, r := range e.rules() {
			p := m.score(r, nil)
			sure := lower(p.right(), p.issues(), once)
			if p.issues() < m.o.MinN {
				sure -= 1 // rather one that was tried
			}
			if known, any := best[e.tool]; !any || sure > known {
				best[e.tool] = sure
				why[[2]string{e.trigger, e.tool}] = cmp.Or(m.against(&p), fmt.Sprintf("%d others of that tool are likelier", mostPicked))
			}
		}
	}
}
