//go:build !linux

package daemon

import "io"

// sendStream ends the handshake. The connection itself carries the messages.
func sendStream(c conn) (stream, error) {
	_, err := c.Write([]byte("\n"))
	return stream{c, c}, err
}

// receiveStream reads the end of the handshake on the client's side.
func receiveStream(c conn) (stream, error) {
	_, err := io.ReadFull(c, make([]byte, 1))
	return stream{c, c}, err
}

// closeWrite closes the sending direction.
func (s stream) closeWrite() error { return s.Out.(conn).CloseWrite() }
