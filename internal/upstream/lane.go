package upstream

import (
	"context"
	"sync"
)

// lane keeps the requests of one session to one server in the order in which
// they arrived, whatever each of them waits for before it can be sent.
type lane struct {
	mu   sync.Mutex
	tail chan struct{} // closed once the last turn taken has been left; nil at first
}

// Turn is one place in a lane.
type Turn struct {
	before <-chan struct{} // nil: nobody is ahead
	own    *turnEnd
}

type turnEnd struct {
	once sync.Once
	left chan struct{}
}

func (l *lane) take() Turn {
	own := &turnEnd{left: make(chan struct{})}
	l.mu.Lock()
	t := Turn{before: l.tail, own: own}
	l.tail = own.left
	l.mu.Unlock()
	return t
}

// free reports whether every earlier turn has been left.
func (t Turn) free() bool {
	if t.before == nil {
		return true
	}
	select {
	case <-t.before:
		return true
	default:
		return false
	}
}

// wait returns when every earlier turn has been left, or ctx has ended.
func (t Turn) wait(ctx context.Context) error {
	if t.free() {
		return nil
	}
	select {
	case <-t.before:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave lets the next one go, once all earlier ones have gone. It may be
// called again, and on a turn never taken.
func (t Turn) Leave() {
	if t.own == nil {
		return
	}
	t.own.once.Do(func() {
		if t.free() {
			close(t.own.left)
			return
		}
		go func() { // its own caller has given up; those ahead still go first
			<-t.before
			close(t.own.left)
		}()
	})
}
