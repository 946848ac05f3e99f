package replay

import (
	"slices"
	"time"
)

// clock is the time of one session under one arm, with what is to come: an answer that comes
// early makes all that follows come early.
type clock struct {
	now    time.Duration // since the session began
	tick   uint64        // numbers what happens
	events []event       // to come, in order
}

// event is something that happens at a time of the clock.
type event struct {
	at time.Duration
	do func()
}

// set goes on to a time, unless that is over.
func (c *clock) set(now time.Duration) {
	c.tick++
	c.now = max(c.now, now)
}

// after has something happen later, behind what happens at the same time.
func (c *clock) after(d time.Duration, do func()) {
	e := event{c.now + d, do}
	at := slices.IndexFunc(c.events, func(o event) bool { return o.at > e.at })
	if at < 0 {
		at = len(c.events)
	}
	c.events = slices.Insert(c.events, at, e)
}

// next takes off what happens next.
func (c *clock) next() event {
	e := c.events[0]
	c.events = c.events[1:]
	return e
}
