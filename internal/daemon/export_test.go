//go:build unix

package daemon

import (
	"context"
	"io"
	"net"
	"time"

	"mcpschedd/internal/jsonrpc"
)

func init() { HookTimeout, hookDeadline, stableAfter = time.Hour, time.Hour, time.Hour }

// SetStableAfter sets stableAfter.
func SetStableAfter(d time.Duration) { stableAfter = d }

// DaemonEnv calls daemonEnv.
func DaemonEnv(environ []string) []string { return daemonEnv(environ) }

// SendStream calls sendStream.
func SendStream(c net.Conn) (in io.ReadCloser, out io.WriteCloser, err error) {
	s, err := sendStream(c.(conn))
	return s.In, s.Out, err
}

// Idle reports whether a client that has sent these messages awaits no answer.
func Idle(lines ...string) bool {
	var c conversation
	for _, line := range lines {
		m, _ := jsonrpc.Parse([]byte(line))
		c.sent(&m)
	}
	return len(c.awaited()) == 0
}

// Starting returns the path of the lock that is held while a daemon is started.
func (p Place) Starting() string { return p.starting }

// CheckSocket calls checkSocket.
func (l *Listener) CheckSocket() { l.checkSocket(context.Background()) }

// StateDir returns the state folder of a place.
func (p Place) StateDir() string { return p.stateDir }
