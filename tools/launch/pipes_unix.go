//go:build unix

package launch

import (
	"fmt"
	"os"
	"syscall"
)

// polled returns f as a descriptor that the Go runtime polls. A goroutine in a blocking read can
// delay a stop of the world for a minute (measured with Go 1.26), which would distort
// measurements.
//
// It does not use jsonrpc.OpenStream, as the programs that are compared with mcpschedd must not
// depend on the measured code.
func polled(f *os.File) (*os.File, error) {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	// A child that inherited it would keep the pipe open after this process has ended.
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
