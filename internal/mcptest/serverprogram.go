package mcptest

import (
	"sync"
	"testing"
)

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
