package daemon

import "time"

// A daemon that hangs is found within pingEvery*(mostSilent+1), 10 s, after a request. Pauses
// are counted rather than time, so that a client's end that is stopped itself, or a computer
// that sleeps, finds no daemon guilty.
const (
	pingEvery  = 2 * time.Second // while a request is open
	mostSilent = 4               // pauses in which one ping may go without an answer
)

// pinging is what is known of the pings to one daemon. It is guarded by the connection's mutex.
type pinging struct {
	open   bool // a ping has no answer yet
	silent int  // pauses since it was sent
}

// next decides after a pause what to do: ping, wait for the answer, or give the daemon up.
func (p *pinging) next() (ping, hangs bool) {
	if !p.open {
		*p = pinging{open: true}
		return true, false
	}
	p.silent++
	return false, p.silent >= mostSilent
}

// watchLocked looks after the daemon from now on, as there is a request that it must answer.
func (c *connection) watchLocked() {
	if !c.watched {
		c.watched = true
		time.AfterFunc(c.o.PingEvery, c.look)
	}
}

// look looks after the daemon, and goes on with that until no request is open. The connection
// to one that hangs is ended, and with it what the daemon has not read.
func (c *connection) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched = c.link != nil && !c.hungUp && !c.open.idle(); !c.watched {
		return
	}
	l := c.link
	ping, hangs := l.pings.next()
	if ping {
		go c.ping(l)
	}
	if hangs {
		c.o.Log.Error("the daemon does not answer; its connection is ended")
		c.link, c.watched = nil, false
		c.abandonLocked(0, errHangs)
		l.close()
		return
	}
	time.AfterFunc(c.o.PingEvery, c.look)
}

// ping asks the daemon whether it is there. One that takes no connection has ended, which the
// link to it shows.
func (c *connection) ping(l *link) {
	conn, err := dial(c.o.Place)
	if err == nil {
		_, err = greet(conn, hello{Kind: kindPing}, mostSilent*c.o.PingEvery)
		conn.Close()
		if err != nil {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.pings.open = false
}
