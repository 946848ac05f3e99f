package mcptest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Gate is a listener at which servers in any process block until a test releases them.
// It replaces sleeping: an accepted connection shows that something has begun, and the
// end of the connection that its process has exited.
type Gate struct {
	t  testing.TB
	ln net.Listener
}

// limit is the longest wait in a test.
const limit = time.Minute

// NewGate returns a gate on a loopback port, closed at the end of the test.
func NewGate(t testing.TB) *Gate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &Gate{t, ln}
}

// Addr returns the address of the gate, for the server's options or arguments.
func (g *Gate) Addr() string { return g.ln.Addr().String() }

// Visitor is a server that waits at a gate.
type Visitor struct {
	t    testing.TB
	conn net.Conn
	PID  int
}

// Next waits for the next server's connection.
func (g *Gate) Next() *Visitor {
	g.t.Helper()
	g.ln.(*net.TCPListener).SetDeadline(time.Now().Add(limit))
	conn, err := g.ln.Accept()
	if err != nil {
		g.t.Fatalf("no server connected to the gate: %v", err)
	}
	g.t.Cleanup(func() { conn.Close() })
	v := &Visitor{t: g.t, conn: conn}
	if _, err := fmt.Fscan(bufio.NewReader(conn), &v.PID); err != nil {
		g.t.Fatalf("reading the process id at the gate: %v", err)
	}
	return v
}

// Open releases the server.
func (v *Visitor) Open() { v.conn.Close() }

// Gone waits until the server has disconnected by itself, because its process exited or
// its call was cancelled.
func (v *Visitor) Gone() {
	v.t.Helper()
	v.conn.SetReadDeadline(time.Now().Add(limit))
	if _, err := io.Copy(io.Discard, v.conn); errors.Is(err, os.ErrDeadlineExceeded) {
		v.t.Fatalf("process %d or its call is still running", v.PID)
	}
}

// dialGate connects to a gate and sends the process id.
func dialGate(ctx context.Context, addr string) (net.Conn, error) {
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

// waitAtGate waits at a gate until it opens or ctx is done.
func waitAtGate(ctx context.Context, addr string) error {
	conn, err := dialGate(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, conn) // returns when the gate opens or ctx is done
	return ctx.Err()
}
