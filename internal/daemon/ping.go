package daemon

import "time"

// A daemon that hangs is detected within 2*(pingEvery+pingTimeout), 10 s, after a request. One ping
// without an answer is not enough: this process may have been stopped, or the computer asleep.
const (
	pingEvery   = 2 * time.Second // while a request is open
	pingTimeout = 3 * time.Second
	maxSilent   = 2 // pings without an answer, in a row, after which the daemon hangs
)

// watch pings the daemon while a request is open. If the daemon hangs, it answers the open requests
// with an error and closes the link, which discards unread messages.
func (c *connection) watch(l *link) {
	for silent := 0; silent < maxSilent; {
		time.Sleep(c.o.PingEvery)
		c.mu.Lock()
		l.watched = c.link == l && !c.conversation.idle()
		watched := l.watched
		c.mu.Unlock()
		if !watched {
			return
		}
		if silent++; c.ping() == nil {
			silent = 0
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == l {
		c.o.Log.Error("the daemon does not answer; closing the connection")
		c.link = nil
		c.abandonLocked(0, errHung)
		l.close()
	}
}

// ping pings the daemon on a new connection. If the daemon does not accept connections it has
// ended, which reading from the link detects.
func (c *connection) ping() error {
	conn, err := dial(c.o.Place)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_, err = greet(conn, Hello{Kind: kindPing}, min(pingTimeout, 2*c.o.PingEvery))
	return err
}
