// Package age says how old something is on a machine that may have slept.
//
// The one idea: neither clock of a machine can be trusted alone. The monotonic one
// stops while a laptop sleeps, the wall clock is set forward and back. So a moment
// is what both said, and an age is the larger of the two differences: after a night
// of sleep what was fetched in the evening is a night old, and a clock that is set
// back makes nothing younger.
//
//	began := age.Now()
//	...
//	age.Now().Since(began)  // how old it is
//	age.Now().Awake(began)  // how long the machine has been at work since
package age

import "time"

// Moment is what both clocks said.
type Moment struct {
	monotonic time.Duration // the monotonic clock, since some start
	wall      time.Duration // the wall clock, since 1970
}

// start is what the monotonic clock counts from, for its readings have no number of
// their own.
var start = time.Now()

// Now is what both clocks say.
func Now() Moment {
	t := time.Now()
	return Moment{t.Sub(start), time.Duration(t.UnixNano())}
}

// At is a moment that was recorded: so long after some start by the monotonic clock,
// and by the wall clock.
func At(awake, wall time.Duration) Moment { return Moment{awake, wall} }

// Since is how old something of an earlier moment is: by the clock that says more.
// It decides what is too old to be served, and how long a host was left alone.
func (m Moment) Since(earlier Moment) time.Duration {
	return max(m.monotonic-earlier.monotonic, m.wall-earlier.wall)
}

// Ago is the moment that long before m, by both clocks.
func (m Moment) Ago(d time.Duration) Moment { return Moment{m.monotonic - d, m.wall - d} }

// Monotonic is how long the machine has been at work since an earlier moment, whatever
// the wall clock says: how long something took, and what must not be over sooner
// because the wall clock was set forward.
func (m Moment) Monotonic(earlier Moment) time.Duration { return m.monotonic - earlier.monotonic }
