package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// become replaces this process with the program of that name in the same directory, with the same
// arguments. It returns if there is no such program, and on Windows.
func become(name string) {
	if self, err := os.Executable(); err == nil && filepath.Base(self) != name {
		program := filepath.Join(filepath.Dir(self), name)
		_ = syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
	}
}
