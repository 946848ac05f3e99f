// Package tune derives the settings of tuned.toml from recorded calls and learned state.
//
// Costs of calls and outcomes of prefetches come from the event logs. Follow-ups come from the
// proxy's learner: from its saved state, or by replaying a client's logs to it. The package sums
// up the former, filters the latter, and states the evidence for each setting:
//
//	t := tune.New(tune.Options{Model: model})
//	err := record.Read(ctx, files, t.AddEvent, problem)
//	err = t.AddLearned("github", state)
//	t.AddCalls(calls) // of traces and of clients' logs
//	text := t.Propose().TOML()
//
// The whole file is generated from the models without tuned.toml, so a second run proposes the
// same. Settings that could cause wrong answers if the record misleads (classes, freshness) are
// only given as advice to paste. Errors are not counted as answers.
//
// The package calls no tools.
package tune

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
)

// Options configure a Tuner. All fields are required.
type Options struct {
	Model          func(tool string) *valuemodel.Model // returns the model of "NAME/TOOL" without tuned.toml, not nil
	Missing        func(tool string) bool              // reports whether the upstream is known not to offer "NAME/TOOL"
	Secret         func(arguments []byte) bool         // reports whether a JSON object may contain a secret
	MinProbability float64                             // minimum probability of a follow-up
	Waste          time.Duration                       // hidden time that outweighs one wasted prefetch
	MaxAge         func(upstream string) time.Duration // how long a prefetched answer may be used; "" is the upstream of traces
}

// Bounds of a tuner.
const (
	maxTools   = 1 << 12 // distinct tools; events of further ones are ignored
	maxAnswers = 1 << 19 // calls of which the last answer is remembered
	maxGaps    = 1 << 12 // gaps per tool
)

// Tuner collects evidence. It is not safe for concurrent use.
type Tuner struct {
	o         Options
	tools     map[string]*toolStats     // "NAME/TOOL" → figures
	answers   map[[2]string]answer      // tool and hash of arguments → last answer
	lastWrite map[string]time.Time      // upstream → time of the last call that may write
	players   map[string]*replay.Player // upstream → player with the learned state and the recorded calls
}

// New returns an empty Tuner.
func New(o Options) *Tuner {
	return &Tuner{
		o:         o,
		tools:     make(map[string]*toolStats),
		answers:   make(map[[2]string]answer),
		lastWrite: make(map[string]time.Time),
		players:   make(map[string]*replay.Player),
	}
}

// toolStats is the recorded figures of one tool.
type toolStats struct {
	model      *valuemodel.Model
	calls      int
	answers    int              // to calls and prefetches, except errors
	errors     int              // error answers
	size       record.Histogram // size of answers in KiB
	latency    record.Histogram // time to answer in ms
	prefetches int              // prefetches with a known fate
	right      int              // of those: the predicted call was made
	gaps       []gap            // between answers to the same call without a write in between
	from, to   time.Time        // first and last call
}

// answer is the last answer to a call.
type answer struct {
	at     time.Time
	result string // hash
}

// gap is the time between two answers to the same call.
type gap struct {
	after time.Duration
	same  bool // the answers were equal
}

// tool returns the figures of a tool, or nil if there are too many tools.
func (t *Tuner) tool(name string) *toolStats {
	stats := t.tools[name]
	if stats == nil && len(t.tools) < maxTools {
		stats = &toolStats{model: t.o.Model(name)}
		t.tools[strings.Clone(name)] = stats
	}
	return stats
}

// AddEvent adds one event of the log.
func (t *Tuner) AddEvent(e *record.Event) {
	if e.Kind != record.Call && e.Kind != record.Prefetch || e.Upstream == "" {
		return // the proxy's own tools have no upstream
	}
	name := e.Upstream + "/" + e.Tool
	stats := t.tool(name)
	switch {
	case stats == nil:
		return
	case e.Kind == record.Prefetch:
		stats.addPrefetch(e)
	case e.Disposition == record.Fetched:
		stats.addCall(e.At, e.IsError, e.UpstreamMS, float64(e.Bytes))
	default: // not answered, or without a fetch of its own
		stats.calls++
		return
	}
	if !stats.model.Class.Reads() {
		if e.At.After(t.lastWrite[e.Upstream]) { // logs of several processes overlap
			t.lastWrite[e.Upstream] = e.At
		}
	} else if !e.IsError && e.ArgsHash != "" && e.ResultHash != "" {
		t.compare(stats, [2]string{name, e.ArgsHash}, answer{e.At, e.ResultHash}, t.lastWrite[e.Upstream])
	}
}

// addPrefetch counts the outcome of a prefetch. If its answer was an error, the prediction may
// still have been right, so only the error counts.
func (s *toolStats) addPrefetch(e *record.Event) {
	if e.IsError || e.Cause == "error" {
		s.errors++
		return
	}
	s.answers++
	s.prefetches++
	if e.Fate != record.Wasted {
		s.right++
	}
}

