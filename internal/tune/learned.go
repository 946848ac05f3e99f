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

// follow is a learned follow-up of a tool.
type follow struct {
	valuemodel.FollowUp
	right, total float64 // correct and all candidates, recent ones weighted more
}

// minLabels is the number of labelled candidates that a follow-up needs, as in the proxy.
const minLabels = 5

// maxFollowUps is the maximum number of proposed follow-ups per tool.
const maxFollowUps = 6

// player returns the player of the recorded calls of an upstream, and creates it if necessary.
func (t *Tuner) player(upstream string) *replay.Player {
	p := t.players[upstream]
	if p == nil {
		p = replay.New(replay.Options{
			Model:  func(tool string) *valuemodel.Model { return t.model(join(upstream, tool)) },
			Learn:  true,
			MaxAge: t.o.MaxAge,
		})
		t.players[upstream] = p
	}
	return p
}

// join returns "upstream/tool", or only the tool for traces, which have no upstreams.
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

// AddCalls adds recorded calls of some sessions, in the order in which they were made. Tools are
// named "upstream/tool", or "tool" in a trace. The calls yield costs, and train a learner for
// each upstream.
func (t *Tuner) AddCalls(calls []replay.Call) {
	byUpstream := make(map[string][]replay.Call)
	for _, c := range calls {
		if stats := t.tool(c.Tool); stats != nil {
			at, took := time.Time{}, 0.0
			if c.Start != nil && c.End != nil {
				at, took = time.UnixMilli(*c.Start), float64(*c.End-*c.Start)
			}
			stats.addCall(at, c.Failed, took, float64(c.Bytes))
		}
		upstream, name := split(c.Tool)
		c.Tool = name
		byUpstream[upstream] = append(byUpstream[upstream], c)
	}
	for upstream, calls := range byUpstream {
		t.player(upstream).Train(replay.Sessions(calls))
	}
}

// AddLearned adds the proxy's learned state of an upstream to what the learner has learned from
// recorded calls. It does not modify the state, and skips parts that cannot be read, for which
// it returns an error.
func (t *Tuner) AddLearned(upstream string, state predict.State) error {
	merged, unread := t.player(upstream).Shared().Merge(state)
	learned, err := predict.LearnedFollowUps(merged)
	for _, f := range learned {
		t.follow(upstream, f)
	}
	delete(t.players, upstream)
	return errors.Join(unread, err)
}

// follow adds a follow-up if it is probable enough and its call may be prefetched.
func (t *Tuner) follow(upstream string, f predict.LearnedFollowUp) {
	trigger, to := join(upstream, f.Trigger), join(upstream, f.Tool)
	m := t.model(to)
	right, total, ranks := t.likelyRanks(f.Ranks)
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
		valuemodel.FollowUp{Tool: f.Tool, Probability: digits(shrink(right, total)), Args: args, Max: ranks}, right, total,
	})
}

func (t *Tuner) secret(argument string, v any) bool {
	value, err := json.Marshal(v)
	return err != nil || t.o.Secret(argument, string(value))
}

// likelyRanks returns how many of the first ranks are probable enough, and the sums of their
// counts.
func (t *Tuner) likelyRanks(ranks []predict.Count) (right, total float64, n int) {
	for _, c := range ranks {
		if !(c.Of >= minLabels) || shrink(c.Right, c.Of) < t.o.MinProbability {
			break
		}
		right, total, n = right+c.Right, total+c.Of, n+1
	}
	return right, total, n
}

// shrink returns the share of correct candidates, shrunk as if there were four more candidates
// of which half a one was correct.
func shrink(right, total float64) float64 { return (right + 0.5) / (total + 4) }

// topFollowUps returns the follow-ups to propose for a tool, the most probable first.
func (t *Tuner) topFollowUps(trigger string) []follow {
	all := slices.Clone(t.follows[trigger])
	slices.SortStableFunc(all, func(a, b follow) int { return cmp.Compare(b.Probability, a.Probability) })
	return all[:min(len(all), maxFollowUps)]
}
