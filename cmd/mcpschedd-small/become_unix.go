//go:build unix

package main

import (
	"os"
	"syscall"
)

// become replaces this process with another program.
func become(program string, args []string) error {
	return syscall.Exec(program, append([]string{program}, args...), os.Environ())
}
