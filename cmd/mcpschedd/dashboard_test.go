package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/record"
)

// board is a running dashboard.
type board struct {
	t       *testing.T
	address string // with a code
	client  *http.Client
	stop    context.CancelFunc
	ended   chan error
}

// open starts `mcpschedd dashboard` and waits for its address.
func open(t *testing.T, args ...string) *board {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	jar, _ := cookiejar.New(nil)
	b := &board{t: t, client: &http.Client{Jar: jar, Timeout: 10 * time.Second}, stop: stop, ended: make(chan error, 1)}
	r, w := io.Pipe()
	go func() {
		err := execute(ctx, append([]string{"dashboard", "--addr", "127.0.0.1:0"}, args...), w, io.Discard)
		w.CloseWithError(errors.Join(io.EOF, err))
		b.ended <- err
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	b.address = strings.TrimSpace(line)
	t.Cleanup(b.close)
	return b
}

func (b *board) close() {
	b.stop()
	b.client.CloseIdleConnections()
	if err := <-b.ended; err != nil {
		b.t.Errorf("ended with %v, want no error", err)
	}
	b.ended <- nil
}

// get returns the status and the body of a response.
func (b *board) get(address string) (int, []byte) {
	b.t.Helper()
	r, err := b.client.Get(address)
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.StatusCode, body
}

// seen is what there is to see.
type seen struct {
	record.View
	Warnings []record.Warning `json:"wrong"`
}

func (b *board) view() (v seen) {
	b.t.Helper()
	code, body := b.get(strings.SplitN(b.address, "?", 2)[0] + "/view.json")
	if err := json.Unmarshal(body, &v); code != 200 || err != nil {
		b.t.Fatalf("got %d, %v", code, err)
	}
	return v
}

func called(at time.Time, seq int64) record.Event {
	return record.Event{Kind: record.Call, At: at, Session: "s1", Seq: seq, Upstream: "notes", Tool: "read", Class: "read_only", Disposition: record.Fetched, Sent: 1, LatencyMS: 40, UpstreamMS: 40, Bytes: 400, Tokens: 100}
}

func TestDashboardOfRunning(t *testing.T) {
	homely(t)
	b := open(t)
	if code, _ := b.get(strings.SplitN(b.address, "?", 2)[0] + "/view.json"); code != 401 {
		t.Errorf("without the code: got %d, want 401", code)
	}
	if code, page := b.get(b.address); code != 200 || !bytes.Contains(page, []byte("<h1>mcpschedd</h1>")) {
		t.Fatalf("with the code: got %d, want the page", code)
	}
	other := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if r, err := other.Get(b.address); err != nil || r.Body.Close() != nil || r.StatusCode != 401 {
		t.Error("a code was accepted twice")
	}
	if n := b.view().Stats.Totals.Calls; n != 0 {
		t.Errorf("nothing runs: got %d calls", n)
	}
}

// The dashboard finds a process that started after it, and shows its new events.
func TestDashboardReadsOn(t *testing.T) {
	home := homely(t)
	bubble.Test(t, func(t *testing.T) {
		view := ownView(t)
		if n := lookAt(t, view).Stats.Totals.Calls; n != 0 {
			t.Errorf("nothing runs: got %d calls", n)
		}
		log := record.Open(record.Options{Dir: filepath.Join(home, "mcpschedd", eventsFolder), Key: []byte("k")})
		defer log.Close()
		for seq := range int64(2) {
			log.Add(called(time.Now(), seq+1))
			log.Flush()
			if v := lookAt(t, view); v.Stats.Totals.Calls != seq+1 || len(v.Timeline) != int(seq)+1 {
				t.Errorf("got %d calls, %d in the timeline, want %d", v.Stats.Totals.Calls, len(v.Timeline), seq+1)
			}
		}
		time.Sleep(24 * time.Hour)
		if n := lookAt(t, view).Stats.Totals.Calls; n != 0 {
			t.Errorf("the next day: got %d calls of today, want none", n)
		}
	})
}

func TestDashboardOfRecorded(t *testing.T) {
	at := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	line := []byte(nil)
	for i := range 3 {
		e := called(at.Add(time.Duration(i)*time.Minute), int64(i+1))
		line = appendLine(line, &e)
	}
	line = append(line, "this is no event\n"...)
	begin := record.Event{Kind: record.Begin, At: at, V: record.Version, PID: 7, Program: "dev"}
	file := filepath.Join(t.TempDir(), "20260102T090000-7-beef.000.jsonl")
	writeFile(t, file, string(append(appendLine(nil, &begin), line...)))
	b := open(t, file)
	b.get(b.address)
	if _, body := b.get(strings.SplitN(b.address, "?", 2)[0] + "/view.json"); !bytes.Contains(body, []byte(`"recorded":true`)) {
		t.Errorf("the page does not say that the events are recorded: got %s", body)
	}
	v := b.view()
	if v.Stats.Open != 0 {
		t.Errorf("got %d open sessions of a process that has ended", v.Stats.Open)
	}
	if v.Stats.Totals.Calls != 3 {
		t.Errorf("got %d calls, want 3", v.Stats.Totals.Calls)
	}
	if len(v.Warnings) == 0 {
		t.Error("a line that cannot be read is not told of")
	}
}

// A request with a foreign host name that resolves to this machine is refused.
func TestDashboardHost(t *testing.T) {
	homely(t)
	b := open(t)
	for host, want := range map[string]int{"evil.example": 403, "127.0.0.1.evil.example:80": 403, "192.0.2.1": 403, "localhost:1": 401, "[::1]:9": 401, "127.0.0.2": 401, "LOCALHOST": 401} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", strings.SplitN(b.address, "?", 2)[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		got, err := b.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("%s: got %d, want %d", host, got.StatusCode, want)
		}
	}
}

