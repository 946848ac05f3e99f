package jsonrpc

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pipe is an end of a pipe that no other process shares, so that no other process can
// make it block. Read and a [Writer] use raw system calls, of which Go's scheduler is
// not notified: the notification wakes the sysmon thread, which costs a small message
// more than all other work on it.
//
// The scheduler cannot preempt a raw system call, so it must never block. The file's
// Fd must not be called, since that makes the file block.
//
// Measured: with ordinary system calls the p50 at 1 KB is 1.10 times as long
// (quartiles 1.04 and 1.22), 1.06 times if only the writes are ordinary.
type Pipe struct {
	*os.File
	in *direct // nil if the file is read in the ordinary way
}

// NewPipe returns file as a Pipe. A file that cannot be read without blocking is read
// in the ordinary way.
func NewPipe(file *os.File) *Pipe {
	p := &Pipe{File: file}
	if !raceEnabled {
		p.in = newDirect(file, rawCall(syscall.SYS_READ), true)
	}
	return p
}

// reopen opens the same end of file's pipe again, as a descriptor that no other process
// shares; a standard stream is often shared. It returns nil if file is not a pipe or
// cannot be reopened.
func reopen(file *os.File) *Pipe {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 || raceEnabled {
		return nil
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	fd := -1
	err = conn.Control(func(old uintptr) {
		if flags, err := unix.FcntlInt(old, unix.F_GETFL, 0); err == nil {
			mode := flags&syscall.O_ACCMODE | syscall.O_NONBLOCK | syscall.O_CLOEXEC
			fd, _ = syscall.Open("/proc/self/fd/"+strconv.Itoa(int(old)), mode, 0)
		}
	})
	if err != nil || fd < 0 {
		return nil
	}
	return NewPipe(os.NewFile(uintptr(fd), file.Name()))
}

// Read may be called by one goroutine at a time.
func (p *Pipe) Read(b []byte) (int, error) {
	if p.in == nil || len(b) == 0 {
		return p.File.Read(b)
	}
	switch n, err := p.in.do(b); {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	default:
		return n, nil
	}
}

// direct reads or writes a file with non-blocking system calls. It is not safe for
// concurrent use.
type direct struct {
	conn    syscall.RawConn
	call    func(fd uintptr, p []byte) (int, error) // the system call
	reads   bool                                    // false if it writes
	attempt func(fd uintptr) bool                   // the method value try, which would be an allocation for each message
	rest    []byte                                  // unread or unwritten part of the caller's slice
	err     error                                   // of the last attempt
}

// newDirect returns nil if the runtime cannot poll file, or its system calls may block.
func newDirect(file *os.File, call func(fd uintptr, p []byte) (int, error), reads bool) *direct {
	if !pollable(file) {
		return nil
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	// A file that the runtime can poll may still be in blocking mode, after a call of
	// its Fd or because another process that shares it has set that mode.
	flags := 0
	controlErr := conn.Control(func(fd uintptr) {
		// With the default pipe size of 64 KiB, a longer line takes a context switch for
		// each 64 KiB, and the queue. If the user's limit is reached (64 MiB for all
		// pipes on Linux), the size stays as it is. Measured: without this the p50 at
		// 100 KB is 1.24 times as long (1.11 and 1.41).
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, readSize)
		flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0)
	})
	if controlErr != nil || err != nil || flags&syscall.O_NONBLOCK == 0 {
		return nil
	}
	d := &direct{conn: conn, call: call, reads: reads}
	d.attempt = d.try
	return d
}

// newDirectWriter returns nil if writes to file may block. exclusive means that no
// other process shares the file.
func newDirectWriter(file *os.File, exclusive bool) *direct {
	call := func(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
	if exclusive && !raceEnabled {
		call = rawCall(syscall.SYS_WRITE)
	}
	return newDirect(file, call, false)
}

// interruptible reports whether closing file unblocks a write to it; d is its direct.
func interruptible(_ *os.File, d *direct) bool { return d != nil }

// do reads into p, and blocks until there is something to read; or it writes as much
// of p as the file accepts without blocking.
func (d *direct) do(p []byte) (int, error) {
	d.rest, d.err = p, nil
	var err error
	if d.reads {
		err = d.conn.Read(d.attempt)
	} else {
		err = d.conn.Write(d.attempt)
	}
	if err == nil {
		err = d.err
	}
	n := len(p) - len(d.rest)
	d.rest = nil
	return n, err
}

// try makes the system call. It returns false if the runtime must wait until the file
// is readable, as [syscall.RawConn] specifies.
func (d *direct) try(fd uintptr) bool {
	for len(d.rest) > 0 {
		n, err := d.call(fd, d.rest)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return !d.reads
		case err != nil:
			d.err = err
			return true
		}
		if d.rest = d.rest[n:]; d.reads {
			return true
		}
	}
	return true
}

// rawCall returns the system call with that number, made without notifying the scheduler.
func rawCall(number uintptr) func(fd uintptr, p []byte) (int, error) {
	return func(fd uintptr, p []byte) (int, error) {
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
}
