package secret

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// The package compiles no expression when a program starts: that would take 2 ms and 1,600 allocations.
func TestInit(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := exec.Command(program, "-test.run=^$")
	start.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := start.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	line := regexp.MustCompile(`init mcpschedd/internal/secret @.* ([0-9]+) allocs`).FindSubmatch(out)
	if line == nil {
		t.Fatalf("no line for the package in:\n%s", out)
	}
	if n, _ := strconv.Atoi(string(line[1])); n > 250 {
		t.Errorf("got %s, want at most 250", line[0])
	}
}
