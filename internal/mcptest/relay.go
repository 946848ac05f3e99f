package mcptest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// relay makes the process a pipe between its client and a server elsewhere, so
// that what it serves is the state of another process. It ends with either.
func relay(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(conn, stdin) // however it ends, the client has gone
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return errors.New("the other end has hung up")
}

// Serve serves the one client at the other end of a relay until either hangs
// up. What is under way then goes on: a back end may still do what it was told
// after the process that passed it on has died.
func (s *Server) Serve(conn net.Conn) {
	defer conn.Close()
	var writing sync.Mutex
	send := func(line []byte) {
		writing.Lock()
		defer writing.Unlock()
		_, _ = conn.Write(append(bytes.Clone(line), '\n')) // the peer may have gone
	}
	client, id := s.session(send), conn.RemoteAddr().String()
	s.mu.Lock()
	s.sessions[id] = client
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.sessions, id)
		s.mu.Unlock()
	}()
	for lines := jsonrpc.NewReader(conn, 0); ; {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			return // cut off in the middle
		}
		if serve := client.take(context.Background(), m, send); serve != nil {
			go serve()
		}
	}
}
