//go:build unix

package launch

import (
	"fmt"
	"os"
	"syscall"
)

// polled returns f as a descriptor that the Go runtime polls. A goroutine
// that waits in a blocking read can hold up a stop of the world for a minute
// (measured with Go 1.26), which would be counted against what is measured.
//
// It is a file as Go has them, and not what jsonrpc.OpenStream returns: what the program is
// compared with must not stand on the code that is measured.
func polled(f *os.File) (*os.File, error) {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	// A child that inherited it would keep the pipe open after we have gone.
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