// Files without events are an error, as with stats. The reason is printed once.
func TestDashboardOfNothing(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "conf.toml")
	writeFile(t, config, "[telemetry]\nevents = \"on\"\n")
	for name, why := range map[string]string{config: ":1: not JSON", filepath.Join(dir, "nope"): "no such file", os.DevNull: ""} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"dashboard", name}, &stdout, &stderr)
		if said := stderr.String(); code != exitFailed || !strings.HasSuffix(said, "mcpschedd: error: "+name+": no events\n") || why != "" && strings.Count(said, why) != 1 {
			t.Errorf("%s: exit %d, %s", name, code, said)
		}
		if stdout.Len() > 0 {
			t.Errorf("%s: got an address: %s", name, &stdout)
		}
	}
}

func TestDashboardUsage(t *testing.T) {
	homely(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--addr", "0.0.0.0:0"}, "not a loopback address"},
		{[]string{"--addr", ":0"}, "not a loopback address"},
		{[]string{"--addr", "nonsense"}, "--addr: "},
		{[]string{"--http", "127.0.0.1:1", "--addr", "127.0.0.1:0"}, "leave out --addr"},
		{[]string{"--http", "127.0.0.1:1", "a.jsonl"}, "leave out --addr"},
		{[]string{"--http", "ftp://x"}, "want a URL"},
		{[]string{"a.jsonl", "--config", "c.toml"}, "leave out --config"},
		{[]string{filepath.Join(t.TempDir(), "none.jsonl")}, "none.jsonl"},
		{[]string{"--nope"}, "-nope"},
	} {
		err := execute(t.Context(), append([]string{"dashboard"}, c.args...), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q in it", c.args, err, c.want)
		}
	}
}

// The page is always at the same address, unless that is in use.
func TestDashboardAddress(t *testing.T) {
	homely(t)
	taken, err := net.Listen("tcp", dashboardAddr) // an error means that another process uses the address already
	if err == nil {
		defer taken.Close()
	}
	var stderr bytes.Buffer
	f := new(dashboardFlags)
	l, err := f.listen(&stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !strings.Contains(stderr.String(), dashboardAddr+" is in use") || l.Addr().String() == dashboardAddr {
		t.Errorf("got %s, %s; want another port", l.Addr(), &stderr)
	}
}
