//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// become has the program of that name beside this one take its place, with the same arguments,
// where it is there.
func become(name string) {
	if self, err := os.Executable(); err == nil && filepath.Base(self) != name {
		program := filepath.Join(filepath.Dir(self), name)
		_ = syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
	}
}
