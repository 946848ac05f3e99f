//go:build unix

package main

import (
	"os"
	"syscall"
)

// become replaces this process with another program, or returns why it cannot be started.
func become(program string, args []string) error {
	return &os.PathError{Op: "exec", Path: program, Err: syscall.Exec(program, append([]string{program}, args...), os.Environ())}
}
