//go:build unix

package daemon

import (
	"context"
	"io"
	"net"
	"time"
)

func init() { hookDeadline = time.Hour }

// SendStream calls sendStream.
func SendStream(c net.Conn) (in io.ReadCloser, out io.WriteCloser, err error) {
	s, err := sendStream(c.(conn))
	return s.In, s.Out, err
}

// CheckSocket calls checkSocket.
func (l *Listener) CheckSocket() { l.checkSocket(context.Background()) }

// StateDir returns the state folder of a place.
func (p Place) StateDir() string { return p.stateDir }
