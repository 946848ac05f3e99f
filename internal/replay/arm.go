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

// Source is what an arm's prefetches come from.
type Source int

const (
	Forecast Source = iota
	Oracle          // the recording itself: the reads of the next turn that are no repeats
	Nothing         // there are none
)

// Arm is one way to prefetch, with a store, slots and throttles of its own.
type Arm struct {
	Name    string
	Source  Source
	Pick    enrich.Options    // Slots, Dollars and Think are filled in
	Dollars float64           // US dollars that the prefetches of one session may cost
	Slots   speculate.Options // its Deadline is in recorded time; default 30s
	Store   dedup.Options     // its Clock is filled in

	Watch bool // prefetches are picked and none is started
	Free  bool // slots, throttles and deadlines do not count: what is picked is started
}

// longest is how long a prefetch lives that no call waits for, as live.
const longest = 30 * time.Second

// never is a deadline in the computer's time, which has no say here.
const never = 1000 * time.Hour

// arm is an Arm at work.
type arm struct {
	rules     Arm
	p         *Player
	store     *dedup.Store
	scheduler *speculate.Scheduler
	deadline  time.Duration
	now       time.Duration // on the store's clock
	report    *tally

	// nil outside tests
	sabotage func(*dedup.Query)                      // breaks the rules by which the store is asked
	begun    func(turns int, tool, arguments string) // is told of each prefetch
}

func newArm(p *Player, rules Arm) *arm {
	a := &arm{rules: rules, p: p, deadline: cmp.Or(max(rules.Slots.Deadline, 0), longest), report: newTally()}
	a.rules.Pick.DefaultLead = p.o.Think
	a.rules.Pick.MaxTokens = rules.Pick.Budget / cmp.Or(max(rules.Slots.PerSession, 0), 3) // as live
	store := rules.Store
	store.Clock = func() age.Moment { return age.At(a.now, a.now) }
	if p.o.KeepTurns > 0 {
		store.Settle = 0 // it counts seconds, and the clock then turns
	}
	a.store = dedup.New(store)
	slots := rules.Slots
	slots.Deadline = never
	a.scheduler = speculate.New(slots)
	return a
}

// begin begins a session.
func (a *arm) begin(t *playing) *armSession {
	ctx, leave := context.WithCancel(context.Background())
	s := &armSession{
		arm: a, t: t, ctx: ctx, leave: leave, scope: strconv.Itoa(t.p.sessions), slots: a.scheduler.Session(t.s.ID),
		delivered: dedup.NewDelivered(), ledger: newLedger(), base: a.now, count: newTally(),
	}
	s.chooser.Upstream = upstreamID
	if !a.rules.Free {
		s.chooser.Session = s.slots
	}
	return s
}
