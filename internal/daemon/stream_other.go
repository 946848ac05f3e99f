//go:build !linux

package daemon

import "io"

// sendStream tells a client that its messages may come, through the connection itself.
func sendStream(c conn) (stream, error) {
	_, err := c.Write([]byte("\n"))
	return stream{c, c}, err
}

// receiveStream is what the client does when the daemon calls sendStream.
func receiveStream(c conn) (stream, error) {
	_, err := io.ReadFull(c, make([]byte, 1))
	return stream{c, c}, err
}

// closeWrite tells the other end that nothing more comes.
func (s stream) closeWrite() error { return s.Out.(conn).CloseWrite() }
