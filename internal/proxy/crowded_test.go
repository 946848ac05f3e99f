package proxy_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// status is that of a ping in a session.
func (f *httpClient) status(id string) int {
	f.t.Helper()
	status, _ := f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)
	return status
}

// initialize tries to begin a session.
func (f *httpClient) initialize() (id string, status int, answer string) {
	f.t.Helper()
	r := f.do(f.request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":{}}}`))
	return r.Header.Get("Mcp-Session-Id"), r.StatusCode, text(f.t, r)
}

// 400 clients that come and never say goodbye leave a quarter of the sessions
// there may be; the last ones live.
func TestSessionsOfOnePrincipalAreBounded(t *testing.T) {
	for _, test := range []struct {
		name, token          string
		most, clients, share int
	}{
		{"token", "s3cret", 0, 400, 64},
		{"no token", "", 16, 20, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, up := remote(t, mcptest.Options{Name: "a"})
			o := options(up)
			o.HTTP.Token, o.HTTP.MaxSessions = test.token, test.most
			f := serveTCP(t, o)
			var ids []string
			for range test.clients {
				r := f.do(f.request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":{}}}`, "Authorization", "Bearer "+test.token))
				if body := text(t, r); r.StatusCode != http.StatusOK {
					t.Fatalf("session %d: got %d %s", len(ids), r.StatusCode, body)
				}
				ids = append(ids, r.Header.Get("Mcp-Session-Id"))
			}
			if test.share > 4 { // else some end before the server has told them its own name for them
				settles(t, "the server has only the sessions that live", func() bool { return server.Sessions() <= test.share })
			}
			for i, id := range ids {
				status, _ := f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id, "Authorization", "Bearer "+test.token)
				if want := map[bool]int{true: 200, false: 404}[i >= test.clients-test.share]; status != want {
					t.Errorf("session %d: got %d, want %d", i, status, want)
				}
			}
		})
	}
}

// The session that makes room ends with its processes, and it is the one that
// was idle for longest, not the one that began first.
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
	if got := f.status(ids[0]); got != 200 { // the second is idle for longest now
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

// A session makes no room for another while a task of it runs, which its client only
// asks about from time to time; once the task has ended it does.
func TestSessionWithATaskIsKept(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "a"})
	o := options(up)
	o.HTTP.MaxSessions = 8
	f := serveTCP(t, o)
	working := f.open("/mcp", handshake)
	_, answer := f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","task":{}}}`, "Mcp-Session-Id", working)
	if !strings.Contains(answer, `"taskId":"a-0"`) {
		t.Fatalf("got %s, want a task", answer)
	}
	idle := f.open("/mcp", handshake)
	f.open("/mcp", handshake)
	if got := f.status(idle); got != 404 {
		t.Errorf("the idle session: got %d, want 404", got)
	}
	_, answer = f.post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"a-0"}}`, "Mcp-Session-Id", working)
	if !strings.Contains(answer, "tasks/result") {
		t.Errorf("the session with a task: got %s, want its result", answer)
	}
	f.open("/mcp", handshake) // the one before is idle for longest
	f.open("/mcp", handshake)
	if got := f.status(working); got != 404 {
		t.Errorf("the session whose task has ended: got %d, want 404", got)
	}
}

// Sessions with a call in flight, or an open stream, are kept. Where all are, a
// new one is refused, of whatever transport.
func TestBusySessionsAreKept(t *testing.T) {
	b, up := newBench(t, "a")
	o := options(up)
	o.HTTP.MaxSessions = 12
	f := serveTCP(t, o)
	calling := f.open("/mcp", handshake)
	answered := make(chan string, 1)
	go func() {
		_, answer := f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`, "Mcp-Session-Id", calling)
		answered <- answer
	}()
	<-b.started
	listening := f.open("/mcp", handshake)
	stream := f.do(f.request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", listening))
	defer stream.Body.Close()
	legacy := f.do(f.request(http.MethodGet, "/sse", ""))
	if _, err := eventReader(legacy.Body)(); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, status int, answer string) {
		t.Helper()
		if status != http.StatusServiceUnavailable || code(t, answer) != -32603 || !strings.Contains(answer, "max_sessions") {
			t.Errorf("%s: got %d %s, want 503 with the reason", what, status, answer)
		}
	}
	_, status, answer := f.initialize()
	refused("initialize", status, answer)
	status, answer = f.modern("/mcp", "1", "tools/list", "", "")
	refused("stateless", status, answer)
	r := f.do(f.request(http.MethodGet, "/sse", ""))
	refused("/sse", r.StatusCode, text(t, r))
	b.gate <- struct{}{}
	if got := <-answered; !strings.Contains(got, "waited") {
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
		status, _ := f.modern("/mcp", "1", "tools/list", "", "")
		return status == http.StatusOK
	})
}

// ableTo makes a stateless request of a client with these capabilities.
func (f *httpClient) ableTo(capabilities string) (status int, answer string) {
	f.t.Helper()
	body, header := modern("1", "tools/list", "", "")
	return f.post("/mcp", strings.Replace(body, `Capabilities":{}`, `Capabilities":`+capabilities, 1), header...)
}

