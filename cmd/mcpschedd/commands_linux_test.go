package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"mcpschedd/internal/mcptest"
)

// What people look at, call and change is the running daemon's: its server answers a call, stats
// names it once with the client of each folder, and its clients follow what is switched off.
func TestCommandsReachTheDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "all"})+"instances = \"shared\"\n"+upstreamConfig(mcptest.Options{Name: "off"}))
	a, b := t.TempDir(), t.TempDir()
	p, other := d.connect(a), d.connect(b)
	p.ask(t, hello)
	other.ask(t, hello)
	id := d.process(p, "all__pid")
	run := func(args ...string) string {
		t.Helper()
		out, err := d.command(a, "mcpschedd", args...).CombinedOutput()
		if err != nil {
			t.Errorf("mcpschedd %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if got := run("call", "all/pid"); strings.TrimSpace(got) != id {
		t.Errorf("call: got %q, want the server %s of the client in the same folder", got, id)
	}
	d.watch(a, fmt.Sprintf(`\nprocess %d since [^\n]*, daemon, configuration \S+, \d+ MB\n    in %s: a client\n    in %s: a client\n$`, d.daemonID(), a, b))
	if got := run("logs"); !strings.Contains(got, "serving clients") {
		t.Errorf("logs: got %s", got)
	}
	if got := p.ask(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(got, "off__pid") {
		t.Errorf("before a server is switched off: got %s", got)
	}
	run("disable", "off")
	line, err := p.out.ReadString('\n')
	if err != nil || !strings.Contains(line, "notifications/tools/list_changed") {
		t.Errorf("when a server was switched off: got %s, %v", line, err)
	}
	if got := p.ask(t, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); !strings.Contains(got, "pid") || strings.Contains(got, "off") {
		t.Errorf("when a server was switched off: got %s", got)
	}
}

// watch waits until stats says something, from the first line to the last.
func (d *daemonTest) watch(dir, want string) {
	d.Helper()
	cmd := d.command(dir, "mcpschedd", "stats", "--watch")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		d.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var got []byte
	for !regexp.MustCompile(want).Match(got) {
		buffer := make([]byte, 1<<16)
		n, err := out.Read(buffer)
		if err != nil {
			d.Fatalf("got\n%s\nwant %s", got, want)
		}
		got = append(got, buffer[:n]...)
	}
}
