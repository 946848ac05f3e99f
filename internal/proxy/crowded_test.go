package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// status returns the HTTP status of a ping in a session.
func (f *httpClient) status(id string) int {
	f.T.Helper()
	status, _ := f.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)
	return status
}

// initialize tries to open a session.
func (f *httpClient) initialize() (id string, status int, answer string) {
	f.T.Helper()
	r := f.Do(f.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":{}}}`))
	return r.Header.Get("Mcp-Session-Id"), r.StatusCode, mcptest.Text(f.T, r)
}

// When a new session needs room, the session that was idle for longest is ended with its
// processes. It need not be the oldest.
func TestLongestIdleSessionMakesRoom(t *testing.T) {
	beacon := mcptest.NewGate(t)
	o := options(child(t, mcptest.Options{Name: "a", Beacon: beacon.Addr()}))
	o.HTTP.MaxSessions = 16
	f := serveTCP(t, o)
	var ids []string
	var processes []*mcptest.Visitor
	open := func() {
		ids = append(ids, f.open("/mcp", handshake))
		processes = append(processes, beacon.Next())
	}
	for range 4 {
		open()
	}
	if got := f.status(ids[0]); got != 200 { // the second session is now idle for longest
		t.Fatalf("got %d, want 200", got)
	}
	for i, gone := range []int{1, 2, 3, 0, 4, 5, 6, 7} {
		open()
		processes[gone].Gone()
		if got := f.status(ids[gone]); got != 404 {
			t.Errorf("%d: session %d: got %d, want 404", i, gone, got)
		}
	}
}

// A session with a running task is not evicted, although its client only polls now and then. It
// can be once the task has ended.
func TestSessionWithATaskIsKept(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "a"})
	o := options(up)
	o.HTTP.MaxSessions, o.Dedup.WriteSettle = 8, time.Hour
	f := serveTCP(t, o)
	working := f.open("/mcp", handshake)
	_, answer := f.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","task":{}}}`, "Mcp-Session-Id", working)
	if !strings.Contains(answer, `"taskId":"a-0"`) {
		t.Fatalf("got %s, want a task", answer)
	}
	idle := f.open("/mcp", handshake)
	f.open("/mcp", handshake)
	if got := f.status(idle); got != 404 {
		t.Errorf("the idle session: got %d, want 404", got)
	}
	_, answer = f.Post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"a-0"}}`, "Mcp-Session-Id", working)
	if !strings.Contains(answer, "tasks/result") {
		t.Errorf("the session with a task: got %s, want its result", answer)
	}
	f.open("/mcp", handshake) // now the session before it is idle for longest
	f.open("/mcp", handshake)
	if got := f.status(working); got != 404 {
		t.Errorf("the session after its task has ended: got %d, want 404", got)
	}
}

// A task that its client never asks for keeps its session for write_settle alone.
func TestSessionWithAForgottenTaskMakesRoom(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "a"})
	o := options(up)
	o.HTTP.MaxSessions, o.Dedup.WriteSettle = 8, time.Millisecond
	f := serveTCP(t, o)
	forgetful := f.open("/mcp", handshake)
	f.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","task":{}}}`, "Mcp-Session-Id", forgetful)
	settles(t, "the session makes room", func() bool {
		f.open("/mcp", handshake)
		f.open("/mcp", handshake)
		return f.status(forgetful) == 404
	})
}

