package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"sync"
	"time"
)

const (
	pingEvery = 10 * time.Second // while a request is open
	pingWait  = 10 * time.Second // for the answer
)

// watch pings the daemon, on a connection of its own, while it has a request to answer. One
// that does not answer hangs: the client's connection is ended then, and with it what the
// daemon has not read.
func (c *connection) watch(ctx context.Context) *sync.WaitGroup {
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(pingEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			c.mu.Lock()
			l, waits := c.link, !c.open.idle()
			c.mu.Unlock()
			if l != nil && waits && ping(ctx, c.o.Place) != nil && ctx.Err() == nil {
				c.o.Log.Error("the daemon does not answer; its connection is ended", "waited", pingWait)
				l.close()
			}
		}
	})
	return &work
}

// ping asks the daemon whether it is there.
func ping(ctx context.Context, p Place) error {
	conn, err := dial(p)
	if err != nil {
		return nil // it has ended, which its connection shows
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := greet(conn, hello{Kind: kindPing}, pingWait); err != nil {
		return err
	}
	return alive(conn)
}

func alive(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(pingWait)); err != nil {
		return err
	}
	if err := writeLine(conn, "ping"); err != nil {
		return err
	}
	var answer json.RawMessage
	return readLine(bufio.NewReader(conn), &answer)
}