// addCall counts a call that its upstream answered. Size and latency of errors are ignored, as
// most errors are short and come at once.
func (s *toolStats) addCall(at time.Time, failed bool, latency, bytes float64) {
	s.calls++
	if failed {
		s.errors++
		return
	}
	s.answers++
	if latency > 0 {
		s.latency.Add(latency)
	}
	if bytes > 0 {
		s.size.Add(bytes / 1024)
	}
	if !at.IsZero() && (s.from.IsZero() || at.Before(s.from)) {
		s.from = at
	}
	if at.After(s.to) {
		s.to = at
	}
}

// compare compares an answer with the previous answer to the same call, unless the upstream had
// a write in between.
func (t *Tuner) compare(s *toolStats, call [2]string, now answer, write time.Time) {
	last, known := t.answers[call]
	if known && now.at.After(last.at) && !write.After(last.at) && len(s.gaps) < maxGaps {
		s.gaps = append(s.gaps, gap{now.at.Sub(last.at), now.result == last.result})
	}
	if known || len(t.answers) < maxAnswers {
		t.answers[call] = now
	}
}

// stableFor returns the longest time after which answers were equal that is shorter than any
// after which they differed, and the number of such answers.
func (s *toolStats) stableFor() (d time.Duration, n int) {
	differ := time.Duration(math.MaxInt64)
	for _, g := range s.gaps {
		if !g.same {
			differ = min(differ, g.after)
		}
	}
	for _, g := range s.gaps {
		if g.same && g.after < differ {
			d, n = max(d, g.after), n+1
		}
	}
	return d, n
}

// player returns the player of the recorded calls of an upstream, and creates it if necessary.
func (t *Tuner) player(upstream string) *replay.Player {
	p := t.players[upstream]
	if p == nil {
		p = replay.New(replay.Options{
			Model:  func(tool string) *valuemodel.Model { return t.o.Model(join(upstream, tool)) },
			Learn:  true,
			MaxAge: t.o.MaxAge(upstream),
		})
		t.players[upstream] = p
	}
	return p
}

// join returns "NAME/TOOL", or only the tool for traces, which have no upstreams.
func join(upstream, tool string) string { return strings.TrimPrefix(upstream+"/"+tool, "/") }

// AddCalls adds recorded calls of some sessions, in the order in which they were made. Tools are
// named "NAME/TOOL", or "tool" in a trace. The calls yield costs, and train a learner for
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
		upstream, name, divided := strings.Cut(c.Tool, "/")
		if !divided {
			upstream, name = "", c.Tool
		}
		c.Tool = name
		byUpstream[upstream] = append(byUpstream[upstream], c)
	}
	for upstream, calls := range byUpstream {
		t.player(upstream).Train(replay.Sessions(calls))
	}
}

// follow is a learned follow-up of a tool.
type follow struct {
	valuemodel.FollowUp
	right, total float64 // correct and all candidates, recent ones weighted more
}

// AddLearned adds the proxy's learned state of an upstream. It must come before AddCalls, as a
// learner keeps only its last changes for a merge. It does not modify the state, and skips parts
// that cannot be read, for which it returns an error.
func (t *Tuner) AddLearned(upstream string, state predict.State) error {
	_, err := t.player(upstream).Shared().Merge(state)
	return err
}

// addFollowUp adds a follow-up to those of its trigger if it is probable enough and its call may be
// prefetched.
func (t *Tuner) addFollowUp(follows map[string][]follow, upstream string, f predict.LearnedFollowUp) {
	trigger, to := join(upstream, f.Trigger), join(upstream, f.Tool)
	m := t.o.Model(to)
	right, total, ranks := t.likelyRanks(f.Ranks)
	if ranks == 0 || t.o.Missing(to) || t.o.Missing(trigger) {
		return
	}
	if !m.MayRead() || m.Disclosure == valuemodel.ThirdParty {
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
	name := f.Tool
	if strings.Contains(name, "/") { // else what is before the slash would be the upstream
		name = to
	}
	next := valuemodel.FollowUp{Tool: name, Probability: digits(shrink(right, total)), Args: args, Max: ranks}
	follows[trigger] = append(follows[trigger], follow{next, right, total})
}

func (t *Tuner) secret(argument string, v any) bool {
	object, err := json.Marshal(map[string]any{argument: v})
	return err != nil || t.o.Secret(object)
}

// minLabels is the number of labelled candidates that a follow-up needs: the default of shadow_labels,
// which the proxy requires.
const minLabels = 5

// likelyRanks returns how many of the first ranks are probable enough, and the sums of their
// counts.
func (t *Tuner) likelyRanks(ranks []predict.Count) (right, total float64, n int) {
	for _, c := range ranks {
		if !(c.Of >= minLabels) || shrink(float64(c.Right), float64(c.Of)) < t.o.MinProbability {
			break
		}
		right, total, n = right+float64(c.Right), total+float64(c.Of), n+1
	}
	return right, total, n
}

// shrink returns the share of correct candidates, shrunk as if there were four more candidates
// of which half a one was correct.
func shrink(right, total float64) float64 { return (right + 0.5) / (total + 4) }
