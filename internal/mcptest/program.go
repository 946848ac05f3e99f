package mcptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// programs is the environment variable with the folder of the programs that make test has built.
// Its name is a checksum of them. The go command notes the variables that a test reads, so it
// repeats a test after its program has changed, which it would not notice otherwise.
const programs = "MCPSCHEDD_PROGRAMS"

// Child is the name of the program that is a [Server], for [Program].
const Child = "child"

// Program returns the path of a program of the module, by its name in cmd. Without make test it
// builds it, in the module of the test, where the go command notices that the file is new: it then
// never takes the test's result from its cache.
func Program(name string) (string, error) {
	if dir := os.Getenv(programs); dir != "" {
		return filepath.Join(dir, name), nil
	}
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	_, source, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(string(module)), "bin", "programs", name)
	code := "./cmd/" + name
	if name == Child {
		code = "./internal/mcptest/" + name
	}
	build := exec.Command("go", "build", "-o", path, code)
	build.Dir = filepath.Join(filepath.Dir(source), "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
}

var serverProgram = sync.OnceValues(func() (string, error) { return Program(Child) })

// ServerProgram returns the path of the server as a program of its own. It starts in a third of the
// processor time of a test binary, or a tenth with the race detector.
func ServerProgram(t testing.TB) string {
	t.Helper()
	path, err := serverProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
