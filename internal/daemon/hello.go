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

// The handshake before the first message, one line of JSON each:
//
//	client  hello      version, folder, base variables
//	daemon  welcome    version, the names of the variables to send, or why it refuses
//	client  extraEnv   those variables
//	daemon  an empty line; on Linux with the ends of two pipes, which carry the messages
//
// A hook sends a hello with its report; the welcome acknowledges it.
//
// Neither end sends ahead, so no message can end up in the buffer that reads these lines.
const (
	greetTimeout = 10 * time.Second // for the whole handshake, on the daemon's side; longer than a busy machine takes
	maxHello     = 2 << 20          // bytes that one end sends
)

// Kinds of connections.
const (
	kindSession = "session" // carries the messages of one client
	kindPing    = "ping"    // ends with the welcome
	kindHook    = "hook"    // ends with the welcome
	kindStop    = "stop"    // ends with the welcome, and the daemon with it
)

// Hello is what a client says of itself.
type Hello struct {
	Protocol     int      `json:"mcpschedd"`
	Kind         string   `json:"kind"`
	Dir          string   `json:"dir"`                // working directory; absolute
	Env          []string `json:"env"`                // NAME=value
	Only         string   `json:"only,omitempty"`     // the only upstream that the client sees; empty for all
	Replayed     []string `json:"repeated,omitempty"` // raw ids of replayed requests, which a previous daemon may have sent on
	Session      string   `json:"session,omitempty"`  // session id in the reports of the client's hook; empty if not known
	Parent       int      `json:"parent,omitempty"`   // PID of the process that started connect, usually the client
	ServedBefore bool     `json:"again,omitempty"`    // another daemon served the client before
	Report       *Report  `json:"report,omitempty"`   // for kindHook
}

type welcome struct {
	Protocol int      `json:"mcpschedd"`
	Names    []string `json:"names,omitempty"`
	Refused  string   `json:"refused,omitempty"`
}

type extraEnv struct {
	Env []string `json:"env"`
}

// greet sends a hello to a daemon and reads its welcome.
func greet(conn conn, h Hello, within time.Duration) (w welcome, err error) {
	if err := checkPeer(conn); err != nil {
		return w, err
	}
	_ = conn.SetDeadline(time.Now().Add(within)) // sockets support deadlines
	h.Protocol = Protocol
	if err := writeLine(conn, h); err != nil {
		return w, err
	}
	if err := readLine(handshakeReader(conn), &w); err != nil {
		return w, fmt.Errorf("daemon: %w", err)
	}
	switch {
	case w.Refused != "":
		return w, fmt.Errorf("daemon: %s", w.Refused)
	case w.Protocol != Protocol:
		return w, fmt.Errorf("daemon: want version %d of the protocol, have %d", Protocol, w.Protocol)
	}
	return w, nil
}

// tell sends the daemon a hello that ends with the welcome, and waits for that. It returns nil if the daemon
// does not accept connections, as it has ended then.
func (p Place) tell(h Hello, within time.Duration) error {
	conn, err := dial(p)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_, err = greet(conn, h, within)
	return err
}

// greetSession completes the handshake for a session and returns the stream for its messages. It
// closes the connection on error.
func greetSession(conn conn, h Hello, within time.Duration) (stream, error) {
	w, err := greet(conn, h, within)
	if err == nil {
		err = writeLine(conn, extraEnv{filter(os.Environ(), func(name string) bool { return isIn(w.Names, name) })})
	}
	var s stream
	if err == nil {
		s, err = receiveStream(conn)
	}
	if err != nil {
		conn.Close()
	}
	_ = conn.SetDeadline(time.Time{}) // fails if the connection is closed
	return s, err
}

// stream carries the messages of a session.
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

// handshakeReader returns a reader for the lines of the handshake.
func handshakeReader(conn conn) *bufio.Reader {
	return bufio.NewReader(io.LimitReader(conn, maxHello))
}

// readLine reads one line of JSON. It ignores unknown members, which later versions may add.
func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadBytes('\n')
	if err == io.EOF && len(line) > 0 {
		err = errors.New("want a line of JSON that ends within 2 MiB")
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}