// Sessions with an open call or stream are kept. If all are, a new session is refused on any transport.
func TestBusySessionsAreKept(t *testing.T) {
	b, up := newBench(t, "a")
	o := options(up)
	o.HTTP.MaxSessions = 12
	f := serveTCP(t, o)
	calling := f.open("/mcp", handshake)
	answered := make(chan string, 1)
	go func() {
		_, answer := f.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`, "Mcp-Session-Id", calling)
		answered <- answer
	}()
	await(t, b.started)
	listening := f.open("/mcp", handshake)
	stream := f.Do(f.Request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", listening))
	defer stream.Body.Close()
	legacy := f.Do(f.Request(http.MethodGet, "/sse", ""))
	if _, err := mcptest.EventReader(legacy.Body)(); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, status int, answer string) {
		t.Helper()
		if status != http.StatusServiceUnavailable || mcptest.Code(t, answer) != -32603 || !strings.Contains(answer, "a quarter of max_sessions") {
			t.Errorf("%s: got %d %s, want 503 with the reason", what, status, answer)
		}
	}
	_, status, answer := f.initialize()
	refused("initialize", status, answer)
	status, answer = f.Answer(f.Modern("1", "tools/list", "", ""))
	refused("stateless", status, answer)
	r := f.Do(f.Request(http.MethodGet, "/sse", ""))
	refused("/sse", r.StatusCode, mcptest.Text(t, r))
	b.gate <- struct{}{}
	if got := await(t, answered); !strings.Contains(got, "waited") {
		t.Errorf("the call of a busy session: got %s", got)
	}
	settles(t, "a session that is idle makes room", func() bool {
		_, status, _ := f.initialize()
		return status == http.StatusOK
	})
	if got := f.status(calling); got != 404 {
		t.Errorf("the idle session: got %d, want 404", got)
	}
	if got := f.status(listening); got != 200 {
		t.Errorf("the session with a stream: got %d, want 200", got)
	}
	legacy.Body.Close()
	settles(t, "a stream that ended makes room", func() bool {
		status, _ := f.Answer(f.Modern("1", "tools/list", "", ""))
		return status == http.StatusOK
	})
}

// ableTo makes a stateless request of a client with the given capabilities.
func (f *httpClient) ableTo(capabilities string) (status int, answer string) {
	f.T.Helper()
	return f.Post("/mcp", mcptest.ModernBody("1", "tools/list", "", capabilities), "Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/list")
}

// Stateless clients with equal capabilities share a session, however these are written. All
// clients with other capabilities together have a limited number of sessions.
func TestCapabilitiesAreComparedAsValues(t *testing.T) {
	server, up := remote(t, mcptest.Options{Name: "a"})
	f := serveTCP(t, options(up))
	for _, capabilities := range []string{
		`{"sampling":{},"roots":{"listChanged":true}}`,
		`{"roots":{"listChanged":true},"sampling":{}}`,
		`{ "roots" : {"listChanged":   true}, "sampling":{} }`,
		`{"\u0072oots":{"listChanged":true},"sampling":{}}`,
	} {
		if status, answer := f.ableTo(capabilities); status != 200 || !strings.Contains(answer, `"name":"echo"`) {
			t.Fatalf("%s: got %d %s", capabilities, status, answer)
		}
	}
	if got := server.Sessions(); got != 1 {
		t.Errorf("%d sessions for equal capabilities, want 1", got)
	}
	for i := range 100 {
		if status, answer := f.ableTo(fmt.Sprintf(`{"experimental":{"%d":{}}}`, i)); status != 200 {
			t.Fatalf("got %d %s", status, answer)
		}
	}
	settles(t, "the server has at most 64 sessions", func() bool { return server.Sessions() <= 64 })
}

// Clients connect, call, listen and disconnect at random, and each new session evicts another one.
// Every request gets its response, or an error that its session has ended or that all sessions are
// in use, and nothing is left.
func TestSessionsChurn(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "a"})
	o := options(up)
	o.HTTP.MaxSessions = 24
	goroutines := runtime.NumGoroutine()
	s := proxy.New(o, nil)
	web := httptest.NewServer(s.HTTP())
	f := &httpClient{mcptest.WebClient{T: t, URL: web.URL, Client: web.Client()}}
	var ended, refused atomic.Int64
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(1, uint64(client)))
			id := ""
			for range soak(60) {
				status, answer, stateless := 0, "", false
				switch dice.IntN(6) {
				case 0:
					id, status, answer = f.initialize()
				case 1:
					status, answer = f.ableTo(fmt.Sprintf(`{"experimental":{"%d":{}}}`, dice.IntN(4)))
					stateless = true
				case 2:
					if id != "" {
						r := f.Do(f.Request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id))
						status = r.StatusCode
						r.Body.Close()
					}
				case 3:
					if id != "" {
						r := f.Do(f.Request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id))
						status, id = r.StatusCode, ""
						r.Body.Close()
					}
				default:
					if id != "" {
						status, answer = f.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, "Mcp-Session-Id", id)
						if status == 200 && !strings.Contains(answer, `"text":"a"`) {
							t.Errorf("got %s", answer)
						}
					}
				}
				switch {
				case status == 404 && !stateless:
					ended.Add(1)
					id = ""
				case status == 503:
					refused.Add(1)
				case status != 0 && status != 200 && status != 204:
					t.Errorf("got %d %s", status, answer)
				}
			}
		})
	}
	all.Wait()
	settles(t, "at most 6 sessions are left", func() bool { return s.Stats().Sessions <= 6 })
	t.Logf("%d requests of evicted sessions, %d sessions refused", ended.Load(), refused.Load())
	web.Close()
	s.Close()
	settles(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines+20 })
}
