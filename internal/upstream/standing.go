package upstream

import (
	"sync"
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

// troubles are what has gone wrong so far.
type troubles struct {
	mu       sync.Mutex
	last     error // without secrets
	restarts int64
}

// note takes down why a connection ended, and whether another is made.
func (t *troubles) note(err error, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = err
	if again {
		t.restarts++
	}
}

// Standing tells how the upstream stands now. One ready instance is enough for ready, as
// most sessions have one of their own.
func (u *Upstream) Standing() Standing {
	out := Standing{State: "idle"}
	u.troubles.mu.Lock()
	out.Restarts = u.troubles.restarts
	if u.troubles.last != nil {
		out.Error = u.troubles.last.Error()
	}
	u.troubles.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	rank := map[string]int{"idle": 0, "down": 1, "starting": 2, "ready": 3}
	for in := range u.instances {
		at, _ := in.status.now()
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
