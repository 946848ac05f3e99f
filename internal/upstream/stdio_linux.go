package upstream

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// enlarge gives a pipe its room; beyond the user's limit it stays as it is.
func enlarge(file *os.File) {
	if conn, err := file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}

// reap waits for p to end, and calls before while its id, which is its group's
// too, is not yet free for others.
func reap(p *os.Process, before func()) *os.ProcessState {
	var err error = unix.EINTR
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, p.Pid, nil, syscall.WEXITED|syscall.WNOWAIT, nil)
	}
	if err != nil { // not to be had here: the id is free for a moment
		defer before()
	} else {
		before()
	}
	state, _ := p.Wait()
	return state
}
