package tune

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
)

// follow is a follow-up of a tool that was learned.
type follow struct {
	valuemodel.FollowUp
	right, of float64 // of candidates, newer ones counting more
}

// leastLabels is how many candidates of a follow-up must be known to have been right or
// wrong: as many as the live proxy waits for.
const leastLabels = 5

// mostFollows is how many follow-ups of one tool are proposed.
const mostFollows = 6

// player plays recorded calls of one upstream to a learner, as replay does it and the
// live proxy.
type player struct {
	*replay.Player
	learner *predict.Model
}

func (t *Tuner) player(upstream string) *player {
	p := t.players[upstream]
	if p == nil {
		p = new(player)
		p.Player = replay.New(replay.Options{
			Model:   func(tool string) *valuemodel.Model { return t.model(join(upstream, tool)) },
			Learn:   true,
			MaxAge:  t.o.MaxAge,
			Learner: func(int) *predict.Model { return p.learner },
		})
		p.learner = p.NewLearner()
		t.players[upstream] = p
	}
	return p
}

// join is "upstream/tool"; the tools of a trace have no upstream.
func join(upstream, tool string) string {
	if upstream == "" {
		return tool
	}
	return upstream + "/" + tool
}

func split(name string) (upstream, tool string) {
	if upstream, tool, ok := strings.Cut(name, "/"); ok {
		return upstream, tool
	}
	return "", name
}

// Calls adds recorded calls of some sessions, in the order in which they were made,
// whose tools are named "upstream/tool" or, in a trace, by their bare names. They tell
// what calls cost, and warm a learner of each upstream.
func (t *Tuner) Calls(calls []replay.Call) {
	of := make(map[string][]replay.Call)
	for _, c := range calls {
		if one := t.tool(c.Tool); one != nil {
			at, took := time.Time{}, 0.0
			if c.Start != nil && c.End != nil {
				at, took = time.UnixMilli(*c.Start), float64(*c.End-*c.Start)
			}
			one.answered(at, c.Failed, took, float64(c.Bytes))
		}
		upstream, name := split(c.Tool)
		c.Tool = name
		of[upstream] = append(of[upstream], c)
	}
	for upstream, calls := range of {
		t.player(upstream).Train(replay.Sessions(calls))
	}
}

// Learned adds what was learned of an upstream live, as its state file has it, to what
// recorded calls of it have taught. The state itself is left as it is, and what of it
// cannot be read is left out.
func (t *Tuner) Learned(upstream string, state predict.State) error {
	merged, unread := t.player(upstream).learner.Merge(state)
	learned, err := predict.Follows(merged)
	for _, f := range learned {
		t.follow(upstream, f)
	}
	delete(t.players, upstream)
	return errors.Join(unread, err)
}

// follow keeps a follow-up that was right often enough, of a call that may be made
// early.
func (t *Tuner) follow(upstream string, f predict.Follow) {
	trigger, to := join(upstream, f.Trigger), join(upstream, f.Tool)
	m := t.model(to)
	right, of, ranks := t.likely(f.Ranks)
	if ranks == 0 || !reads(m) || m.Disclosure == valuemodel.ThirdParty || t.o.Missing(to) || t.o.Missing(trigger) {
		return
	}
	args := make(map[string]valuemodel.Binding, len(f.Args))
	for name, v := range f.Args {
		b, err := valuemodel.ParseBinding(v)
		if err != nil || b.From == valuemodel.Constant && t.secret(name, v) {
			return
		}
		args[name] = b
	}
	t.follows[trigger] = append(t.follows[trigger], follow{
		valuemodel.FollowUp{Tool: f.Tool, Probability: digits(shrunk(right, of)), Args: args, Max: ranks}, right, of,
	})
}

func (t *Tuner) secret(argument string, v any) bool {
	value, err := json.Marshal(v)
	return err != nil || t.o.Secret(argument, string(value))
}

// likely counts how many of the first in a list are likely enough, and what came of
// them.
func (t *Tuner) likely(ranks []predict.Count) (right, of float64, n int) {
	for _, c := range ranks {
		if !(c.Of >= leastLabels) || shrunk(c.Right, c.Of) < t.o.MinProbability {
			break
		}
		right, of, n = right+c.Right, of+c.Of, n+1
	}
	return right, of, n
}

// shrunk is a share as if there had been a few candidates more, most of them wrong:
// what is not known is taken to be unlikely.
func shrunk(right, of float64) float64 { return (right + 0.5) / (of + 4) }

// likeliest are the follow-ups of a tool that are proposed.
func (t *Tuner) likeliest(trigger string) []follow {
	all := slices.Clone(t.follows[trigger])
	slices.SortStableFunc(all, func(a, b follow) int { return cmp.Compare(b.Probability, a.Probability) })
	return all[:min(len(all), mostFollows)]
}
