package limit

import "time"

// hour counts what began within the last hour, by the minute. Any hour touches at
// most 61 of them, and all 61 are counted: never too little, and a place comes
// back at most a minute late.
type hour struct {
	start   time.Time // of minute 0
	now     int       // the latest minute
	minutes [61]int   // minute modulo 61 → how many began in it
	sum     int       // of minutes
}

func newHour(now time.Time) *hour { return &hour{start: now} }

// begun is how many began within the hour before now.
func (h *hour) begun(now time.Time) int {
	minute := int(now.Sub(h.start) / time.Minute)
	if minute >= h.now+len(h.minutes) {
		h.minutes, h.sum, h.now = [61]int{}, 0, minute
	}
	for h.now < minute {
		h.now++
		old := &h.minutes[h.now%len(h.minutes)]
		h.sum -= *old
		*old = 0
	}
	return h.sum
}

// add counts one that begins now.
func (h *hour) add(now time.Time) {
	h.begun(now)
	h.minutes[h.now%len(h.minutes)]++
	h.sum++
}
