package upstream

import (
	"context"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// Over HTTP each reply to a server is a POST, and a server may ask faster than it
// takes them.
const (
	repliesAtOnce  = 8                // replies of the proxy's own that are on their way over one connection
	repliesWaiting = 256              // those that wait for that
	replyBytes     = 64 << 10         // of those that wait, together
	replyTime      = 30 * time.Second // for one to be taken
)

// replies are what is on its way to a server that pings or asks; guarded by
// conn.mu.
type replies struct {
	answers int      // of clients, not taken so far
	sent    int      // of the proxy's own, likewise
	waiting [][]byte // of the proxy's own
	bytes   int      // of waiting
}

// refuse answers a question with an error of the proxy's own.
func (c *conn) refuse(id []byte, code int, why string) {
	err := &jsonrpc.Error{Code: code, Message: why}
	c.reply(jsonrpc.AppendError(nil, id, err.Append(nil)))
}

// reply sends a reply of the proxy's own in its turn, or not at all if too many
// have not been taken.
func (c *conn) reply(line []byte) {
	c.mu.Lock()
	r := &c.replies
	now := r.sent < repliesAtOnce
	later := !now && len(r.waiting) < repliesWaiting && r.bytes+len(line) <= replyBytes
	switch {
	case now:
		r.sent++
	case later:
		r.waiting = append(r.waiting, line)
		r.bytes += len(line)
	}
	c.mu.Unlock()
	switch {
	case now:
		c.sendReply(line)
	case !later:
		c.counts.unanswered.Add(1)
	}
}

func (c *conn) sendReply(line []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), replyTime)
	taken := func() {
		cancel()
		if next := c.nextReply(); next != nil {
			c.sendReply(next)
		}
	}
	if err := c.link.send(ctx, outgoing{line: line, taken: taken}); err != nil {
		cancel()
		c.mu.Lock() // the server is gone, or reads nothing
		c.replies.sent--
		c.replies.waiting, c.replies.bytes = nil, 0
		c.mu.Unlock()
		c.log.Debug("reply not sent", "upstream", c.name, "err", err)
	}
}

// nextReply takes the reply that has waited longest; nil: there is none.
func (c *conn) nextReply() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.replies
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

// answer sends a client's answer, which is counted in replies.answers.
func (c *conn) answer(line []byte) {
	if err := c.link.send(context.Background(), outgoing{line: line, taken: c.answerTaken}); err != nil {
		c.answerTaken()
		c.log.Debug("answer not sent", "upstream", c.name, "err", err)
	}
}

func (c *conn) answerTaken() {
	c.mu.Lock()
	c.replies.answers--
	c.mu.Unlock()
}
