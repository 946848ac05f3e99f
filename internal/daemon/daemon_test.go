//go:build unix

package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"mcpschedd/internal/daemon"
)

// served is a daemon in this process that passes each client to the test.
type served struct {
	place   daemon.Place
	clients chan *daemon.Client
	leave   chan struct{} // a value ends the service of a client
	ended   chan error    // what Run has returned
	stop    func()        // ends the daemon as a crash would: its clients are not notified
}

func place(t *testing.T) daemon.Place {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p, err := daemon.NewPlace(dir, "/c.toml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func listen(t *testing.T, p daemon.Place, names ...string) *served {
	t.Helper()
	s := &served{place: p, clients: make(chan *daemon.Client), leave: make(chan struct{}), ended: make(chan error, 1)}
	l, err := daemon.Listen(p, daemon.ListenOptions{
		EnvNames: func(string) []string { return names }, Log: slog.New(slog.DiscardHandler),
		Has: func(only, _ string) bool { return only == "known" },
		Serve: func(ctx context.Context, c *daemon.Client) {
			select {
			case s.clients <- c:
				select {
				case <-s.leave:
				case <-ctx.Done():
				}
			case <-ctx.Done():
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.ended <- l.Run(ctx, func() {}) })
	s.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(s.stop)
	return s
}

// replace ends the daemon as a crash would, and starts the next one. Until that listens, clients find
// that another client is starting it, however long that takes.
func (s *served) replace(t *testing.T) *served {
	t.Helper()
	starting := flock.New(s.place.Starting())
	if err := starting.Lock(); err != nil {
		t.Fatal(err)
	}
	defer starting.Close()
	s.stop()
	return listen(t, s.place)
}

// client is a client of Connect.
type client struct {
	t     *testing.T
	in    io.WriteCloser
	lines *bufio.Reader
	ended chan error
}

func connect(t *testing.T, p daemon.Place) *client {
	t.Helper()
	return connectBy(t, daemon.Options{Place: p})
}

func connectBy(t *testing.T, o daemon.Options) *client {
	t.Helper()
	o.Start = []string{"/nonexistent"}
	o.Log, o.Wait = slog.New(slog.DiscardHandler), time.Hour
	in, toConnect := io.Pipe()
	fromConnect, out := io.Pipe()
	c := &client{t, toConnect, bufio.NewReader(fromConnect), make(chan error, 1)}
	var connected sync.WaitGroup
	connected.Go(func() {
		c.ended <- daemon.Connect(t.Context(), in, out, o)
		out.Close()
	})
	t.Cleanup(func() {
		toConnect.Close()
		fromConnect.Close()
		connected.Wait()
	})
	return c
}

func (c *client) sends(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// expects checks the next line sent to the client.
func (c *client) expects(want string) {
	c.t.Helper()
	if got, err := c.lines.ReadString('\n'); err != nil || got != want+"\n" {
		c.t.Fatalf("the client got %q, %v; want %s", got, err, want)
	}
}

// end is the daemon's end of a client's connection.
type end struct {
	*daemon.Client
	t     *testing.T
	lines *bufio.Reader
}

func (s *served) next(t *testing.T) end {
	t.Helper()
	c := <-s.clients
	return end{c, t, bufio.NewReader(c.In)}
}

func (e end) sends(line string) {
	e.t.Helper()
	if _, err := io.WriteString(e.Out, line+"\n"); err != nil {
		e.t.Fatal(err)
	}
}

func (e end) expects(want ...string) {
	e.t.Helper()
	for _, want := range want {
		if got, err := e.lines.ReadString('\n'); err != nil || got != want+"\n" {
			e.t.Fatalf("the daemon got %q, %v; want %s", got, err, want)
		}
	}
}

// A client sends its folder, the base variables and the requested variables, and nothing else.
// Then lines are forwarded in both directions until the client closes its input.
func TestConnect(t *testing.T) {
	t.Setenv("TOKEN", "named")
	t.Setenv("AWS_PROFILE", "secret")
	t.Setenv("LC_ALL", "C")
	s := listen(t, place(t), "TOKEN", "UNSET")
	c := connect(t, s.place)
	d := s.next(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if d.Dir != dir || len(d.Replayed) != 0 {
		t.Errorf("got %q and %q, want %q and nothing replayed", d.Dir, d.Replayed, dir)
	}
	for _, want := range []string{"TOKEN=named", "LC_ALL=C", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(d.Env, want) {
			t.Errorf("got no %s in %q", want, d.Env)
		}
	}
	if slices.ContainsFunc(d.Env, func(v string) bool { return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "UNSET") }) {
		t.Errorf("got variables that were not requested: %q", d.Env)
	}
	c.sends(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	d.expects(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	c.in.Close()
	if _, err := d.lines.ReadByte(); err != io.EOF {
		t.Errorf("got %v after the client's last line, want io.EOF", err)
	}
	d.sends(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	c.expects(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	d.Out.Close()
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
}

// When the daemon has ended, the next one gets the setup of the session and the open requests,
// marked as replayed. The client does not notice.
func TestAgain(t *testing.T) {
	s := listen(t, place(t))
	c := connect(t, s.place)
	d := s.next(t)
	hello := []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:1"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`,
	}
	open := []string{
		`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"one"}}`,
		`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"two"}}`,
	}
	for _, line := range hello {
		c.sends(line)
		d.expects(line)
	}
	for _, id := range []string{"0", "1", "2"} {
		d.sends(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		c.expects(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
	}
	for _, line := range []string{ // not sent to the next daemon
		`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"b:1"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"b:1"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`,
		`{"jsonrpc":"2.0","id":6,"method":"resources/subscribe","params":{"uri":"c:1"}}`,    // is refused
		`{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"verbose"}}`, // is refused: the earlier level stays
		`{"jsonrpc":"2.0","id":8,"method":"resources/subscribe","params":{"uri":"a:1"}}`,    // is refused: the earlier subscription stays
	} {
		c.sends(line)
		d.expects(line)
	}
	d.sends(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	d.sends(`{"jsonrpc":"2.0","id":4,"result":{}}`)
	for _, id := range []string{"6", "7", "8"} {
		d.sends(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32002,"message":"unknown"}}`)
	}
	c.expects(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	c.expects(`{"jsonrpc":"2.0","id":4,"result":{}}`)
	for _, id := range []string{"6", "7", "8"} {
		c.expects(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32002,"message":"unknown"}}`)
	}
	for _, line := range open {
		c.sends(line)
		d.expects(line)
	}
	for daemons := range 2 {
		s = s.replace(t)
		if daemons > 0 { // the request may be the reason for the crashes
			c.expects(`{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"mcpschedd: outcome unknown: the daemon that had the request has ended"}],"isError":true}}`)
		}
		d = s.next(t)
		d.expects(hello...)
		if daemons == 0 {
			if !slices.Equal(d.Replayed, []string{`"x"`, "9"}) {
				t.Errorf("got %q replayed", d.Replayed)
			}
			d.expects(open...)
		}
		d.sends(`{"jsonrpc":"2.0","id":0,"result":{}}`) // the client has already got this response
		d.sends(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		d.sends(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		if daemons == 0 {
			d.sends(`{"jsonrpc":"2.0","id":9,"result":{}}`)
			c.expects(`{"jsonrpc":"2.0","id":9,"result":{}}`)
		}
	}
	c.sends(`{"jsonrpc":"2.0","id":10,"method":"ping"}`)
	d.expects(`{"jsonrpc":"2.0","id":10,"method":"ping"}`)
	d.sends(`{"jsonrpc":"2.0","id":10,"result":{}}`)
	c.expects(`{"jsonrpc":"2.0","id":10,"result":{}}`)
}

// A subscription stays open for the whole session: every daemon gets it after one that has lasted, and while
// nothing else is open no daemon is pinged. But if daemons end soon, it may be the reason, and is answered as
// other requests are.
func TestAgainWithASubscription(t *testing.T) {
	const listens, ping = `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const ended = `{"jsonrpc":"2.0","id":"l","result":{}}` // by the server
	const gone = `{"jsonrpc":"2.0","id":"l","error":{"code":-32603,"message":"mcpschedd: outcome unknown: the daemon that had the request has ended"}}`
	if !daemon.Idle(listens) || daemon.Idle(listens, ping) {
		t.Error("want only the other request to be awaited")
	}
	for _, test := range []struct {
		name        string
		stableAfter time.Duration
		daemons     int // that get it
		answer      string
	}{{"lasting", 0, 4, ended}, {"crashing", time.Hour, 2, gone}} {
		t.Run(test.name, func(t *testing.T) {
			daemon.SetStableAfter(test.stableAfter)
			t.Cleanup(func() { daemon.SetStableAfter(time.Hour) })
			s := listen(t, place(t))
			c := connect(t, s.place)
			d := s.next(t)
			c.sends(listens)
			d.expects(listens)
			for range test.daemons - 1 {
				s = s.replace(t)
				d = s.next(t)
				d.expects(listens)
			}
			if test.answer == gone {
				s = s.replace(t)
				d = s.next(t)
			}
			d.sends(ended)
			c.expects(test.answer)
		})
	}
}

// A subscription that no daemon can have is answered as other requests are.
func TestSubscriptionWithoutADaemon(t *testing.T) {
	const listens = `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{}}`
	s := listen(t, place(t))
	c := connect(t, s.place)
	d := s.next(t)
	c.sends(listens)
	d.expects(listens)
	s.stop()
	c.sends(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if got, err := c.lines.ReadString('\n'); err != nil || !strings.Contains(got, `"id":"l","error"`) {
		t.Errorf("got %q, %v; want an error", got, err)
	}
}

// The next daemon gets the open requests of a batch, unless the revision has no batches and the
// daemon has refused it.
func TestAgainAfterABatch(t *testing.T) {
	const batch, held, ping = `[{"jsonrpc":"2.0","id":7,"method":"tools/list"}]`, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":8,"method":"ping"}`
	for revision, again := range map[string][]string{"2025-03-26": {held, ping}, "2025-11-25": {ping}} {
		s := listen(t, place(t))
		c := connect(t, s.place)
		d := s.next(t)
		hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision + `"}}`
		c.sends(hello)
		c.sends(batch)
		d.expects(hello, batch)
		s = s.replace(t)
		d = s.next(t)
		c.sends(ping)
		d.expects(append([]string{hello}, again...)...)
	}
}

// A client whose working directory is deleted is served by the next daemon, as by the one before.
func TestAgainInADeletedFolder(t *testing.T) {
	const ping, pong = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`
	dir := t.TempDir()
	t.Chdir(dir)
	s := listen(t, place(t))
	c := connect(t, s.place)
	s.next(t)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	s = s.replace(t)
	go func() {
		select {
		case d := <-s.clients:
			if d.Dir != dir {
				t.Errorf("the next daemon got the folder %s, want %s", d.Dir, dir)
			}
			io.WriteString(d.Out, pong+"\n")
		case <-t.Context().Done():
		}
	}()
	c.sends(ping)
	c.expects(pong)
}

// A notification that the client sends while no daemon can be reached sets up the session with the
// next one.
func TestAgainAfterNone(t *testing.T) {
	const hello, ready = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	s := listen(t, place(t))
	c := connect(t, s.place)
	d := s.next(t)
	c.sends(hello)
	d.expects(hello)
	d.sends(`{"jsonrpc":"2.0","id":0,"result":{}}`)
	c.expects(`{"jsonrpc":"2.0","id":0,"result":{}}`)
	s.stop()
	for _, lines := range []string{"", ready + "\n"} {
		c.sends(lines + `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if got, err := c.lines.ReadString('\n'); err != nil || !strings.Contains(got, `"id":1,"error"`) {
			t.Fatalf("got %q, %v; want an error", got, err)
		}
	}
	c.sends(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	if got, err := c.lines.ReadString('\n'); err != nil || !strings.Contains(got, `"id":1,"result":{"resultType":"complete","content":[`) {
		t.Errorf("got %q, %v; want a result of the stateless era", got, err)
	}
	d = listen(t, s.place).next(t)
	d.expects(hello, ready)
}

// If a daemon does not answer pings while a request is open, its connection is closed and the request
// is answered with an error; a slow or idle daemon keeps its connection. Requests after that are
// answered as not sent. When the daemon continues, so does the client. The request is of a daemon before
// that one, after which the client has sent nothing.
func TestHangs(t *testing.T) {
	p := place(t)
	l, err := net.Listen("unix", p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := connectBy(t, daemon.Options{Place: p, PingEvery: 20 * time.Millisecond})
	first, lines, _ := accepted(t, l)
	c.sends(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	first.(io.Closer).Close()
	for kind := ""; kind != "session"; { // after pings of the one before
		first, lines, kind = accepted(t, l)
	}
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first pings are answered
		if _, _, kind := accepted(t, l); kind != "ping" {
			t.Fatalf("got a connection of the kind %q", kind)
		}
	}
	silent, err := l.Accept() // this ping gets no answer in time
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refuse := func(kind string) { // that is no answer either, at once
		t.Helper()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if hello, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(hello, `"kind":"`+kind+`"`) {
			t.Errorf("got the hello %.200s, want one of the kind %q", hello, kind)
		}
	}
	refuse("ping")
	const hangs = "mcpschedd: outcome unknown: the daemon that has the request does not answer"
	c.expects(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"` + hangs + `"}}`)
	if _, err := lines.ReadString('\n'); err != io.EOF {
		t.Errorf("got %v from the connection that was given up, want its end", err)
	}
	io.WriteString(first, `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n") // ignored, as it is too late
	refuse("session")
	refuse("session") // Connect tries twice
	c.sends(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got, err := c.lines.ReadString('\n'); err != nil || !strings.Contains(got, `"id":2`) || !strings.Contains(got, "not sent") {
		t.Errorf("got %s, %v; want an error that it was not sent", got, err)
	}
	again, lines, kind := accepted(t, l)
	if kind != "session" {
		t.Fatalf("got a connection of the kind %q, want a session", kind)
	}
	go func() {
		for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
			io.WriteString(again, strings.Replace(line, `"method":"ping"`, `"result":{}`, 1))
		}
	}()
	for answer := ""; !strings.Contains(answer, "result"); {
		c.sends(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
		if answer, err = c.lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

// A daemon of another program version is used if its protocol version is the same, even if it
// sends unknown members.
func TestOtherProgramVersion(t *testing.T) {
	p := place(t)
	l, err := net.Listen("unix", p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := connect(t, p)
	out, _, kind := accepted(t, l)
	if kind != "session" {
		t.Fatalf("got a connection of the kind %q, want a session", kind)
	}
	io.WriteString(out, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n")
	c.expects(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
}

// accepted accepts a connection as a later version of the daemon would, and returns its kind;
// "" if the client has closed it.
func accepted(t *testing.T, l net.Listener) (out io.Writer, lines *bufio.Reader, kind string) {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	lines = bufio.NewReader(conn)
	hello, _ := lines.ReadString('\n')
	welcome := fmt.Sprintf(`{"mcpschedd":%d,"version":"99.0.0","later":{}}`+"\n", daemon.Protocol)
	_, err = io.WriteString(conn, welcome)
	if err != nil || strings.Contains(hello, `"kind":"ping"`) {
		return conn, lines, "ping"
	}
	if _, err := lines.ReadString('\n'); err != nil { // the variables of the client
		return conn, lines, ""
	}
	in, out, err := daemon.SendStream(conn)
	if err != nil {
		return conn, lines, ""
	}
	return out, bufio.NewReader(in), "session"
}

func TestParseArgs(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", ""},
		{"--wait 3s", ""},
		{"--wait 3", `invalid value "3" for flag -wait: want a time with its unit, such as 3s`},
		{"--wait 0", "--wait: want more than 0, have 0s"},
		{"--wait -1s", "--wait: want more than 0, have -1s"},
		{"more", `unexpected argument "more"`},
	} {
		got := ""
		if _, err := daemon.ParseArgs(strings.Fields(test.args)); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%q: got %q, want %q", test.args, got, test.want)
		}
	}
}

// TestDaemonEnv: a daemon gets the variables that it needs itself, and none of those that one client may have
// with other values than the next, such as those in dedup.store.
func TestDaemonEnv(t *testing.T) {
	want := []string{"HOME=/h", "LC_ALL=C", "GOGC=50", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost"}
	if got := daemon.DaemonEnv(append([]string{"GITHUB_TOKEN=t", "VALKEY_PASSWORD=p", "REDIS_URL=redis://localhost"}, want...)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Without a working daemon, Connect returns an error and has read nothing.
func TestNoDaemon(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(net.Conn)
	}{
		{"none", nil},
		{"silent", func(net.Conn) {}},
		{"closes", func(c net.Conn) { c.Close() }},
		{"rubbish", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\n") }},
		{"endless", func(c net.Conn) {
			for _, err := io.WriteString(c, strings.Repeat("x", 1<<16)); err == nil; _, err = io.WriteString(c, strings.Repeat("x", 1<<16)) {
			}
		}},
		{"another version", func(c net.Conn) { io.WriteString(c, `{"mcpschedd":2}`+"\n") }},
		{"out of turn", func(c net.Conn) { io.WriteString(c, `{"mcpschedd":1}`+"\n"+`{"mcpschedd":1}`+"\n{}\n") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := place(t)
			if test.answer != nil {
				l, err := net.Listen("unix", p.Socket)
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
						go test.answer(c)
					}
				}()
			}
			in := &untouched{}
			err := daemon.Connect(t.Context(), in, io.Discard, daemon.Options{
				Place: p, Start: []string{"/nonexistent"},
				Log: slog.New(slog.DiscardHandler), Wait: 50 * time.Millisecond,
			})
			if err == nil {
				t.Error("got no error")
			}
			if in.read {
				t.Error("Connect has read from the client")
			}
		})
	}
}

// If a started process does not become the daemon in time, it is killed, so that it does not
// accept clients later.
func TestHangsAtItsStart(t *testing.T) {
	for name, script := range map[string]string{
		"says nothing":        "exec sleep 3600 3>",
		"says something else": "echo hello; exec sleep 3600 3>",
		"closes its output":   "exec sleep 3600 >",
	} {
		t.Run(name, func(t *testing.T) {
			held := filepath.Join(t.TempDir(), "held")
			if err := syscall.Mkfifo(held, 0o600); err != nil {
				t.Fatal(err)
			}
			// The other end of the pipe is open as long as the process lives.
			process, err := os.OpenFile(held, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer process.Close()
			err = daemon.Connect(t.Context(), &untouched{}, io.Discard, daemon.Options{
				Place: place(t), Start: []string{"sh", "-c", script + held},
				Log: slog.New(slog.DiscardHandler), Wait: 200 * time.Millisecond,
			})
			if err == nil {
				t.Error("got no error")
			}
			if _, err := io.Copy(io.Discard, process); err != nil {
				t.Error(err)
			}
		})
	}
}

// A client whose daemon has ended starts another one also if their folder was deleted meanwhile.
func TestStartInADeletedFolder(t *testing.T) {
	p, started := place(t), filepath.Join(t.TempDir(), "started")
	if err := os.RemoveAll(p.StateDir()); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Connect(t.Context(), &untouched{}, io.Discard, daemon.Options{ // it ends at once
		Place: p, Start: []string{"touch", started}, Log: slog.New(slog.DiscardHandler), Wait: 20 * time.Second,
	})
	if _, err := os.Stat(started); err != nil {
		t.Errorf("no daemon was started: %v", err)
	}
}

// Where there can be no lock, the error names its file, and no other client.
func TestNoLock(t *testing.T) {
	p := place(t)
	if err := os.Mkdir(p.Starting(), 0o700); err != nil {
		t.Fatal(err)
	}
	err := daemon.Connect(t.Context(), &untouched{}, io.Discard, daemon.Options{Place: p, Start: []string{"true"}, Log: slog.New(slog.DiscardHandler), Wait: time.Minute})
	if err == nil || strings.Contains(err.Error(), "another client") || !strings.Contains(err.Error(), "lock of "+p.Starting()) {
		t.Errorf("got %v", err)
	}
}

type untouched struct{ read bool }

func (u *untouched) Read([]byte) (int, error) {
	u.read = true
	return 0, io.EOF
}

// A client with an invalid handshake is refused, and others are served.
func TestRefused(t *testing.T) {
	s := listen(t, place(t))
	say := func(hello string) string {
		conn, err := net.Dial("unix", s.place.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			for begin, end, ok := strings.Cut(hello, "…"); ok; { // longer than what the daemon reads
				if _, err := io.WriteString(conn, begin); err != nil {
					return
				}
				begin, hello = strings.Repeat("x", 1<<20), end
			}
			io.WriteString(conn, hello+"\n")
		}()
		answer, _ := bufio.NewReader(conn).ReadString('\n')
		return answer
	}
	for _, test := range []struct{ name, hello, want string }{
		{"another version", `{"mcpschedd":2,"kind":"session","dir":"/"}`, "want version 1 of the protocol, have 2"},
		{"no version", `{}`, "want version 1 of the protocol, have 0"},
		{"a report that is none", `{"mcpschedd":1,"kind":"hook"}`, "unknown kind of connection"},
		{"another kind", `{"mcpschedd":1,"kind":"x"}`, "unknown kind of connection"},
		{"no folder", `{"mcpschedd":1,"kind":"session","dir":"a"}`, "want an absolute path"},
		{"an unknown server alone", `{"mcpschedd":1,"kind":"session","dir":"/","only":"nope"}`, `--only: no server \"nope\" is configured and enabled for /`},
		{"not JSON", `GET / HTTP/1.1`, ""},
		{"endless", `{"mcpschedd":1,"kind":"session","dir":"/","env":["…"]}`, ""},
	} {
		if got := say(test.hello); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: got %.200q, want %q", test.name, got, test.want)
		}
	}
	connect(t, s.place)
	s.next(t)
}

// Only one process at a time is the daemon. The files of a crashed daemon do not prevent the next
// one.
func TestListen(t *testing.T) {
	s := listen(t, place(t))
	if _, err := daemon.Listen(s.place, daemon.ListenOptions{}); !errors.Is(err, daemon.ErrRunning) {
		t.Errorf("got %v, want ErrRunning", err)
	}
	if info, err := os.Stat(s.place.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v; want mode 0600", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(s.place.Socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: got %v, %v; want mode 0700", info.Mode(), err)
	}
	s.stop()
	if _, err := os.Stat(s.place.Socket); err == nil {
		t.Error("the socket is still there")
	}
	if err := os.WriteFile(s.place.Socket, nil, 0o600); err != nil { // without a listener
		t.Fatal(err)
	}
	next := listen(t, s.place)
	connect(t, next.place)
	next.next(t)
}

func TestAt(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("long/", 30))
	a, err := daemon.NewPlace(long, "/a.toml")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("/tmp/mcpschedd-%d/", os.Getuid()); !strings.HasPrefix(a.Socket, want) || len(a.Socket) > 103 {
		t.Errorf("got %s, want a path in %s", a.Socket, want)
	}
	seen := map[string]bool{a.Socket: true}
	for _, test := range [][2]string{{long, "/b.toml"}, {long + "er", "/a.toml"}, {dir, "/a.toml"}, {dir, ""}} {
		p, err := daemon.NewPlace(test[0], test[1])
		if err != nil || seen[p.Socket] {
			t.Errorf("%q: got %s, %v; want a socket of its own", test, p.Socket, err)
		}
		seen[p.Socket] = true
	}
	wide := filepath.Join(dir, "wide")
	if err := os.MkdirAll(filepath.Join(wide, "daemon"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.NewPlace(wide, ""); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(wide, "daemon")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v; want mode 0700", info.Mode(), err)
	}
	for name, make := range map[string]func(path string) error{
		"a file":                func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a link":                func(path string) error { return os.Symlink(wide, path) },
		"a folder of another's": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 4711, 4711)) },
	} {
		other := filepath.Join(dir, name)
		if err := os.Mkdir(other, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(other, "daemon")); err != nil {
			t.Logf("%s: %v", name, err) // only root can change the owner of a folder
			continue
		}
		if _, err := daemon.NewPlace(other, ""); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

// A client finds the daemon although its socket was deleted.
func TestSocketDeleted(t *testing.T) {
	p := place(t)
	s := listen(t, p)
	if err := os.Remove(p.Socket); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("unix", p.Socket); err == nil {
			conn.Close()
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("the daemon does not listen again")
		}
	}
	c := connect(t, p)
	e := s.next(t)
	c.sends(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	e.expects(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
}

// A daemon listens again if only the folder of its socket was deleted. While that folder cannot be
// created, it warns once.
func TestSocketFolderDeleted(t *testing.T) {
	p := place(t)
	folder := filepath.Join(p.StateDir(), "elsewhere") // as that in /tmp, without the lock
	p.Socket = filepath.Join(folder, "s")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	l, err := daemon.Listen(p, daemon.ListenOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Run(ctx, func() {})
	})
	for loss := 1; loss <= 2; loss++ {
		if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			l.CheckSocket()
		}
		if got := strings.Count(log.String(), "cannot be created again"); got != loss {
			t.Errorf("loss %d: got %d warnings in\n%s", loss, got, log.String())
		}
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		l.CheckSocket()
		conn, err := net.Dial("unix", p.Socket)
		if err != nil {
			t.Fatalf("loss %d: the daemon does not listen again: %v", loss, err)
		}
		conn.Close()
		if got := strings.Count(log.String(), "listening again"); got != loss {
			t.Errorf("loss %d: got %d of listening again in\n%s", loss, got, log.String())
		}
	}
}

// A daemon whose folder was deleted serves the clients that it has, ends when they have left, and
// leaves the socket of the next daemon alone.
func TestFolderDeleted(t *testing.T) {
	p := place(t)
	first := listen(t, p)
	c := connect(t, p)
	e := first.next(t)
	if err := os.RemoveAll(filepath.Join(p.StateDir(), "daemon")); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.NewPlace(p.StateDir(), "/c.toml"); err != nil {
		t.Fatal(err)
	}
	second := listen(t, p)
	c.sends(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	e.expects(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	first.leave <- struct{}{}
	if err := <-first.ended; err == nil {
		t.Error("a daemon without a socket has ended without an error")
	}
	connect(t, p)
	second.next(t)
}
