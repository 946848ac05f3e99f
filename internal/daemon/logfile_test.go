package daemon_test

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"mcpschedd/internal/bubble"
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

// A client that does not read stderr loses lines, and stops nothing.
func TestStderrIsNotRead(t *testing.T) {
	daemon.Stderr(io.Discard) // signals are received outside the bubble
	bubble.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		stderr := daemon.Stderr(write)
		for _, line := range []string{"first\n", "lost\n", "lost too\n"} {
			if n, err := io.WriteString(stderr, line); n != len(line) || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
		}
		lines := bufio.NewReader(read)
		expect := func(want string) {
			t.Helper()
			if got, err := lines.ReadString('\n'); got != want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		}
		expect("first\n")
		synctest.Wait() // the first line is written
		go io.WriteString(stderr, "later\n")
		expect("later\n")
	})
}
