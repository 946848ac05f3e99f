package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/record"
	"mcpschedd/internal/state"
)

// A daemon that is stopped still accepts connections. A call says on a terminal that it waits, and after the time for
// the handshake what to do; so does stats.
func TestCallOfADaemonThatHangs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "c.toml")
	writeFile(t, file, "server.state_dir = \"state\"\n[upstreams.one]\ncommand = \"one\"\n")
	place, err := daemon.NewPlace(filepath.Join(folder, "state"), file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", place.Socket) // no connection is ever read
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	terminal, screen := pseudoTerminal(t, 80, 24)
	err = call(t.Context(), []string{"one/x"}, callFlags{config: file}, nil, terminal)
	if h, ok := errors.AsType[hinted](err); !ok || !strings.Contains(err.Error(), "the daemon does not answer") || !strings.Contains(h.hint, "mcpschedd stats") {
		t.Errorf("got %v, want that the daemon does not answer, and a hint", err)
	}
	if shown, err := bufio.NewReader(screen).ReadString('\n'); !strings.HasPrefix(shown, "mcpschedd: waiting for one; ") {
		t.Errorf("on the terminal: got %q, %v", shown, err)
	}
	running := []record.Status{{PID: 7, Transport: record.Daemon, Config: "another"}, {PID: 8, Transport: record.Daemon, Config: file}}
	const hangs = "The daemon does not answer: it is stopped, or hangs, and what follows may be old. "
	for want, running := range map[string][]record.Status{
		"kill -CONT 8 continues it, kill -KILL 8 ends it.":                running,
		"End the process mcpschedd daemon, or continue it by kill -CONT.": running[:1], // without a client it has no status
	} {
		if got := daemonTrouble(place, file, running); got != hangs+want {
			t.Errorf("stats: got %q, want %q", got, hangs+want)
		}
	}
}

// A daemon of another version may not know how to stop. The hint says how else it is ended.
func TestStopOfADaemonThatDoesNotKnowHow(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "c.toml")
	writeFile(t, file, "server.state_dir = \"state\"\n")
	place, err := daemon.NewPlace(filepath.Join(folder, "state"), file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", place.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
				_, _ = c.Write([]byte(`{"mcpschedd":1,"refused":"unknown kind of connection \"stop\""}` + "\n"))
			}
			c.Close()
		}
	}()
	err = stopDaemon(file, io.Discard)
	if h, ok := errors.AsType[hinted](err); !ok || !strings.Contains(err.Error(), "unknown kind") || !strings.Contains(h.hint, "mcpschedd stats") {
		t.Errorf("got %v, want that it does not know the request, and a hint", err)
	}
}

// If nothing can be written to the state directory, a daemon may have no status, and stats says so.
func TestStatsOfADaemonThatCannotWrite(t *testing.T) {
	t.Parallel()
	if got := diskTrouble(state.OnlyRead(t.TempDir()), nil); got != "" {
		t.Errorf("got %q", got)
	}
	if got := diskTrouble(state.OnlyRead("/proc"), nil); !strings.HasPrefix(got, "Nothing can be recorded now, and what follows may be old: open /proc/probe.") {
		t.Errorf("got %q", got)
	}
	if got := diskTrouble(state.OnlyRead("/proc"), make([]record.Status, 1)); got != "" {
		t.Errorf("a process has a status: got %q", got)
	}
}

// On a terminal, a tool's text has no control characters. Elsewhere it is not changed.
func TestResultOnATerminal(t *testing.T) {
	terminal, screen := pseudoTerminal(t, 80, 24)
	result := []byte(`{"content":[{"type":"text","text":"\u001b[2Ja\tb"}]}`)
	if err := printResult(terminal, result, false); err != nil {
		t.Fatal(err)
	}
	shown, err := bufio.NewReader(screen).ReadString('\n')
	if err != nil || strings.Contains(shown, "\x1b") || !strings.HasPrefix(shown, "?[2Ja\tb") {
		t.Errorf("on a terminal: got %q, %v", shown, err)
	}
	var file strings.Builder
	if err := printResult(&file, result, false); err != nil || file.String() != "\x1b[2Ja\tb\n" {
		t.Errorf("elsewhere: got %q, %v", file.String(), err)
	}
}
