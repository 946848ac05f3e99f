package jsonrpc

import (
	"os"
	"syscall"
)

// direct writes to a file as much as it takes without blocking.
type direct struct {
	conn    syscall.RawConn
	call    func(fd uintptr, p []byte) (int, error) // the system call
	attempt func(fd uintptr) bool                   // made once: a closure for each write would be an allocation for each message
	rest    []byte                                  // not yet written
	err     error                                   // of the last attempt
}

const (
	setPipeSize = 1031 // F_SETPIPE_SZ, which syscall does not name
	pipeSize    = 256 << 10
)

// newDirect returns nil if file can only be written by waiting for the peer.
// alone says that no other process has a hold on it.
func newDirect(file *os.File, alone bool) *direct {
	conn := nonblocking(file)
	if conn == nil {
		return nil
	}
	// In a pipe of the usual 64 KiB a longer line takes a change between the
	// processes for each, and the queue. Where the user may have no more, it stays
	// as it is.
	_ = conn.Control(func(fd uintptr) { syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, pipeSize) })
	d := &direct{conn: conn, call: func(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }}
	if alone && !checking {
		d.call = rawWrite
	}
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
		n, err := d.call(fd, d.rest)
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
