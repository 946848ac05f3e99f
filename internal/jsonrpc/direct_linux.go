package jsonrpc

import (
	"os"
	"syscall"
)

// direct writes to a file as much as it takes without blocking.
type direct struct {
	conn    syscall.RawConn
	attempt func(fd uintptr) bool // made once: a closure for each write would be an allocation for each message
	rest    []byte                // not yet written
	err     error                 // of the last attempt
}

// newDirect returns nil if file can only be written by waiting for the peer.
func newDirect(file *os.File) *direct {
	if !pollable(file) {
		return nil
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	// A file that the runtime can wait for blocks nevertheless after a call of
	// its Fd, or if another process that shares it has said so.
	nonblocking := false
	err = conn.Control(func(fd uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		nonblocking = errno == 0 && flags&syscall.O_NONBLOCK != 0
	})
	if err != nil || !nonblocking {
		return nil
	}
	d := &direct{conn: conn}
	d.attempt = d.writeTo
	return d
}

// interruptible says whether closing file ends a write that waits for the peer;
// d is its direct.
func interruptible(_ *os.File, d *direct) bool { return d != nil }

// write returns how much of p was written; less than all is no error.
func (d *direct) write(p []byte) (int, error) {
	d.rest, d.err = p, nil
	err := d.conn.Write(d.attempt)
	if err == nil {
		err = d.err
	}
	n := len(p) - len(d.rest)
	d.rest = nil
	return n, err
}

// writeTo is always done: false would make conn.Write wait for the peer.
func (d *direct) writeTo(fd uintptr) bool {
	for len(d.rest) > 0 {
		n, err := syscall.Write(int(fd), d.rest)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			d.err = err
			return true
		}
		d.rest = d.rest[n:]
	}
	return true
}
