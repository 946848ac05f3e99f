//go:build unix

package jsonrpc

import (
	"fmt"
	"os"
	"syscall"
)

// nonblocking returns f as a descriptor that the runtime polls. A goroutine in
// a blocking read can hold up a stop of the world for a minute (Go 1.26), and
// a blocking write would hold up its sender. A terminal or a file is left
// alone: others share its flags, and it is no client.
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
