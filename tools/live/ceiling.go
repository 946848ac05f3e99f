package main

import "time"

// Defaults of the configuration that bound what can be prefetched.
const (
	slots  = 3
	settle = 2 * time.Second  // time after a write in which nothing is prefetched
	maxAge = 30 * time.Second // of a prefetched answer
)

// oracle plays a session with prefetches of exactly the reads that will come. It knows nothing
// before the first answer, and does not delay calls at a serial server.
type oracle struct {
	session *session
	cell    cell
	order   []int                 // calls, as they are made
	next    int                   // calls before it in order were made or prefetched
	began   map[int]time.Duration // call → when its prefetch was sent
	free    [slots]time.Duration  // when each slot, or a serial server, is free
	from    time.Duration         // no prefetch is sent earlier; set by a write
}

// ceiling returns how many counted reads the best possible prefetcher would cover.
func (s *session) ceiling(steps []step, c cell) (covered int) {
	o := &oracle{session: s, cell: c, began: make(map[int]time.Duration)}
	for _, t := range steps {
		o.order = append(o.order, t.calls...)
	}
	var now time.Duration
	made := 0
	for i, t := range steps {
		at := now + t.pause
		if i > 0 {
			o.fetch(now, at, made+len(t.calls))
		}
		made += len(t.calls)
		o.next = max(o.next, made)
		now = at
		for _, index := range t.calls {
			call := &s.Calls[index]
			began, early := o.began[index]
			if early = early && at-began <= maxAge; early && call.Counts {
				covered++
			}
			now = max(now, o.answered(at, began, early))
			if !call.Reads {
				clear(o.began)
				o.next, o.from = made, now+settle
			}
		}
		if i > 0 && !c.Serial {
			o.fetch(at, now, made)
		}
	}
	return covered
}

// answered returns when a call made at a time gets its answer.
func (o *oracle) answered(at, began time.Duration, early bool) time.Duration {
	switch {
	case early:
		return max(at, began+o.cell.Takes)
	case !o.cell.Serial:
		return at + o.cell.Takes
	}
	o.free[0] = max(at, o.free[0]) + o.cell.Takes
	return o.free[0]
}

// fetch sends, in order, the prefetches before soon that fit between since and until, when the
// next calls are made.
func (o *oracle) fetch(since, until time.Duration, soon int) {
	for ; o.next < len(o.order); o.next++ {
		call := &o.session.Calls[o.order[o.next]]
		if !call.Reads {
			return // a write invalidates earlier prefetches
		}
		if !call.Counts {
			continue
		}
		slot := 0
		for i := range o.free {
			if !o.cell.Serial && o.free[i] < o.free[slot] {
				slot = i
			}
		}
		at := max(since, o.from, o.free[slot])
		if at >= until || o.cell.Serial && o.next >= soon && at+o.cell.Takes > until {
			return
		}
		o.began[o.order[o.next]] = at
		o.free[slot] = at + o.cell.Takes
	}
}
