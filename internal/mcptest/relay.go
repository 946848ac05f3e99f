package mcptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// relay copies bytes between stdio and the server at addr, so that the server's state outlives
// this process. The process exits when either side closes its connection.
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
	send := lineWriter(conn)
	client, id := s.session(send), conn.RemoteAddr().String()
	s.mu.Lock()
	s.sessions[id] = client
	s.mu.Unlock()
	defer s.end(id)
	_ = readMessages(conn, func(m jsonrpc.Message) { // on an error the line is truncated
		if serve := client.take(context.Background(), m, send); serve != nil {
			go serve()
		}
	})
}

// readMessages passes each message in r to take until the client disconnects. It returns an error
// for an invalid message.
func readMessages(r io.Reader, take func(jsonrpc.Message)) error {
	for lines := jsonrpc.NewReader(r, 0); ; {
		line, err := lines.Next()
		if err != nil {
			return nil
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			return fmt.Errorf("the client sent %q: %w", line, err)
		}
		take(m)
	}
}

// lineWriter returns a function that writes a line, from any goroutine.
func lineWriter(w io.Writer) func(line []byte) {
	var mu sync.Mutex
	return func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = w.Write(append(bytes.Clone(line), '\n')) // the client may have disconnected, which ends the reading
	}
}
