package proxy

import (
	"sync"
	"time"
)

// throttle calls a function when it is triggered: at once after a pause, else an interval
// after the first trigger since the last call.
type throttle struct {
	interval time.Duration
	call     func()

	mu      sync.Mutex
	timer   *time.Timer // makes the call that is due; nil: none is
	last    time.Time   // of the last call
	stopped bool
	calls   sync.WaitGroup // due or under way
}

// trigger has the function called, unless a call is due already.
func (t *throttle) trigger() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil || t.stopped {
		return
	}
	wait := time.Duration(0)
	if time.Since(t.last) < t.interval {
		wait = t.interval
	}
	t.calls.Add(1)
	t.timer = time.AfterFunc(wait, t.fire)
}

func (t *throttle) fire() {
	defer t.calls.Done()
	t.mu.Lock()
	t.timer, t.last = nil, time.Now()
	stopped := t.stopped
	t.mu.Unlock()
	if !stopped {
		t.call()
	}
}

// stop has the function called no more, and waits for a call under way.
func (t *throttle) stop() {
	t.mu.Lock()
	t.stopped = true
	if t.timer != nil && t.timer.Stop() {
		t.calls.Done()
	}
	t.mu.Unlock()
	t.calls.Wait()
}
