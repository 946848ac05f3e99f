package replay

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

// Source says where an arm's candidates come from.
type Source int

const (
	Forecast Source = iota // the learner
	Oracle                 // the recording: the reads of the next turn, except repeats
	Nothing                // no prefetches
)

// Arm is one configuration of prefetching, with a store, slots and throttles of its own.
type Arm struct {
	Name    string
	Source  Source
	Pick    enrich.Options    // Slots, Dollars, MaxTokens and DefaultLead are set by the replay
	Dollars float64           // limit of the prefetches of one session, in US dollars
	Slots   speculate.Options // Deadline is in recorded time; default 30 s
	Store   dedup.Options     // Clock is set by the replay

	Watch bool // choose prefetches but start none
}

// defaultDeadline ends a prefetch that no call waits for; the proxy has the same.
const defaultDeadline = 30 * time.Second

// noDeadline disables deadlines in real time, which do not apply here.
const noDeadline = 1000 * time.Hour

// arm is the state of an Arm.
type arm struct {
	rules     Arm
	p         *Player
	store     *dedup.Store
	scheduler *speculate.Scheduler
	deadline  time.Duration
	now       time.Duration // time of the store's clock
	report    *tally

	// Hooks for tests; nil otherwise.
	sabotage   func(*dedup.Query)                      // modifies the queries to the store
	onPrefetch func(turns int, tool, arguments string) // called with each prefetch
}

func newArm(p *Player, rules Arm) *arm {
	a := &arm{rules: rules, p: p, deadline: cmp.Or(max(rules.Slots.Deadline, 0), defaultDeadline), report: newTally()}
	a.rules.Pick.DefaultLead = p.o.Think
	a.rules.Pick.MaxTokens = rules.Pick.Budget / cmp.Or(max(rules.Slots.PerSession, 0), 3) // as in the proxy
	store := rules.Store
	store.Clock = func() age.Moment { return age.At(a.now, a.now) }
	a.store = dedup.New(store)
	slots := rules.Slots
	slots.Deadline = noDeadline
	a.scheduler = speculate.New(slots)
	return a
}

// begin starts a session.
func (a *arm) begin(t *playback) *armSession {
	ctx, leave := context.WithCancel(context.Background())
	s := &armSession{
		arm: a, t: t, ctx: ctx, leave: leave, scope: strconv.Itoa(t.p.sessions), slots: a.scheduler.Session(t.s.ID),
		delivered: dedup.NewDelivered(), ledger: newLedger(), base: a.now, count: newTally(),
	}
	s.chooser.Upstream = theUpstream
	if a.p.o.KeepTurns == 0 {
		s.chooser.Session = s.slots
	}
	return s
}
