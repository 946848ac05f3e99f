package jsonrpc

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// Pipe is our end of a pipe that no other process has a hold on, so that none can
// make it block. It is read, and a [Writer] writes it, by system calls that Go's
// scheduler is not told of: telling it wakes the thread that watches over system
// calls, which costs a small message more than all that is done with it here.
//
// The scheduler cannot take the processor from such a call, so it must never wait.
// Nobody but Pipe may call the file's Fd, which would make it block.
type Pipe struct {
	*os.File
	conn    syscall.RawConn // nil: read as a file
	attempt func(fd uintptr) bool
	into    []byte // of the read under way
	n       int
	err     error
}

// NewPipe returns file as a Pipe. What cannot be read without waiting remains an
// ordinary file.
func NewPipe(file *os.File) *Pipe {
	p := &Pipe{File: file}
	if conn := nonblocking(file); conn != nil && !checking {
		p.conn = conn
		p.attempt = p.readFrom
	}
	return p
}

// Reopen opens the pipe that file is one end of once more, which makes an end that
// is ours alone of one that others may share, such as a standard stream. nil if
// file is no pipe, or cannot be opened again.
func Reopen(file *os.File) *Pipe {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 || checking {
		return nil
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	fd := -1
	err = conn.Control(func(old uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, old, syscall.F_GETFL, 0)
		if errno == 0 {
			mode := int(flags)&syscall.O_ACCMODE | syscall.O_NONBLOCK | syscall.O_CLOEXEC
			fd, err = syscall.Open("/proc/self/fd/"+strconv.Itoa(int(old)), mode, 0)
		}
	})
	if err != nil || fd < 0 {
		return nil
	}
	return NewPipe(os.NewFile(uintptr(fd), file.Name()))
}

// Read may be called by one goroutine at a time.
func (p *Pipe) Read(b []byte) (int, error) {
	if p.conn == nil || len(b) == 0 {
		return p.File.Read(b)
	}
	p.into, p.n, p.err = b, 0, nil
	err := p.conn.Read(p.attempt)
	p.into = nil
	switch {
	case err != nil:
		return 0, err
	case p.err != nil:
		return 0, os.NewSyscallError("read", p.err)
	case p.n == 0:
		return 0, io.EOF
	}
	return p.n, nil
}

// readFrom says whether there was something to read, be it the end.
func (p *Pipe) readFrom(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p.into))), uintptr(len(p.into)))
		switch errno {
		case 0:
			p.n = int(n)
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			p.err = errno
			return true
		}
	}
}

// rawWrite is syscall.Write without the scheduler's knowledge.
func rawWrite(fd uintptr, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// nonblocking returns file for raw use if the runtime waits for it, and its calls
// return without waiting; else nil.
func nonblocking(file *os.File) syscall.RawConn {
	if !pollable(file) {
		return nil
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	// A file that the runtime can wait for blocks nevertheless after a call of
	// its Fd, or if another process that shares it has said so.
	ok := false
	err = conn.Control(func(fd uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		ok = errno == 0 && flags&syscall.O_NONBLOCK != 0
	})
	if err != nil || !ok {
		return nil
	}
	return conn
}
