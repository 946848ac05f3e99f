package upstream

import (
	"context"
	"sync"
	"time"
)

// Over HTTP each reply to a server is a POST, and a server may ping faster than it
// takes them.
const (
	repliesAtOnce  = 8                // that are on their way over one connection
	repliesWaiting = 256              // those that wait for that
	replyBytes     = 64 << 10         // of those that wait, together
	replyTime      = 30 * time.Second // for one to be taken
)

// replies are the proxy's own replies to a server: to pings, and refusals of questions.
// They are sent in order, a few at once. If the server has not taken too many of them,
// further ones are dropped and counted.
type replies struct {
	c *conn

	mu      sync.Mutex
	sent    int      // not taken so far
	waiting [][]byte // to be sent
	bytes   int      // of waiting
}

func (r *replies) send(line []byte) {
	r.mu.Lock()
	if r.sent == repliesAtOnce {
		if len(r.waiting) == repliesWaiting || r.bytes+len(line) > replyBytes {
			r.c.in.up.counts.unanswered.Add(1)
		} else {
			r.waiting = append(r.waiting, line)
			r.bytes += len(line)
		}
		r.mu.Unlock()
		return
	}
	r.sent++
	r.mu.Unlock()
	r.post(line)
}

// post sends a reply, and then the next one that waits.
func (r *replies) post(line []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), replyTime)
	err := r.c.link.send(ctx, outgoing{line: line, taken: func() {
		cancel()
		if next := r.taken(); next != nil {
			r.post(next)
		}
	}})
	if err == nil {
		return
	}
	cancel()
	r.mu.Lock() // the server is gone, or reads nothing
	r.sent--
	r.waiting, r.bytes = nil, 0
	r.mu.Unlock()
	r.c.in.up.log.Debug("reply not sent", "upstream", r.c.in.up.spec.Name, "err", err)
}

// taken notes that a reply was taken, and returns the one that has waited longest to
// be sent in its place; nil: there is none.
func (r *replies) taken() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.sent--
		r.waiting = nil
		return nil
	}
	line := r.waiting[0]
	r.waiting = r.waiting[1:]
	r.bytes -= len(line)
	return line
}
