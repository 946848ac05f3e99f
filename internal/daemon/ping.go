package daemon

import "time"

// A daemon that hangs is detected within pingEvery*(maxSilent+1), 10 s, after a request. The
// code counts intervals instead of measuring time, so that a stopped connect process or a
// sleeping computer does not blame the daemon.
const (
	pingEvery = 2 * time.Second // while a request is open
	maxSilent = 4               // intervals without an answer after which the daemon hangs
)

// pingState is the state of the pings to one daemon, guarded by connection.mu.
type pingState struct {
	open   bool // a ping is unanswered
	silent int  // intervals since it was sent
}

// next decides after each interval whether to send a ping, and whether the daemon hangs.
func (p *pingState) next() (ping, hangs bool) {
	if !p.open {
		*p = pingState{open: true}
		return true, false
	}
	p.silent++
	return false, p.silent >= maxSilent
}

// startPingsLocked starts the checks of the daemon, which continue while a request is open.
func (c *connection) startPingsLocked() {
	if !c.watching {
		c.watching = true
		time.AfterFunc(c.o.PingEvery, c.checkDaemon)
	}
}

// checkDaemon runs after each interval while a request is open. If the daemon hangs, it answers
// the open requests with an error and closes the link, which discards unread messages.
func (c *connection) checkDaemon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watching = c.link != nil && !c.closed && !c.conversation.idle(); !c.watching {
		return
	}
	l := c.link
	ping, hangs := l.pings.next()
	if ping {
		go c.ping(l)
	}
	if hangs {
		c.o.Log.Error("the daemon does not answer; closing the connection")
		c.link, c.watching = nil, false
		c.abandonLocked(0, errHung)
		l.close()
		return
	}
	time.AfterFunc(c.o.PingEvery, c.checkDaemon)
}

// ping pings the daemon on a new connection. If the daemon does not accept connections it has
// ended, which reading from the link detects.
func (c *connection) ping(l *link) {
	conn, err := dial(c.o.Place)
	if err == nil {
		_, err = greet(conn, hello{Kind: kindPing}, maxSilent*c.o.PingEvery)
		conn.Close()
		if err != nil {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.pings.open = false
}
