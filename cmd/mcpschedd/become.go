package main

import (
	"os"
	"path/filepath"
	"syscall"

	"mcpschedd/internal/record"
)

// become replaces this process with the program of that name in the same directory, with the same
// arguments. It returns if there is no such program, and on Windows.
func become(name string) {
	if self, err := os.Executable(); err == nil && filepath.Base(self) != name {
		program := filepath.Join(filepath.Dir(self), name)
		_ = syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
	}
}

// fullProgram is the name of the program with all libraries. A lean build becomes the full program if it
// needs Prometheus, OpenTelemetry or Valkey, which take 6 MiB of each process, used or not.
const fullProgram = "mcpschedd-full"

// becomeFullToExport becomes the full program if this one is lean and serves HTTP, and so metrics,
// or the environment configures an export.
func becomeFullToExport(overHTTP bool) {
	if !record.Exports && (overHTTP || record.ExportRequested()) {
		become(fullProgram)
	}
}
