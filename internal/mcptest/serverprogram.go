package mcptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
)

// programDir is the directory of the built program; "" if it was not built.
var programDir string

var serverProgram = sync.OnceValues(func() (path string, err error) {
	if programDir, err = os.MkdirTemp("", "mcptest"); err != nil {
		return "", err
	}
	path = filepath.Join(programDir, "server.exe")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, reflect.TypeFor[Options]().PkgPath()+"/child").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// ServerProgram returns the path of the server as a program of its own, and builds it at the first call.
// It starts in a third of the processor time of a test binary, or a tenth with the race detector.
// TestMain must call [Clean] after the tests.
func ServerProgram(t testing.TB) string {
	t.Helper()
	path, err := serverProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Clean removes the program that [ServerProgram] has built.
func Clean() {
	if programDir != "" {
		os.RemoveAll(programDir)
	}
}
