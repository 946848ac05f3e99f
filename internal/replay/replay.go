// Package replay plays recorded sessions through the real pipeline in simulated time. The
// proxy's own code predicts (predict), chooses (enrich), starts (speculate) and stores (dedup)
// prefetches.
//
// Learning depends only on the recorded calls and never on prefetches, so one learner serves any
// number of arms, each with a store, slots and throttles of its own. Candidates come from the events
// up to the current time. Only the simulated upstream, the oracle, and the rule that a call made
// at once is not prefetched look ahead; and a candidate that waits in the pause before a turn is checked
// again by a learner that knows that turn:
//
//	calls, err := replay.ReadFile("sessions.jsonl.gz")
//	p := replay.New(replay.Options{Model: model, Learn: true, MaxAge: 10 * time.Second},
//		replay.Arm{Name: "defaults", Rules: rules},
//		replay.Arm{Name: "ceiling", Source: replay.Oracle, Rules: rules})
//	p.Play(replay.Sessions(calls))
//	fmt.Println(p.Reports()[0].Coverage)
//
// Sessions are played one after the other. Durations of calls and of the model's thinking are
// taken from the recording. Each arm has a clock of its own, so that an earlier answer makes all
// that follows earlier. Calls are answered from the recording, and so are prefetches of calls
// that the session makes later; the answer of any other prefetch is empty and never used.
//
// Not simulated are rate limits of hosts (limit); deadlines of prefetches; calls slowed down by
// prefetches, which a recording cannot show; candidates that follow a prefetch's own answer;
// choices after each but the last answer of a turn; intents stated by the model; and inlined
// answers (deliver).
package replay

import (
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// Options are common to all arms of a replay.
type Options struct {
	Model        func(tool string) *valuemodel.Model // returns the model of a tool, not nil; called once for each name, and for ""
	Learn        bool                                // learn follow-ups, in addition to configured ones
	ShadowLabels int                                 // labels before a learned follow-up is prefetched; default 5
	MaxAge       time.Duration                       // how long the answer of a prefetch may be used; 0 means not at all
	Think        time.Duration                       // pause between an answer and the next call if it was not recorded; default 3 s

	// KeepTurns, if above 0, measures time in turns, which is usual for simple learners: a turn
	// begins each turnTime, and its calls come at the same time, reads before writes; the answer
	// of a prefetch may be used for this many turns; calls that the session has made before are
	// not prefetched; and slots, throttles and deadlines, which are about time, are ignored.
	KeepTurns int

	// Learner returns the learner for a session, numbered from 0. If it is nil, one learner is
	// shared by all sessions.
	Learner func(session int) *predict.Model
}

// defaultLatency is the duration of a call without a recorded duration or a duration in its model.
const defaultLatency = 300 * time.Millisecond

// turnTime is the time from the start of a turn to the next if time is measured in turns.
const turnTime = time.Hour

// Player plays sessions to a learner and to arms.
type Player struct {
	o      Options
	models map[string]*valuemodel.Model
	shared *predict.Model // learner of all sessions if Options.Learner is nil
	arms   []*arm

	sessions int       // played so far
	wall     time.Time // end of the last session
	untimed  int       // calls played to arms that have no recorded duration
	playing  bool      // what is learned from now counts
	deciles  [10]Decile
}

// New returns a player. Without arms it only learns.
func New(o Options, arms ...Arm) *Player {
	if o.Think <= 0 {
		o.Think = speculate.DefaultThink
	}
	if o.KeepTurns > 0 {
		o.MaxAge = time.Duration(o.KeepTurns)*turnTime + turnTime/2
	}
	p := &Player{models: make(map[string]*valuemodel.Model), wall: time.UnixMilli(0)}
	resolve := o.Model
	o.Model = func(tool string) *valuemodel.Model {
		m := p.models[tool]
		if m == nil {
			if m = resolve(tool); o.KeepTurns > 0 {
				copied := *m
				copied.Cost.Freshness = 0 // the same as any other answer
				m = &copied
			}
			p.models[tool] = m
		}
		return m
	}
	p.o = o
	if o.Learner == nil {
		p.shared = p.NewLearner()
		p.o.Learner = func(int) *predict.Model { return p.shared }
	}
	for _, a := range arms {
		p.arms = append(p.arms, newArm(p, a))
	}
	return p
}

// NewLearner returns a new learner.
func (p *Player) NewLearner() *predict.Model {
	o := predict.Options{
		Tool:  func(name string) predict.Tool { return predict.Tool{Model: p.o.Model(name)} },
		Learn: p.o.Learn, ShadowLabels: p.o.ShadowLabels, MaxAge: p.o.MaxAge, Labelled: p.labelled,
	}
	return predict.New(o)
}

// Shared returns the learner of all sessions; nil if Options.Learner is set.
func (p *Player) Shared() *predict.Model { return p.shared }

// Train plays sessions to the learner only. They are not counted.
func (p *Player) Train(all []*Session) {
	for _, s := range all {
		p.play(s, nil)
	}
}

// Play plays sessions to the learner and the arms.
func (p *Player) Play(all []*Session) {
	for _, s := range all {
		p.play(s, p.arms)
	}
}

func (p *Player) play(s *Session, arms []*arm) {
	p.playing = len(arms) > 0
	t := newPlayback(p, s, arms)
	for i := range s.turns {
		t.turn(&s.turns[i])
	}
	t.end()
	p.sessions++
}

// latency returns the assumed duration of a call without a recorded one.
func latency(m *playedCall) time.Duration {
	if l := m.class.model.Cost.Latency; l > 0 {
		return l
	}
	return defaultLatency
}
