//go:build unix

package mcptest

import (
	"os"
	"syscall"
)

// pollable returns f as a non-blocking file: closing it ends a pending Read, and a pending
// Read does not delay a stop of the world (Go 1.26).
func pollable(f *os.File) (*os.File, error) {
	if err := syscall.SetNonblock(int(f.Fd()), true); err != nil {
		return nil, err
	}
	return os.NewFile(f.Fd(), f.Name()), nil
}
