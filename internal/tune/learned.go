package tune

import (
	"fmt"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// learned is a follow-up of a tool that was learned while calls were made.
type learned struct {
	follow valuemodel.FollowUp
	right  float64
	of     float64
}

// Learned adds what was learned of an upstream, as it is kept in its state file: of
// what can be said in the configuration the follow-ups that were right often enough.
// What of the state cannot be read is left out.
func (m *Miner) Learned(upstream string, state []byte) {
	follows, _ := predict.Follows(state)
	for _, f := range follows {
		trigger := upstream + "/" + f.Trigger
		target := m.model(upstream + "/" + f.Tool)
		right, of, ranks := m.likely(f.Ranks)
		if !target.Class.Reads() && target.Classify == "" || target.Disclosure == valuemodel.ThirdParty || ranks == 0 {
			continue
		}
		args := make(map[string]valuemodel.Binding, len(f.Args))
		for name, v := range f.Args {
			b, err := valuemodel.ParseBinding(v)
			if err != nil {
				args = nil
				break
			}
			args[name] = b
		}
		if args == nil || len(m.learned[trigger]) >= mostLearned {
			continue
		}
		m.learned[trigger] = append(m.learned[trigger], learned{
			valuemodel.FollowUp{Tool: f.Tool, Probability: rounded(shrunk(right, of)), Args: args, Max: ranks}, right, of,
		})
	}
}

// likely counts how many of the first in a list are likely enough, and what came of
// them.
func (m *Miner) likely(ranks []predict.Count) (right, of float64, n int) {
	for _, c := range ranks {
		if !(c.Of >= float64(m.o.MinN)) || shrunk(c.Right, c.Of) < m.o.MinProbability {
			break
		}
		right, of, n = right+c.Right, of+c.Of, n+1
	}
	return right, of, n
}

// shrunk is a share as if there had been a few guesses more, most of them wrong: what
// is not known is taken to be unlikely.
func shrunk(right, of float64) float64 { return (right + 0.5) / (of + 4) }

const mostLearned = 6 // follow-ups of one tool

// proposeLearned proposes what was learned and not read off records here.
func (m *Miner) proposeLearned(blocks map[string][]Line) {
	for trigger, all := range m.learned {
		mined := false
		for _, l := range blocks[trigger] {
			mined = mined || l.Key == "follow_up"
		}
		if mined {
			continue
		}
		for _, l := range all {
			if !m.missing(upstreamOf(trigger)+"/"+l.follow.Tool) && !m.configured(trigger, &l.follow) {
				m.add(blocks, trigger, Line{Key: "follow_up", Value: followUpTOML(&l.follow), Evidence: fmt.Sprintf(
					"learned while calls were made: %.0f of %.0f guesses right, newer ones counting more", l.right, l.of)})
			}
		}
	}
}
