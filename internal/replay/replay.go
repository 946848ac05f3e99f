// Package replay plays recorded sessions through the real pipeline, in recorded
// time: what is foreseen (forecast) is chosen (enrich), started (speculate) and
// kept or thrown away (dedup) by the very code that does so live.
//
// The one idea: learning depends on what was really called and never on what was
// issued, so one learner serves any number of arms, each with a store, slots and
// throttles of its own. An arm is told what has happened up to a moment and no
// more; only the world that answers its guesses, and an oracle, know what the
// session will do:
//
//	calls, err := replay.ReadFile("sessions.jsonl.gz")
//	p := replay.New(replay.Options{Model: model, Learn: true, MaxAge: 10 * time.Second},
//		replay.Arm{Name: "defaults", Pick: pick},
//		replay.Arm{Name: "ceiling", Source: replay.Oracle, Pick: pick})
//	p.Play(replay.Sessions(calls))
//	fmt.Println(p.Reports()[0].Coverage)
//
// The sessions are played one after the other. How long a call takes and how long the model
// thinks are those of the recording; each arm has a clock of its own, on which all comes
// earlier that follows an answer which came early. A call is answered from the recording, and
// so is a prefetch of a call that the session makes later; any other prefetch gets an answer
// that is never asked for.
//
// It leaves out the pace of hosts (limit); that guesses slow down real calls, which
// a recording cannot show; the model's intent; answers added to others (deliver);
// and guesses at what
// follows a guess: a recording holds the answers of right guesses only, so that
// these would be followed up and wrong ones not, which is to look ahead. They gain
// time and no coverage, as what follows a call is guessed at when it is made.
package replay

import (
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// Options are what all arms of a replay have in common.
type Options struct {
	Model        func(tool string) *valuemodel.Model // what is known of a tool; never nil; asked once for each
	Learn        bool                                // follow-ups are learned, beside those that are configured
	ShadowLabels int                                 // labels before a learned one issues; default 5
	MaxAge       time.Duration                       // how long a guess may be used; 0: guesses are never kept
	Think        time.Duration                       // between an answer and the next call, where that was not recorded; default 3s

	// KeepTurns, if above 0, tells time in turns, as simple learners are measured: the
	// calls of a turn come in one instant, those that only read before the others; a
	// guess may be used for so many turns, however long they take; and at what the
	// session has asked before there is no guess.
	KeepTurns int

	// Learner gives the learner that a session is played with, by its number from 0; nil:
	// one for all sessions. Ended, unless nil, is called after each session.
	Learner func(session int) *predict.Model
	Ended   func(session int)
}

const (
	usualThink   = 3 * time.Second
	usualLatency = 300 * time.Millisecond // of a call, where neither the recording nor its model says
)

// turnTime is how long a turn takes on the clock of a store that counts turns.
const turnTime = time.Hour

// maxAge is how long a guess may be used by the store's clock.
func (o *Options) maxAge() time.Duration {
	if o.KeepTurns > 0 {
		return time.Duration(o.KeepTurns)*turnTime + turnTime/2
	}
	return o.MaxAge
}

// Player plays sessions to a learner and to arms.
type Player struct {
	o      Options
	models map[string]*valuemodel.Model
	alone  *predict.Model // of all sessions, where Options.Learner is nil
	arms   []*arm

	sessions int // played so far
	wall     time.Time
	untimed  int // calls that arms saw and of which it was not recorded how long they took
	deciles  [10]Decile
}

// New makes a player. Without arms it only learns.
func New(o Options, arms ...Arm) *Player {
	if o.Think <= 0 {
		o.Think = usualThink
	}
	p := &Player{models: make(map[string]*valuemodel.Model), wall: time.UnixMilli(0)}
	resolve := o.Model
	o.Model = func(tool string) *valuemodel.Model {
		m := p.models[tool]
		if m == nil {
			m = resolve(tool)
			p.models[tool] = m
		}
		return m
	}
	p.o = o
	if o.Learner == nil {
		p.alone = p.Forecast()
	}
	for _, a := range arms {
		p.arms = append(p.arms, newArm(p, a))
	}
	return p
}

// Forecast makes a learner that has seen nothing.
func (p *Player) Forecast() *predict.Model {
	o := predict.Options{
		Tool:  func(name string) predict.Tool { return predict.Tool{Model: p.o.Model(name)} },
		Learn: p.o.Learn, ShadowLabels: p.o.ShadowLabels, MaxAge: p.o.MaxAge,
	}
	if p.o.KeepTurns > 0 {
		o.MaxAge, o.Turns = 0, p.o.KeepTurns
	}
	return predict.New(o)
}

// Train plays sessions to the learner alone: no arm sees them, and nothing is
// counted.
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
	t := newPlaying(p, s, arms)
	for i := range s.turns {
		t.turn(&s.turns[i])
	}
	t.end()
	if p.o.Ended != nil {
		p.o.Ended(p.sessions)
	}
	p.sessions++
}

// learner is the one that the next session is played with.
func (p *Player) learner() *predict.Model {
	if p.o.Learner != nil {
		return p.o.Learner(p.sessions)
	}
	return p.alone
}

// latency is how long a call takes of which that was not recorded.
func latency(m *made) time.Duration {
	if l := m.class.model.Cost.Latency; l > 0 {
		return l
	}
	return usualLatency
}
