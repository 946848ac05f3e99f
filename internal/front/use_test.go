package front

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/age"
)

// unused is a session with nothing pending.
type unused struct {
	Session
	ctx context.Context
}

func (unused) Pending() (suspended, task bool) { return false, false }
func (unused) End(error)                       {}
func (s unused) Context() context.Context      { return s.ctx }

// A timer that fires while its session ends, twice after a sleep of the machine, is not
// set again: it would keep the session for ever.
func TestEndedSessionHasNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := use{of: unused{ctx: t.Context()}, limit: time.Hour, clock: age.Now}
		u.begin()
		u.leave()
		time.Sleep(2 * time.Hour)
		u.close()
		u.expire()
		if u.timer.Stop() {
			t.Error("the timer of a session that has ended is set")
		}
	})
}
