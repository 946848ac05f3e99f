package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
)

// Values that sessions of one folder and environment have used are learned for these only. They
// are never used in calls of another folder's or account's server, and are stored in a separate
// file.
func TestDaemonLearnsApart(t *testing.T) {
	t.Parallel()
	config := upstreamConfig(mcptest.Options{Name: "one"})
	d := newDaemonTest(t, strings.Replace(config, "env = { ", `env = { TOKEN = "${TOKEN}", `, 1)+
		"instances = \"shared\"\n[tools.\"*\"]\nside_effect_class = \"read_only\"\n")
	type client struct{ dir, token, value string }
	a, b := t.TempDir(), t.TempDir()
	clients := []client{{a, "1", "birch"}, {a, "2", "cedar"}, {b, "1", "maple"}}
	session := func(c client) {
		p := d.connect(c.dir, "TOKEN="+c.token)
		p.ask(t, hello)
		p.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`)
		time.Sleep(20 * time.Millisecond) // at least as long as a model needs to read a result
		p.ask(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"uri":%q}}}`, c.value))
		seen := p.seen(t, "seen")
		for _, other := range clients {
			if strings.Contains(seen, other.value) && other != c {
				t.Errorf("%v: its server got a call with %s", c, other.value)
			}
		}
		p.in.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	for range 40 { // a value is saved once several sessions have used it as a constant
		var round sync.WaitGroup
		for _, c := range clients {
			round.Go(func() { session(c) })
		}
		round.Wait()
		kept := make(map[string][]string) // value → files that contain it
		for name, text := range d.learned() {
			for _, c := range clients {
				if strings.Contains(text, c.value) {
					kept[c.value] = append(kept[c.value], name)
				}
			}
		}
		if t.Failed() {
			return
		}
		if len(kept) < len(clients) {
			continue
		}
		files := slices.Concat(kept["birch"], kept["cedar"], kept["maple"])
		slices.Sort(files)
		if len(files) != len(clients) || len(slices.Compact(slices.Clone(files))) != len(clients) {
			t.Errorf("got the values in %v, want each in a separate file", kept)
		}
		return
	}
	t.Error("the values are not learned")
}

// learned returns the files of learned state.
func (d *daemonTest) learned() map[string]string {
	d.Helper()
	names, err := filepath.Glob(filepath.Join(d.state, "learned", "*-????????????????")) // without locks and temporary files
	if err != nil {
		d.Fatal(err)
	}
	all := make(map[string]string)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			d.Fatal(err)
		}
		all[filepath.Base(name)] = string(text)
	}
	return all
}

// A shared server is offered no client capabilities, from its first session on, and its questions
// are refused. A server with one session is offered all.
func TestDaemonSharedServerAsksNothing(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "own"})+
		upstreamConfig(mcptest.Options{Name: "all"})+"instances = \"shared\"\n")
	offers := []string{`"roots":{"listChanged":true}`, `"sampling":{}`, `"elicitation":{}`}
	able := strings.Replace(hello, `"capabilities":{}`, `"capabilities":{`+strings.Join(offers, ",")+`}`, 1)
	dir := t.TempDir()
	for session := range 2 {
		p := d.connect(dir)
		p.ask(t, able)
		for _, of := range []string{"all", "own"} {
			seen := p.seen(t, of+"__seen")
			for _, offer := range offers {
				if got := strings.Contains(seen, offer); got != (of == "own") {
					t.Errorf("session %d, the server %s is offered %s: %v, in %s", session, of, offer, got, seen)
				}
			}
		}
		for _, method := range []string{"roots/list", "sampling/createMessage", "elicitation/create"} {
			answer := p.ask(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"all__ask","arguments":{"asks":[{"method":"`+method+`"}]}}}`)
			if !strings.Contains(answer, `"id":2`) || !strings.Contains(answer, "-32601") {
				t.Errorf("session %d: the shared server asked %s, and the client got %s", session, method, answer)
			}
		}
		defer p.in.Close() // the second session comes while the first is open
	}
}

// A program that differs from the daemon's, as after an update, uses the same daemon.
func TestDaemonOfAnotherProgramIsUsed(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "one"})+"instances = \"shared\"\n")
	dir, updated := t.TempDir(), filepath.Join(t.TempDir(), "mcpschedd")
	copyFile(t, updated, os.Args[0])
	old := d.connect(dir)
	old.ask(t, hello)
	p := d.connectBy(updated, dir)
	p.ask(t, hello)
	if got, want := d.process(p, "pid"), d.process(old, "pid"); got != want {
		t.Errorf("got the server %s, want that of the other program's client, %s", got, want)
	}
	if n := strings.Count(d.log(), "serving clients"); n != 1 {
		t.Errorf("got %d daemons, want one", n)
	}
}

// A remote server is reached through the HTTP proxy of its client's environment, not through that of
// the client which started the daemon.
func TestDaemonUsesTheProxyOfTheClient(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t, "[upstreams.web]\nurl = \"http://web.invalid/mcp\"\n")
	for client := range 2 {
		asked := make(chan string, 100)
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.URL.Host
			w.WriteHeader(http.StatusBadGateway)
		}))
		defer proxy.Close()
		p := d.connect(t.TempDir(), "http_proxy="+proxy.URL, "no_proxy=", "NO_PROXY=")
		p.ask(t, hello)
		answer := p.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
		select {
		case host := <-asked:
			if host != "web.invalid" {
				t.Errorf("client %d: its proxy was asked for %s", client, host)
			}
		default:
			t.Errorf("client %d: its proxy was not asked, and it got %s", client, answer)
		}
	}
}
