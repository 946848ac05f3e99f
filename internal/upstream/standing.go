package upstream

import (
	"sync/atomic"
	"time"
)

// Standing is how an upstream stands, over all of its instances.
type Standing struct {
	State     string    // idle: nothing is started; starting, ready or down
	Since     time.Time // when that began; zero: it was never started
	Error     string    // with which the last connection ended, or could not be made; "": none did
	Restarts  int64
	Processes []int // ids of those that run for it
}

// Stats is what happened at one upstream so far.
type Stats struct {
	Dropped    int64 `json:"notifications_dropped"` // it could not be told for which session they were
	Refused    int64 `json:"questions_refused"`     // likewise
	Unanswered int64 `json:"replies_dropped"`       // to pings and questions, of which too many came
	Repaired   int64 `json:"messages_repaired"`     // U+FFFD stands where they were not UTF-8
}

// counts is what happened at an upstream so far.
type counts struct {
	dropped, refused, unanswered, repaired atomic.Int64 // see Stats
	restarts                               atomic.Int64
	last                                   atomic.Pointer[string] // Standing.Error
}

// Stats tells what happened so far.
func (u *Upstream) Stats() Stats {
	c := &u.counts
	return Stats{Dropped: c.dropped.Load(), Refused: c.refused.Load(), Unanswered: c.unanswered.Load(), Repaired: c.repaired.Load()}
}

// Standing tells how the upstream stands now. One ready instance is enough for ready, as
// most sessions have one of their own.
func (u *Upstream) Standing() Standing {
	out := Standing{State: "idle", Restarts: u.counts.restarts.Load()}
	if last := u.counts.last.Load(); last != nil {
		out.Error = *last
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	rank := map[string]int{"idle": 0, "down": 1, "starting": 2, "ready": 3}
	for in := range u.instances {
		at := in.status.now()
		state := "starting"
		switch {
		case at.live != nil:
			state = "ready"
			if p, ok := at.live.link.(*process); ok {
				out.Processes = append(out.Processes, p.leader.Pid)
			}
		case at.away != nil:
			state = "down"
			out.Error = u.mask.Error(at.away).Error()
		case at.garbled:
			out.Error = errGarbled.Error()
		}
		if rank[state] > rank[out.State] || state == out.State && at.since.After(out.Since) {
			out.State, out.Since = state, at.since
		}
	}
	return out
}

// Offered is what the server offered last, to any client; nil: it is not known.
func (u *Upstream) Offered() *Offer {
	if offers := u.known.list(); len(offers) > 0 {
		return offers[0].Offer
	}
	return nil
}
