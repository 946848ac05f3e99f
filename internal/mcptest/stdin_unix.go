//go:build unix

package mcptest

import (
	"os"
	"syscall"
)

// pollable returns f as a file whose reads can be ended by closing it, and
// which do not hold up a stop of the world (Go 1.26).
func pollable(f *os.File) (*os.File, error) {
	if err := syscall.SetNonblock(int(f.Fd()), true); err != nil {
		return nil, err
	}
	return os.NewFile(f.Fd(), f.Name()), nil
}
