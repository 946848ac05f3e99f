package replay

import (
	"slices"
	"time"
)

// clock is the simulated clock of one session of one arm, with its event queue. If an answer
// comes earlier than recorded, all later events of the session do too.
type clock struct {
	now    time.Duration // since the session began
	tick   uint64        // number of the current event
	events []event       // queue, ordered by time
}

// event is a function that runs at a time of the clock.
type event struct {
	at time.Duration
	do func()
}

// advance moves the clock forward to a time.
func (c *clock) advance(now time.Duration) {
	c.tick++
	c.now = max(c.now, now)
}

// after schedules an event after a delay, behind other events of the same time.
func (c *clock) after(d time.Duration, do func()) {
	e := event{c.now + d, do}
	at := slices.IndexFunc(c.events, func(o event) bool { return o.at > e.at })
	if at < 0 {
		at = len(c.events)
	}
	c.events = slices.Insert(c.events, at, e)
}

// next removes and returns the next event.
func (c *clock) next() event {
	e := c.events[0]
	c.events = c.events[1:]
	return e
}
