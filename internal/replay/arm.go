package replay

import (
	"context"
	"strconv"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/speculate"
)

// Source says where an arm's candidates come from.
type Source int

const (
	Forecast Source = iota // the learner
	Oracle                 // the recording: the reads of the next turn, except repeats
	Nothing                // no prefetches
)

// Arm is one configuration of prefetching, with a store, slots and throttles of its own. What concerns
// the learner and the age of answers is the same for all arms, as in Options.
type Arm struct {
	Name   string
	Source Source
	Rules  speculate.Rules
	Store  dedup.Options // Clock is set by the replay
}

// noDeadline disables deadlines in real time, which do not apply here.
const noDeadline = 1000 * time.Hour

// arm is the state of an Arm.
type arm struct {
	Arm
	p         *Player
	store     *dedup.Store
	scheduler *speculate.Scheduler
	now       time.Duration // time of the store's clock
	report    *Report

	// Hooks for tests; nil otherwise.
	sabotage   func(*dedup.Query)                      // modifies the queries to the store
	onPrefetch func(turns int, tool, arguments string) // called with each prefetch
}

func newArm(p *Player, of Arm) *arm {
	a := &arm{Arm: of, p: p, report: newReport(of.Name)}
	a.Rules.MaxAge = p.o.MaxAge
	a.Arm.Store.Clock = func() age.Moment { return age.At(a.now, a.now) }
	a.store = dedup.New(a.Arm.Store)
	slots := of.Rules.Slots()
	slots.Deadline = noDeadline
	a.scheduler = speculate.NewScheduler(slots)
	return a
}

// begin starts a session.
func (a *arm) begin(t *playback) *armSession {
	ctx, leave := context.WithCancel(context.Background())
	s := &armSession{
		arm: a, t: t, ctx: ctx, leave: leave, scope: strconv.Itoa(t.p.sessions), slots: a.scheduler.NewClaims(t.s.ID),
		delivered: dedup.NewDelivered(), begun: make(map[callKey]int), ledger: newLedger(), base: a.now, count: newReport(t.s.ID),
	}
	s.chooser.Lease, s.chooser.Prefetcher = theLease, s
	if a.p.o.KeepTurns == 0 {
		s.chooser.Claims = s.slots
	}
	return s
}
