//go:build unix

package demo_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"mcpschedd/internal/demo"
)

const (
	pidsVariable = "MCPSCHEDD_TEST_PIDS" // a folder in which every child leaves a file named for its process
	realVariable = "MCPSCHEDD_TEST_REAL" // the program that a child becomes then; "": it ends with an error
)

// TestMain lets the test binary stand in for mcpschedd: it leaves its number, and becomes
// the real one.
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

// program is mcpschedd, which is linked again only when it has changed.
var program = sync.OnceValues(func() (string, error) {
	bin, err := filepath.Abs(filepath.Join("..", "..", "bin", "test", "mcpschedd"))
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/mcpschedd").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})
