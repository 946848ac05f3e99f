package mcptest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Gate is where servers, in whatever process, wait until a test lets them on.
// It takes the place of sleeping: a test learns that something has begun when
// it arrives, and that a process has ended when its connection does.
type Gate struct {
	t  testing.TB
	ln net.Listener
}

// limit bounds every wait of a test.
const limit = time.Minute

// NewGate opens a gate on loopback for the time of a test.
func NewGate(t testing.TB) *Gate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &Gate{t, ln}
}

// Addr is what a server is told.
func (g *Gate) Addr() string { return g.ln.Addr().String() }

// Visitor is one server that stands at a gate.
type Visitor struct {
	t    testing.TB
	conn net.Conn
	PID  int
}

// Next waits for the next server to arrive.
func (g *Gate) Next() *Visitor {
	g.t.Helper()
	g.ln.(*net.TCPListener).SetDeadline(time.Now().Add(limit))
	conn, err := g.ln.Accept()
	if err != nil {
		g.t.Fatalf("nobody came to the gate: %v", err)
	}
	g.t.Cleanup(func() { conn.Close() })
	v := &Visitor{t: g.t, conn: conn}
	if _, err := fmt.Fscan(bufio.NewReader(conn), &v.PID); err != nil {
		g.t.Fatalf("at the gate: %v", err)
	}
	return v
}

// Open lets the server on.
func (v *Visitor) Open() { v.conn.Close() }

// Gone waits until the server has left of its own accord: its process ended,
// or its call was cancelled.
func (v *Visitor) Gone() {
	v.t.Helper()
	v.conn.SetReadDeadline(time.Now().Add(limit))
	if _, err := io.Copy(io.Discard, v.conn); isTimeout(err) {
		v.t.Fatalf("process %d, or its call, goes on", v.PID)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// arrive goes to a gate.
func arrive(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(conn, os.Getpid()); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// standAt waits at a gate until it opens, or ctx ends.
func standAt(ctx context.Context, addr string) error {
	conn, err := arrive(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, conn) // however it ends
	return ctx.Err()
}
