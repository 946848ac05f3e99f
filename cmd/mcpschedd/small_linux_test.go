package main

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/mcptest"
)

// A client is connected with the small program beside mcpschedd, also if flags precede the command.
func TestConnectWithFlagsBeforeTheCommand(t *testing.T) { // not in parallel: a daemon that gets no processor for 10 s counts as one that hangs
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "one"}))
	folder := t.TempDir()
	program := filepath.Join(folder, daemon.Program)
	copyFile(t, program, os.Args[0])
	copyProgram(t, filepath.Join(folder, daemon.SmallProgram))
	for _, args := range [][]string{{"connect", "--config", d.file, "--wait=30s"}, {"--config", d.file, "connect", "--wait=30s"}} {
		p := d.start(t.TempDir(), nil, program, args...)
		d.process(p, "pid")
		p.in.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// A user who asks the program in a client's configuration for help is told where it is.
func TestSmallHelp(t *testing.T) {
	program := filepath.Join(t.TempDir(), daemon.SmallProgram)
	copyProgram(t, program)
	out, err := exec.Command(program, daemon.Command, "--help").Output()
	if want := "mcpschedd connect --help"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("got %q and %v, want %q in it", out, err, want)
	}
}

// A client that has no daemon is told why, also if there is no place for one.
func TestSmallWithoutAPlace(t *testing.T) {
	program, state := filepath.Join(t.TempDir(), daemon.SmallProgram), t.TempDir()
	copyProgram(t, program)
	if err := os.Mkdir(filepath.Join(state, daemon.Program), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(state, daemon.Program, "daemon"), "not a folder")
	cmd := exec.Command(program, daemon.Command)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
	out, err := cmd.CombinedOutput() // the error is that mcpschedd, which would serve, is not beside it
	if want := "served without the daemon"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("got %q and %v, want %q in it", out, err, want)
	}
}

// A hook reports even if it has flags of a later version.
func TestSmallHookOfALaterVersion(t *testing.T) {
	program, state := filepath.Join(t.TempDir(), daemon.SmallProgram), t.TempDir()
	copyProgram(t, program)
	file := filepath.Join(state, "c.toml")
	place, err := daemon.NewPlace(filepath.Join(state, daemon.Program), file)
	if err := errors.Join(err, os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	l, err := daemon.Listen(place, daemon.ListenOptions{Log: slog.New(slog.DiscardHandler), OnReport: func(r *daemon.Report) { heard <- r.Event }})
	if err != nil {
		t.Fatal(err)
	}
	inBackground(t, func(ctx context.Context) { _ = l.Run(ctx, func() {}) })
	cmd := exec.Command(program, daemon.HookCommand, "--config", file, "--later")
	cmd.Env, cmd.Stdin = append(os.Environ(), "XDG_STATE_HOME="+state), strings.NewReader(`{"hook_event_name":"Stop"}`)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 || len(heard) != 1 {
		t.Errorf("got %d reports, %q, %v; want one", len(heard), out, err)
	}
}

// A user who types connect is told what it waits for.
func TestConnectOnATerminal(t *testing.T) {
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "one"}))
	cmd := d.command(t.TempDir(), self, "connect")
	cmd.Stdin, _ = pseudoTerminal(t, 80, 24)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if want := "waiting for an MCP client on stdin, which is this terminal"; !strings.Contains(line, want) {
		t.Errorf("got %q and %v, want %q in it", line, err, want)
	}
	cmd.Process.Kill()
	cmd.Wait()
}
