package daemon

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// What the two ends say to each other before the first message, a line of JSON each:
//
//	client  hello      version, folder, base variables
//	daemon  welcome    version, the names of further variables, or why not
//	client  further    those variables
//	daemon  an empty line, with which go, on Linux, the ends of two pipes: the messages'
//
// A hook says one hello, which is its report, and has been heard when it is welcome.
//
// The client sends nothing that was not asked for, so that nothing of its messages is read
// with these lines.
const (
	greetTimeout = 2 * time.Second // for all of it, at the daemon's end
	maxHello     = 1 << 20         // bytes of a line
)

// Kinds of connections.
const (
	kindSession = "session" // messages of one client
	kindPing    = "ping"    // nothing more: the welcome is the answer
	kindHook    = "hook"    // nothing more
)

type hello struct {
	Protocol    int               `json:"mcpschedd"`
	Kind        string            `json:"kind"`
	Dir         string            `json:"dir"`
	Env         []string          `json:"env"`            // NAME=value
	Only        string            `json:"only,omitempty"` // the one upstream that the client sees
	Repeated    []json.RawMessage `json:"repeated,omitempty"`
	Session     string            `json:"session,omitempty"` // as the reports of the client's hook name it
	Parent      int               `json:"parent,omitempty"`  // the process that the client is
	Reconnected bool              `json:"again,omitempty"`   // another daemon served the client before
	Report      *Report           `json:"report,omitempty"`  // of a hook
}

type welcome struct {
	Protocol int      `json:"mcpschedd"`
	Version  string   `json:"version"` // of the daemon's program
	Names    []string `json:"names,omitempty"`
	Refused  string   `json:"refused,omitempty"`
}

type extraEnv struct {
	Env []string `json:"env"`
}

// greet says hello to a daemon and reads its welcome.
func greet(conn conn, h hello, within time.Duration) (w welcome, err error) {
	if err := checkPeer(conn); err != nil {
		return w, err
	}
	_ = conn.SetDeadline(time.Now().Add(within)) // it is no file
	h.Protocol = Protocol
	if err := writeLine(conn, h); err != nil {
		return w, err
	}
	lines := bufio.NewReader(conn)
	if err := readLine(lines, &w); err != nil {
		return w, fmt.Errorf("daemon: %w", err)
	}
	switch {
	case w.Refused != "":
		return w, fmt.Errorf("daemon: %s", w.Refused)
	case w.Protocol != Protocol:
		return w, fmt.Errorf("daemon: want version %d of the protocol, have %d", Protocol, w.Protocol)
	case lines.Buffered() > 0:
		return w, errors.New("the daemon spoke out of turn")
	}
	return w, nil
}

// greetSession is greet for a session, and returns what its messages go through. The connection
// is closed if there is an error.
func greetSession(conn conn, h hello, within time.Duration) (stream, error) {
	w, err := greet(conn, h, within)
	if err == nil {
		err = writeLine(conn, extraEnv{selectNames(os.Environ(), w.Names)})
	}
	var s stream
	if err == nil {
		s, err = receiveStream(conn)
	}
	if err != nil {
		conn.Close()
	}
	_ = conn.SetDeadline(time.Time{}) // it may be closed
	return s, err
}

// stream is a connection for messages.
type stream struct {
	In  io.ReadCloser
	Out io.WriteCloser
}

func (s stream) close() {
	s.In.Close()
	s.Out.Close()
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// readLine reads one line of JSON; an unknown member is of a later version, and left out.
func readLine(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxHello {
			return fmt.Errorf("a line of more than %d bytes before the first message", maxHello)
		}
		switch {
		case err == nil:
			return json.Unmarshal(line, v)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
