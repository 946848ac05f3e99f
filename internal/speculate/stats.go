package speculate

import (
	"maps"
	"slices"
	"time"
)

// counts are what happened since the scheduler was made.
type counts struct {
	Issued      int64            `json:"issued"`       // prefetches begun
	Expected    float64          `json:"expected"`     // of those: to be used, by their probabilities
	Used        int64            `json:"used"`         // a real call got the answer
	Late        int64            `json:"late"`         // of those: it came before the answer was there
	Wasted      int64            `json:"wasted"`       // of no use
	Compared    int64            `json:"compared"`     // only compared with a real answer; what is none of the three is open
	Dropped     int64            `json:"dropped"`      // cancelled because they no longer paid
	Preempted   int64            `json:"preempted"`    // cancelled because a real call came to a serial upstream
	Hung        int64            `json:"hung"`         // slots freed by the deadline
	Panics      int64            `json:"panics"`       // in Begin
	Refused     map[string]int64 `json:"refused"`      // reason → prefetches not begun
	Watched     int64            `json:"watched"`      // prefetches that were not to be started
	WatchedTrue int64            `json:"watched_true"` // of those: asked for in time
	Harm        HarmStats        `json:"harm"`

	waited time.Duration // of real calls for prefetches
}

// HarmStats is the harm done by prefetches.
type HarmStats struct {
	ForegroundWaitMS float64 `json:"foreground_wait_ms"` // that real calls waited for prefetches
	RateLimited      int64   `json:"rate_limited"`       // times a host said that it is called too often
	Evictions        int64   `json:"evictions"`          // of answers that a real call had asked for
	Questions        int64   `json:"questions"`          // to the client
}

// Stats is what is under way, and what happened since the scheduler was made.
type Stats struct {
	counts
	UnderWay int            `json:"under_way"`         // slots taken
	Hosts    map[string]int `json:"hosts"`             // host → level
	Sessions [levels]int    `json:"sessions_by_level"` // sessions at level 0 to 4
	Changes  int64          `json:"level_changes"`
}

// panicked is why a prefetch was not begun whose Begin panicked.
const panicked = "panic"

// refused counts a prefetch that was not begun. The reasons are a few words; of too many
// the later ones are "other".
func (d *Scheduler) refused(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := &d.counts
	if why == panicked {
		n.Panics++
	}
	if _, known := n.Refused[why]; !known && len(n.Refused) >= keepReasons {
		why = "other"
	}
	n.Refused[why]++
}

// Stats returns what there is to say of the scheduler.
func (d *Scheduler) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{counts: d.counts, UnderWay: d.underWay, Hosts: make(map[string]int), Sessions: d.levels, Changes: d.moves}
	s.Refused = maps.Clone(s.Refused)
	s.Harm.ForegroundWaitMS = float64(d.counts.waited) / float64(time.Millisecond)
	for _, h := range d.hosts.Values() {
		s.Hosts[h.name] = h.throttle.level
	}
	return s
}

// Change is a change of level, of a host or of a session.
type Change struct {
	At      time.Time `json:"at"`      // the latest time that was told before; a harm tells none
	Host    string    `json:"host"`    // of a host
	Session string    `json:"session"` // of a session; "": of a host
	From    int       `json:"from"`
	To      int       `json:"to"`
	Why     string    `json:"why"` // accuracy, watched, or which harm
}

func (d *Scheduler) changedLocked(c Change) {
	d.moves++
	c.At = d.latest
	if len(d.changes) == keepChanges {
		d.changes = slices.Delete(d.changes, 0, 1)
	}
	d.changes = append(d.changes, c)
}

// Changes returns the changes of level since it was last asked, oldest first; if
// they are many, the last 256.
func (d *Scheduler) Changes() []Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.changes
	d.changes = nil
	return all
}
