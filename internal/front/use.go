package front

import (
	"sync"
	"time"

	"mcpschedd/internal/age"
)

// use is what of a session is open: requests and streams. One of which nothing has been
// open for a while is idle, may make room for another, and ends in the end.
type use struct {
	of    Session
	limit time.Duration // after which an idle session ends
	clock func() age.Moment

	mu    sync.Mutex // its holder may ask the session what is pending
	open  int        // requests and streams
	left  age.Moment // when open fell to 0
	over  bool       // the session has ended, or is about to
	timer *time.Timer
}

// begin is the first use, of the request that begins the session.
func (u *use) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open = 1
	u.timer = time.AfterFunc(u.limit, u.expire)
}

// enter keeps the session from ending as idle until leave; false: it has ended. Timers
// stop while the machine sleeps, so the age is looked at here as well.
func (u *use) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over || u.of.Context().Err() != nil {
		return false
	}
	if u.idleForLocked(u.clock()) >= u.limit && u.idleLocked() {
		u.timer.Reset(0)
		return false
	}
	u.open++
	return true
}

func (u *use) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open--; u.open == 0 {
		u.left = u.clock()
	}
}

// idleForLocked is how long no request or stream has been open.
func (u *use) idleForLocked(now age.Moment) time.Duration {
	if u.open > 0 {
		return 0
	}
	return now.Since(u.left)
}

// idleLocked reports whether nothing is open. A call that waits for its client's
// answers is open too.
func (u *use) idleLocked() bool {
	if u.open > 0 || u.over {
		return false
	}
	suspended, _ := u.of.Pending()
	return !suspended
}

// state says whether the session may make room for another, and how long it has been
// idle, or whether it is over. One with a task that runs makes no room, although
// nothing of it is open between two questions about the task: it ends only when it
// has been idle for long.
func (u *use) state(now age.Moment) (idle bool, since time.Duration, over bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, task := u.of.Pending()
	return u.idleLocked() && !task, u.idleForLocked(now), u.over || u.of.Context().Err() != nil
}

// retire lets no request into the session any more; false: it is not idle.
func (u *use) retire() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.idleLocked() {
		return false
	}
	u.over = true
	return true
}

// expire ends the session if it has been idle for long enough, and else looks again
// when it may have been.
func (u *use) expire() {
	if u.expired() {
		u.of.End(errIdle)
	}
}

// expired is retire for a session that has been idle for long enough; for another one
// that is not over it sets the timer anew.
func (u *use) expired() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	wait := u.limit - u.idleForLocked(u.clock())
	switch {
	case u.over:
		return false // close has stopped the timer, or will
	case wait > 0:
		u.timer.Reset(wait)
		return false
	case !u.idleLocked():
		u.timer.Reset(u.limit)
		return false
	}
	u.over = true
	return true
}

// close lets no request into the session, which ends.
func (u *use) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	u.timer.Stop()
}
