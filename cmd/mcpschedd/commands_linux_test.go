package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/mcptest"
)

// Commands act on the running daemon. A call from the command line uses the server of the clients
// in that folder, stats lists the server once with its clients, and clients follow when servers
// are disabled, enabled, added or removed.
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
		t.Errorf("call: got %q, want the server %s of the clients in the same folder", got, id)
	}
	first := fmt.Sprintf(`process %d since [^\n]*, daemon in (?:%s|%s), configuration \S+(?:, \d+ MB)?\n    a client: 1 open\n`, d.daemonID(), a, b)
	further := fmt.Sprintf(`  and in (?:%s|%s)\n    a client: 1 open\n`, a, b)
	d.watch(a, `\n`+first+further+`$`)
	if got := run("logs"); !strings.Contains(got, "serving clients") {
		t.Errorf("logs: got %s", got)
	}
	for _, p := range []*program{p, other} {
		if got := p.tools(t); !slices.Equal(got, []string{"all__pid", "off__pid"}) {
			t.Fatalf("before a change: got %q", got)
		}
	}
	for _, change := range []struct {
		args  []string
		tools []string // tools of all clients afterwards
	}{
		{[]string{"disable", "off"}, []string{"pid"}}, // tools of a single server have no prefix
		{[]string{"enable", "off"}, []string{"all__pid", "off__pid"}},
		{[]string{"add", "new", "--env", mcptest.Options{Name: "new"}.Env(), "--", serverProgram}, []string{"all__pid", "new__pid", "off__pid"}},
		{[]string{"remove", "new"}, []string{"all__pid", "off__pid"}},
	} {
		run(change.args...)
		for _, p := range []*program{p, other} {
			p.isTold(t, change.tools)
		}
		if change.args[0] == "add" {
			d.process(p, "new__pid")
		}
	}
}

// isTold waits for the notification that the client's tools have changed, and checks the new ones.
func (p *program) isTold(t *testing.T, want []string) {
	t.Helper()
	for {
		p.hears(t, "notifications/tools/list_changed")
		if slices.Equal(p.tools(t), want) {
			return
		}
	}
}

// tools returns the names of a client's tools that return a process id.
func (p *program) tools(t *testing.T) (names []string) {
	t.Helper()
	if _, err := io.WriteString(p.in, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"name":"(\w*pid)"`).FindAllStringSubmatch(p.hears(t, `"id":"list"`), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}

// hears returns the next line that contains a text.
func (p *program) hears(t *testing.T, text string) string {
	t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatalf("want %s: %v", text, err)
		}
		if strings.Contains(line, text) {
			return line
		}
	}
}

// seen calls a server's tool that returns all messages which the server got. These are notifications
// among others, so the answer is recognised by its id.
func (p *program) seen(t *testing.T, tool string) string {
	t.Helper()
	if _, err := io.WriteString(p.in, `{"jsonrpc":"2.0","id":"seen","method":"tools/call","params":{"name":"`+tool+`"}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return p.hears(t, `"id":"seen"`)
}

// watch waits until the output of stats is want.
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
