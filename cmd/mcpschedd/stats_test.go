package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/record"
)

func TestStatsURL(t *testing.T) {
	homely(t)
	for in, want := range map[string]string{
		"127.0.0.1:7777":              "http://127.0.0.1:7777/stats",
		"http://127.0.0.1:7777":       "http://127.0.0.1:7777/stats",
		"http://127.0.0.1:7777/":      "http://127.0.0.1:7777/stats",
		"http://127.0.0.1:7777/mcp":   "http://127.0.0.1:7777/stats",
		"http://127.0.0.1:7777/stats": "http://127.0.0.1:7777/stats",
		"127.0.0.1:7777/mcp/github":   "http://127.0.0.1:7777/stats",
		"127.0.0.1:7777/sse":          "http://127.0.0.1:7777/stats",
		"127.0.0.1:7777/dashboard":    "http://127.0.0.1:7777/stats",
		"[::1]:7777":                  "http://[::1]:7777/stats",
		"localhost:7777":              "http://localhost:7777/stats",
		"http://[::]:7777":            "http://localhost:7777/stats", // as serve --http :7777 logs it
		"0.0.0.0":                     "http://localhost/stats",
		"https://x.example/a/mcp/":    "https://x.example/a/stats",
		"https://u:p@x.example?q#f":   "https://x.example/stats", // without a password, which would be in every error
		"ftp://x":                     "",
		"http://":                     "",
		"http://:80":                  "",
		"x y":                         "",
	} {
		got := ""
		if d, err := httpClientAt(in, ""); err == nil {
			got = d.base + "/stats"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// The token in the state folder is sent to this machine only.
func TestStatsToken(t *testing.T) {
	home := homely(t)
	t.Setenv("MCPSCHEDD_TOKEN", "")
	tokenOf := func(url string) string {
		t.Helper()
		d, err := httpClientAt(url, "")
		if err != nil {
			t.Fatal(err)
		}
		return d.token
	}
	if got := tokenOf("localhost:1"); got != "" {
		t.Errorf("without a file: got %q", got)
	}
	file := filepath.Join(home, "mcpschedd", tokenFile)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file %s was created: %v", file, err)
	}
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, "0123456789abcdef\n")
	for url, want := range map[string]string{
		"localhost:1": "0123456789abcdef", "http://127.8.9.1:1": "0123456789abcdef", "[::1]:1": "0123456789abcdef",
		"x.example": "", "10.0.0.1:1": "", "localhost.example:1": "", "http://127.0.0.1@x.example": "", "http://127.0.0.1.example": "",
	} {
		if got := tokenOf(url); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
	t.Setenv("MCPSCHEDD_TOKEN", "from the environment")
	for _, url := range []string{"localhost:1", "x.example"} {
		if got := tokenOf(url); got != "from the environment" {
			t.Errorf("%s: got %q, want that of the environment", url, got)
		}
	}
}

func TestStatsOfADaemon(t *testing.T) {
	homely(t)
	t.Setenv("MCPSCHEDD_TOKEN", "right token of them all")
	ours, err := json.Marshal(record.NewTally().Stats(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		serve http.HandlerFunc
		want  string // part of the error
		hint  bool
	}{
		{"fine", func(w http.ResponseWriter, r *http.Request) { w.Write(ours) }, "", false},
		{"wrong token", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "401 Unauthorized", true},
		{"another program", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotFound) }, "404 Not Found", true},
		{"another page", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>")) }, "not mcpschedd's response", false},
		{"a later version", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{"schema_version":7}`)) }, "want figures of version 1, have 7", false},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://x.example", http.StatusFound)
		}, "302 Found", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); got != "Bearer right token of them all" || r.URL.Path != "/stats" {
					t.Errorf("asked for %s with %q", r.URL.Path, got)
				}
				tt.serve(w, r)
			}))
			defer server.CloseClientConnections()
			d, err := httpClientAt(server.URL+"/mcp", "")
			if err != nil {
				t.Fatal(err)
			}
			s, err := d.view(t.Context())
			if tt.want == "" {
				if err != nil || s.Stats.SchemaVersion != 1 {
					t.Fatalf("got %+v, %v", s, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), d.base+": ") {
				t.Errorf("got %v, want %s: … %s", err, d.base, tt.want)
			}
			if _, ok := errors.AsType[hinted](err); ok != tt.hint {
				t.Errorf("hinted: got %v, want %v", ok, tt.hint)
			}
		})
	}
}

// The hint of an error says what to do about it.
func TestStatsHints(t *testing.T) {
	home := homely(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	plain, encrypted := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	defer plain.Close()
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	if err := os.Mkdir(filepath.Join(home, "mcpschedd"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ url, file, variable, want string }{
		{encrypted.URL, "", "x", "SSL_CERT_FILE"},
		{strings.Replace(plain.URL, "http:", "https:", 1), "", "x", "use http://"},
		{plain.URL, "", "", "set $MCPSCHEDD_TOKEN"},
		{plain.URL, "0123456789abcdef", "x", "set $MCPSCHEDD_TOKEN"},
		{plain.URL, "0123456789abcdef", "", "it has another token than the file"},
	} {
		t.Setenv("MCPSCHEDD_TOKEN", tt.variable)
		writeFile(t, filepath.Join(home, "mcpschedd", tokenFile), tt.file)
		d, err := httpClientAt(tt.url, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.view(t.Context())
		if h, ok := errors.AsType[hinted](err); !ok || !strings.HasPrefix(strings.TrimPrefix(h.hint, "on Linux, "), tt.want) {
			t.Errorf("%s with %q and %q: got %v, hint %q, want %s", tt.url, tt.file, tt.variable, err, h.hint, tt.want)
		}
	}
}

// looks returns one view after another.
type looks struct {
	all  []any // each a record.View or an error
	stop context.CancelFunc
}

func (l *looks) look(ctx context.Context) (record.View, error) {
	if len(l.all) == 0 {
		l.stop()
		return record.View{}, ctx.Err()
	}
	next := l.all[0]
	l.all = l.all[1:]
	if err, ok := next.(error); ok {
		return record.View{}, err
	}
	return next.(record.View), nil
}

func TestStatsWatchPrintsWhatChanges(t *testing.T) {
	at := func(calls, uptime int64) record.View {
		v := record.View{Notes: []record.Warning{{Message: "process"}}}
		v.Stats.Totals.Calls, v.Stats.UptimeS = calls, uptime
		v.Stats.Hosts = map[string]record.Host{"h": {Tokens: float64(uptime)}}
		return v
	}
	gone := errors.New("refused")
	for _, tt := range []struct {
		name           string
		all            []any
		prints, warned int
		err            error
	}{
		{"nothing changes", []any{at(1, 1), at(1, 2), at(1, 3)}, 1, 0, nil},
		{"two changes", []any{at(1, 1), at(2, 2), at(2, 3), at(3, 4)}, 3, 0, nil},
		{"never there", []any{gone, at(1, 1)}, 0, 0, gone},
		{"gone for a while", []any{at(1, 1), gone, gone, at(1, 4), gone, at(2, 6)}, 2, 2, nil},
	} {
		for _, asJSON := range []bool{false, true} {
			bubble.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var stdout, stderr bytes.Buffer
				f := &statsFlags{watch: true}
				if asJSON {
					f.as = "json"
				}
				began := time.Now()
				l := looks{tt.all, cancel}
				err := f.watchFigures(ctx, l.look, &stdout, &stderr)
				if !errors.Is(err, tt.err) {
					t.Errorf("%s: got error %v, want %v", tt.name, err, tt.err)
				}
				if took, want := time.Since(began), time.Duration(len(tt.all))*time.Second; err == nil && took != want {
					t.Errorf("%s: looked for %v, want %v", tt.name, took, want)
				}
				mark := "process\n"
				if asJSON {
					mark = "}\n"
				}
				if got := strings.Count(stdout.String(), mark); got != tt.prints {
					t.Errorf("%s: printed %d times, want %d:\n%s", tt.name, got, tt.prints, stdout.String())
				}
				if got := strings.Count(stderr.String(), "mcpschedd: warning: refused\n"); got != tt.warned {
					t.Errorf("%s: warned %d times, want %d", tt.name, got, tt.warned)
				}
			})
		}
	}
}

// A running process is found by its status and its events, watched, and not counted as running any
// more after it has ended.
func TestStatsOfARunningProcess(t *testing.T) {
	home := homely(t)
	bubble.Test(t, func(t *testing.T) { statsOfARunningProcess(t, home) })
}

func statsOfARunningProcess(t *testing.T, home string) {
	log := record.Open(record.Options{
		Dir:   filepath.Join(home, "mcpschedd", eventsFolder),
		Begin: record.Event{At: time.Now(), PID: 4711, Transport: "stdio", Dir: "/some\x1b[2Jwhere"},
		Status: func() record.Status {
			return record.Status{Clients: []record.ClientStatus{{Client: "claude-code 2.1", Dir: "/p", Sessions: 2}}, Upstreams: []record.UpstreamStatus{
				{Name: "github", State: "ready", Tools: 41, Cacheable: 38, Prefetchable: 35},
				{Name: "pg", State: "down", Error: "PG_\x1bSECRET is not set"},
				{Name: "tickets", State: "ready", Tools: 3, Why: "its tools are unclassified", Change: "trust = true in [upstreams.tickets]"},
			}}
		},
	})
	call := record.Event{Kind: record.Call, At: time.Now(), Session: "s", Seq: 1, Upstream: "github", Tool: "list", Disposition: record.Hit, LatencyMS: 5, HiddenMS: 15}
	log.Add(call)
	log.Flush()
	stats := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if err := execute(t.Context(), append([]string{"stats"}, args...), &stdout, &stderr); err != nil || stderr.Len() > 0 {
			t.Errorf("stats %v: %v, %s", args, err, stderr.String())
		}
		return stdout.String()
	}
	text := stats()
	for _, want := range []string{
		"Saved 15 ms of 20 ms waiting today.\nNot available now: pg.\nNothing is cached or prefetched of: tickets.\n",
		"github   ready  41 tools, 38 cacheable, 35 prefetchable\n", "pg       down   PG_?SECRET is not set\n",
		"tickets: its tools are unclassified; to change that: trust = true in [upstreams.tickets]\n",
		"process 4711 since ", "stdio in /some?[2Jwhere, configuration built in\n    claude-code 2.1: 2 open\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "github/list") || !strings.Contains(stats("-v"), "github/list") {
		t.Errorf("want the figures with -v alone; without got\n%s", text)
	}
	var s record.Stats
	if err := json.Unmarshal([]byte(stats("--json")), &s); err != nil || s.Totals.Calls != 1 || s.Processes != 1 || s.Open != 2 || len(s.Running) != 1 {
		t.Errorf("got %+v, %v; want 1 call of 1 process", s, err)
	}
	if text := stats("--csv"); strings.Count(text, "\n") != 2 {
		t.Errorf("got %q, want a head and a line", text)
	}

	lines := watching(t, "--watch", "--json")
	if got := lines(); got.Totals.Calls != 1 {
		t.Errorf("first: got %d calls, want 1", got.Totals.Calls)
	}
	call.Seq = 2
	log.Add(call)
	if got := lines(); got.Totals.Calls != 2 {
		t.Errorf("then: got %d calls, want 2", got.Totals.Calls)
	}
	log.Close()
	if got := lines(); got.Open != 0 || got.Running != nil {
		t.Errorf("in the end: got %d open sessions, running %+v; want none", got.Open, got.Running)
	}
	if text := stats(); !strings.HasPrefix(text, "Saved 30 ms of 40 ms waiting today.\nmcpschedd is not running.\n") {
		t.Errorf("got %q", text)
	}
}

// watching runs stats until the test ends, which must be without an error. It returns a function
// that reads the next line.
func watching(t *testing.T, args ...string) func() record.Stats {
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		if err := execute(ctx, append([]string{"stats"}, args...), out, os.Stderr); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		go io.Copy(io.Discard, in) // a line may be written just now
		running.Wait()
		out.Close()
	})
	r := bufio.NewReader(in)
	return func() (s record.Stats) {
		t.Helper()
		line, err := r.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// statsProgram is the program with these arguments.
func statsProgram(t testing.TB, args ...string) *exec.Cmd {
	c := exec.Command(self, args...)
	home := t.TempDir()
	c.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "MCPSCHEDD_CONFIG=", "GORACE=atexit_sleep_ms=0")
	return c
}

func TestStatsWatchEndsByInterrupt(t *testing.T) {
	c := statsProgram(t, "stats", "--watch")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "No calls today.\n" {
		t.Errorf("got %q, %v", line, err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("got %v, want exit 0", err)
	}
}

// A daemon and a process that serves HTTP that were started before an upgrade are named, and no other process.
func TestOtherDaemon(t *testing.T) {
	running := []record.Status{
		{Transport: "stdio", Config: "/c", Program: "0.9"}, {Transport: record.Daemon, Config: "/d", Program: "0.9"},
		{Transport: record.Daemon, Config: "/c", Program: version()},
		{Transport: record.HTTP, PID: 7, Program: version()}, {Transport: record.HTTP, PID: 8, Program: "0.7"},
	}
	if got := otherServices(running); len(got) != 1 || !strings.HasPrefix(got[0], "Process 8, which serves HTTP, is mcpschedd 0.7, and this program "+version()+":") {
		t.Errorf("got %q, want the process 8", got)
	}
	trouble := func() string { return daemonTrouble(daemon.Place{}, "/c", running) }
	if got := trouble(); got != "" {
		t.Errorf("got %q, want none", got)
	}
	running[2].Program = "0.8"
	if got := trouble(); !strings.HasPrefix(got, "The daemon is mcpschedd 0.8, and this program "+version()+": mcpschedd daemon --stop ends it") {
		t.Errorf("got %q", got)
	}
}