// Stateless clients that can do the same share a session however they write it,
// and those that invent capabilities share the room for sessions.
func TestCapabilitiesAreComparedAsValues(t *testing.T) {
	server, up := remote(t, mcptest.Options{Name: "a"})
	f := serveTCP(t, options(up))
	for i := range 20 {
		for _, capabilities := range []string{
			`{"sampling":{},"roots":{"listChanged":true}}`,
			`{"roots":{"listChanged":true},"sampling":{}}`,
			`{ "roots" : {"listChanged":` + strings.Repeat(" ", i) + `true}, "sampling":{} }`,
			`{"\u0072oots":{"listChanged":true},"sampling":{}}`,
		} {
			if status, answer := f.ableTo(capabilities); status != 200 || !strings.Contains(answer, `"name":"echo"`) {
				t.Fatalf("%s: got %d %s", capabilities, status, answer)
			}
		}
	}
	if got := server.Sessions(); got != 1 {
		t.Errorf("the server has %d sessions of clients that can do the same, want 1", got)
	}
	for i := range 100 {
		if status, answer := f.ableTo(fmt.Sprintf(`{"experimental":{"%d":{}}}`, i)); status != 200 {
			t.Fatalf("got %d %s", status, answer)
		}
	}
	settles(t, "the server has at most 64 sessions", func() bool { return server.Sessions() <= 64 })
}

// Clients come, call, listen, leave and stay away at random while each new one
// ends another's session: what a client gets is an answer, or that its session
// has ended, or that all are in use, and nothing is left.
func TestSessionsChurn(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "a"})
	o := options(up)
	o.HTTP.MaxSessions = 24
	goroutines := runtime.NumGoroutine()
	s := proxy.New(o, nil)
	web := httptest.NewServer(s.Handler())
	f := &httpClient{t: t, url: web.URL, client: web.Client()}
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
						r := f.do(f.request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id))
						status = r.StatusCode
						r.Body.Close()
					}
				case 3:
					if id != "" {
						r := f.do(f.request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id))
						status, id = r.StatusCode, ""
						r.Body.Close()
					}
				default:
					if id != "" {
						status, answer = f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, "Mcp-Session-Id", id)
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
	t.Logf("%d found their session ended, %d were refused", ended.Load(), refused.Load())
	web.Close()
	s.Close()
	settles(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines+20 })
}

// half sends the beginning of a request and keeps the connection.
func half(t *testing.T, ln *pipes, length, sent int) net.Conn {
	t.Helper()
	c, err := ln.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", length); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, large(sent)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Bodies of which only a part ever comes have a bounded room together. While it
// is full, others are told so; then they are served again.
func TestHalfSentBodiesStayWithinTheirRoom(t *testing.T) {
	for _, test := range []struct {
		name                 string
		length, sent, others int // bytes, bytes, and how many there is room for
	}{
		{"a large body", 1 << 20, 1<<20 - 1, 16},
		{"a large body that has hardly begun", 1 << 20, 1, 256},
		{"a small body", 100, 1, 1024},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, ln, stop := servePipes(t, proxy.Options{MaxMessage: 1 << 20})
				defer stop()
				id := f.open("/mcp", handshake)
				for range test.others {
					defer half(t, ln, test.length, test.sent).Close()
				}
				synctest.Wait()
				status, answer := f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)
				if status != http.StatusServiceUnavailable || code(t, answer) != -32603 || !strings.Contains(answer, "bytes of requests") {
					t.Errorf("got %d %s, want 503 with the reason", status, answer)
				}
				time.Sleep(2 * time.Minute) // they have been given up
				if got := f.status(id); got != 200 {
					t.Errorf("later: got %d, want 200", got)
				}
			})
		})
	}
}

