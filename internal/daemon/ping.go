package daemon

import "time"

// A daemon that hangs is found within pingEvery*(maxSilent+1), 10 s, after a request. Pauses
// are counted rather than time, so that a client's end that is stopped itself, or a computer
// that sleeps, finds no daemon guilty.
const (
	pingEvery = 2 * time.Second // while a request is open
	maxSilent = 4               // pauses in which one ping may go without an answer
)

// pingState is what is known of the pings to one daemon. It is guarded by the connection's mutex.
type pingState struct {
	open   bool // a ping has no answer yet
	silent int  // pauses since it was sent
}

// next decides after a pause what to do: ping, wait for the answer, or give the daemon up.
func (p *pingState) next() (ping, hangs bool) {
	if !p.open {
		*p = pingState{open: true}
		return true, false
	}
	p.silent++
	return false, p.silent >= maxSilent
}

// startPingsLocked looks after the daemon from now on, as there is a request that it must answer.
func (c *connection) startPingsLocked() {
	if !c.watching {
		c.watching = true
		time.AfterFunc(c.o.PingEvery, c.checkDaemon)
	}
}

// look looks after the daemon, and goes on with that until no request is open. The connection
// to one that hangs is ended, and with it what the daemon has not read.
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
		c.o.Log.Error("the daemon does not answer; its connection is ended")
		c.link, c.watching = nil, false
		c.abandonLocked(0, errHung)
		l.close()
		return
	}
	time.AfterFunc(c.o.PingEvery, c.checkDaemon)
}

// ping asks the daemon whether it is there. One that takes no connection has ended, which the
// link to it shows.
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
