//go:build unix

package demo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"mcpschedd/internal/demo"
	"mcpschedd/internal/mcptest"
)

const (
	pidsVariable = "MCPSCHEDD_TEST_PIDS" // folder in which each child process creates a file named after its PID
	realVariable = "MCPSCHEDD_TEST_REAL" // program that the child process then executes; if empty, it exits with an error
)

// TestMain lets the test binary act as mcpschedd: it records its PID and executes the real
// program.
func TestMain(m *testing.M) {
	dir := os.Getenv(pidsVariable)
	if dir == "" || len(os.Args) < 2 || os.Args[1] != demo.UpstreamCommand && os.Args[1] != "serve" {
		os.Exit(m.Run())
	}
	err := os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o600)
	if bin := os.Getenv(realVariable); err == nil && (bin != "" || os.Args[1] == demo.UpstreamCommand) {
		if bin == "" {
			bin, err = program()
		}
		if err == nil {
			err = syscall.Exec(bin, os.Args, os.Environ())
		}
	}
	fmt.Fprintln(os.Stderr, "no such luck", err)
	os.Exit(1)
}

// program returns the path of mcpschedd.
var program = sync.OnceValues(func() (string, error) { return mcptest.Program("mcpschedd") })