// Room that was given to bodies comes back, however their requests ended.
func TestRoomForBodiesComesBack(t *testing.T) {
	f := serveTCP(t, proxy.Options{MaxMessage: 1 << 20})
	id := f.open("/mcp", handshake)
	stream := f.do(f.request(http.MethodGet, "/sse", ""))
	defer stream.Body.Close()
	events := eventReader(stream.Body)
	endpoint, err := events()
	if err != nil {
		t.Fatal(err)
	}
	fill := large(1<<20 - 200)
	for i := range 40 { // of which 16 have room at once
		for what, post := range map[string]func() (int, string){
			"ping": func() (int, string) {
				return f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"fill":"`+fill+`"}}`, "Mcp-Session-Id", id)
			},
			"notification": func() (int, string) {
				return f.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/x","params":{"fill":"`+fill+`"}}`, "Mcp-Session-Id", id)
			},
			"not JSON": func() (int, string) { return f.post("/mcp", fill, "Mcp-Session-Id", id) },
			"legacy": func() (int, string) {
				return f.post(endpoint, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"fill":"`+fill+`"}}`)
			},
		} {
			if status, answer := post(); status == http.StatusServiceUnavailable {
				t.Fatalf("%s %d: got 503 %s", what, i, answer)
			}
		}
		if _, err := events(); err != nil {
			t.Fatal(err)
		}
	}
}

// A body that comes a byte at a time is given up; one that comes slowly is read.
func TestSlowBodies(t *testing.T) {
	for _, test := range []struct {
		name string
		step int           // bytes
		each time.Duration // between two steps
		want string
	}{
		{"a byte each 20 s", 1, 20 * time.Second, "408 Request Timeout"},
		{"32 KiB/s", 32 << 10, time.Second, "408 Request Timeout"},
		{"100 KiB/s", 100 << 10, time.Second, "400 Bad Request"}, // it is no JSON
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, ln, stop := servePipes(t, proxy.Options{})
				defer stop()
				const length = 10 << 20
				c := half(t, ln, length, 0)
				defer c.Close()
				answer := make(chan string, 1)
				go func() {
					b, _ := io.ReadAll(io.LimitReader(c, 100))
					answer <- string(b)
				}()
				step := large(test.step)
				for sent := 0; sent < length; sent += test.step {
					if _, err := io.WriteString(c, step[:min(test.step, length-sent)]); err != nil {
						break
					}
					select {
					case got := <-answer:
						answer <- got
						sent = length
					case <-time.After(test.each):
					}
				}
				if got := <-answer; !strings.Contains(got, test.want) {
					t.Errorf("got %q, want %s", got, test.want)
				}
				time.Sleep(time.Minute) // the connection is closed
			})
		})
	}
}

// Requests in flight are bounded in each session; those beyond are told so, and
// the others go on.
func TestRequestsInFlightAreBounded(t *testing.T) {
	letOn := make(chan struct{})
	_, up := remote(t, mcptest.Options{Name: "a", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		if m.Method == "tools/call" {
			<-letOn
		}
		return nil
	}})
	release := sync.OnceFunc(func() { close(letOn) })
	defer release()
	f := serveTCP(t, options(up))
	id := f.open("/mcp", "2025-03-26")
	var batch strings.Builder
	for i := range 600 {
		fmt.Fprintf(&batch, `,{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo"}}`, i)
	}
	r := f.do(f.request(http.MethodPost, "/mcp", "["+batch.String()[1:]+"]", "Mcp-Session-Id", id))
	defer r.Body.Close()
	next := eventReader(r.Body)
	for i := range 600 - 512 {
		answer, err := next()
		if err != nil || code(t, answer) != -32603 || !strings.Contains(answer, "too many requests are in flight") {
			t.Fatalf("answer %d: got %s (%v), want that there are too many", i, answer, err)
		}
	}
	if _, answer := f.post("/mcp", `{"jsonrpc":"2.0","id":"x","method":"ping"}`, "Mcp-Session-Id", id); code(t, answer) != -32603 {
		t.Errorf("one more: got %s, want that there are too many", answer)
	}
	other := f.open("/mcp", handshake)
	if got := f.status(other); got != 200 {
		t.Errorf("another session: got %d, want 200", got)
	}
	release()
	for i := range 512 {
		if answer, err := next(); err != nil || !strings.Contains(answer, `"text":"a"`) {
			t.Fatalf("call %d: got %s (%v)", i, answer, err)
		}
	}
	if _, answer := f.post("/mcp", `{"jsonrpc":"2.0","id":"x","method":"ping"}`, "Mcp-Session-Id", id); code(t, answer) != 0 {
		t.Errorf("afterwards: got %s", answer)
	}
}

// GET streams that nobody reads are bounded in each session.
func TestStreamsOfOneSessionAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ln, stop := servePipes(t, proxy.Options{})
		defer stop()
		id := f.open("/mcp", handshake)
		for range 16 {
			c, err := ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := fmt.Fprintf(c, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: %s\r\n\r\n", id); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		get := func() int {
			r := f.do(f.request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id))
			defer r.Body.Close()
			return r.StatusCode
		}
		if got := get(); got != http.StatusTooManyRequests {
			t.Errorf("got %d, want 429", got)
		}
		time.Sleep(2 * time.Minute) // they have been cut off
		if got := get(); got != http.StatusOK {
			t.Errorf("later: got %d, want 200", got)
		}
	})
}

// What a client says of itself is kept as long as its session, so it is bounded.
func TestLargeClientIsRefused(t *testing.T) {
	f := serveTCP(t, proxy.Options{})
	fill := large(2 << 20)
	status, answer := f.post("/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":{"experimental":{"x":{"fill":"`+fill+`"}}}}}`)
	if status != 200 || code(t, answer) != -32602 {
		t.Errorf("initialize: got %d %.200s, want -32602", status, answer)
	}
	status, answer = f.ableTo(`{"experimental":{"x":{"fill":"` + fill + `"}}}`)
	if status != 400 || code(t, answer) != -32602 {
		t.Errorf("stateless: got %d %.200s, want 400 with -32602", status, answer)
	}
}
