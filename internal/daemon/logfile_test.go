package daemon_test

import (
	"os"
	"strings"
	"testing"

	"mcpschedd/internal/daemon"
)

// A log that is too large is renamed before it is opened for the next line, so that at most two files are kept.
func TestLogFileIsRenamed(t *testing.T) {
	log := daemon.OpenLog(t.TempDir(), daemon.ProgramLog)
	log.Max = 10
	for _, line := range []string{"first line\n", "second line\n", "third\n", "fourth\n"} {
		if n, err := log.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	}
	expect := func(newest, old string) {
		t.Helper()
		for path, want := range map[string]string{log.Path: newest, log.Path + ".1": old} {
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v; want %q", strings.TrimPrefix(path, log.Path), got, err, want)
			}
		}
	}
	expect("third\nfourth\n", "second line\n")
	file, err := log.Open() // as for the output of a daemon
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	expect("", "third\nfourth\n")
}
