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

// relay copies bytes between stdio and the server at addr, whose state then survives this
// process. The process exits when either side closes its connection.
func relay(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(conn, stdin) // ends when the client has disconnected
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return errors.New("the server closed the connection")
}

// Serve serves the client at the other end of a relay until either side disconnects.
// Requests that are running then continue: a back end may still carry out a request after
// the process that forwarded it has exited.
func (s *Server) Serve(conn net.Conn) {
	defer conn.Close()
	var writing sync.Mutex
	send := func(line []byte) {
		writing.Lock()
		defer writing.Unlock()
		_, _ = conn.Write(append(bytes.Clone(line), '\n')) // the peer may have disconnected
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
			return // the line is truncated
		}
		if serve := client.take(context.Background(), m, send); serve != nil {
			go serve()
		}
	}
}
