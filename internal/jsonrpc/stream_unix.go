//go:build unix

package jsonrpc

import (
	"fmt"
	"os"
	"syscall"
)

// nonblocking returns f as a descriptor that the runtime polls. A goroutine in a
// blocking read can delay the garbage collector's stop-the-world by a minute (Go 1.26),
// and a blocking write would delay its sender. A terminal or a file on disk is returned
// unchanged: other processes share its flags, and it is not a client.
func nonblocking(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return f, nil
	}
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
