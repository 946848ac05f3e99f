// Package age measures how old something is on a machine that may sleep, and writes times for people.
//
// Neither clock of a machine can be trusted alone: the monotonic clock may stop while a laptop
// sleeps, and the wall clock may be set forward or back. A Moment therefore holds a reading of
// both, and an age is the larger of the two differences. After a night of sleep an answer from
// the evening is a night old, and a clock that was set back makes nothing younger than the time that
// the machine has been awake.
//
//	began := age.Now()
//	...
//	age.Now().Since(began)      // age, including time asleep
//	age.Now().Monotonic(began)  // time elapsed while the machine was awake
package age

import (
	"strings"
	"time"
)

// Moment is a reading of both clocks.
type Moment struct {
	monotonic time.Duration // since the program started
	wall      time.Duration // since 1970
}

// start is the origin of monotonic readings, which the time package does not expose as numbers.
var start = time.Now()

// Now returns the current reading of both clocks.
func Now() Moment {
	t := time.Now()
	return Moment{t.Sub(start), time.Duration(t.UnixNano())}
}

// At returns a moment of simulated clocks, each of which counts from an origin of its own.
func At(monotonic, wall time.Duration) Moment { return Moment{monotonic, wall} }

// Since returns the age at m of something that happened at earlier: the larger difference of the
// two clocks. It decides whether an answer is too old to be served.
func (m Moment) Since(earlier Moment) time.Duration {
	return max(m.monotonic-earlier.monotonic, m.wall-earlier.wall)
}

// Ago returns the moment d before m.
func (m Moment) Ago(d time.Duration) Moment { return Moment{m.monotonic - d, m.wall - d} }

// Monotonic returns the time from earlier to m by the monotonic clock. Use it to measure how long
// something took, and for waits that must not end early when the wall clock is set forward.
func (m Moment) Monotonic(earlier Moment) time.Duration { return m.monotonic - earlier.monotonic }

// Text returns a duration as it would be written in a configuration: "1m" and not "1m0s", and "650ms"
// and not "650.77238ms".
func Text(d time.Duration) string {
	text := d.Round(time.Millisecond).String()
	for _, zero := range []string{"0s", "0m"} {
		if short := strings.TrimSuffix(text, zero); strings.HasSuffix(short, "m") || strings.HasSuffix(short, "h") {
			text = short
		}
	}
	return text
}
