//go:build unix

package main

import (
	"os"
	"syscall"
)

// become has another program take the place of this one.
func become(program string, args []string) error {
	return syscall.Exec(program, append([]string{program}, args...), os.Environ())
}
