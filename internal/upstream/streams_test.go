package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/internal/jsonrpc"
)

const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// A stream that ends before the answer is taken up again behind its last event,
// as often as it takes.
func TestResume(t *testing.T) {
	var tries atomic.Int64
	url, seen := sessions(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Last-Event-ID") {
		case "":
			emit(w, "id: a\nretry: 1\ndata:\n\n")
		case "a":
			emit(w, "id: b\ndata: "+changed+"\n\n")
		case "b":
			if r.Method != "GET" || r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Accept") != "text/event-stream" {
				t.Errorf("got %s with %v", r.Method, r.Header)
			}
			if tries.Add(1) < 4 {
				w.WriteHeader(503) // for now
				return
			}
			emit(w, "data: "+result(1)+"\n\n")
		}
	})
	l, e := dial(t, httpOptions{url: url})
	begin(t, l, e)
	must(t, l, call(1))
	e.want("message on 1: "+changed, "message on 1: "+result(1))
	if want := 1 + 1 + 1 + 4; len(seen) != want {
		t.Errorf("got %d requests, want %d", len(seen), want)
	}
}

func TestResumeHasAnEnd(t *testing.T) {
	tests := []struct {
		name   string
		get    func(w http.ResponseWriter)
		want   string
		tries  int64
		closes bool
	}{
		{"unknown event", func(w http.ResponseWriter) { w.WriteHeader(400) }, "was not resumed: status 400", 1, false},
		{"no such thing", func(w http.ResponseWriter) { w.WriteHeader(405) }, "was not resumed: status 405", 1, false},
		{"no stream", func(w http.ResponseWriter) { replyJSON(w, "{}") }, "was not resumed: status 200", 1, false},
		{"out of order", func(w http.ResponseWriter) { w.WriteHeader(502) }, "was not resumed: status 502", resumeTries, false},
		{"empty for ever", func(w http.ResponseWriter) { emit(w, ":\n\n") }, "stream ended before its answer", emptyTries, false},
		{"session lost", func(w http.ResponseWriter) { w.WriteHeader(404) }, "session lost", 1, true},
		{"credentials", func(w http.ResponseWriter) { w.WriteHeader(401) }, "status 401", 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tries atomic.Int64
			url, _ := sessions(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.Method {
				case "POST":
					emit(w, "id: a\nretry: 1\ndata:\n\n")
				case "GET":
					tries.Add(1)
					tt.get(w)
				}
			})
			l, e := dial(t, httpOptions{url: url})
			begin(t, l, e)
			must(t, l, call(1))
			e.want("gap") // the rest of the stream may have said something of use to others
			err := e.lost(1)
			if !strings.Contains(err.Error(), tt.want) || errors.Is(err, errSessionLost) {
				t.Errorf("got %v, want %q, and never that the request was not run", err, tt.want)
			}
			if tries.Load() != tt.tries {
				t.Errorf("got %d tries, want %d", tries.Load(), tt.tries)
			}
			if tt.closes {
				if s := e.next(); s.what != "closed" {
					t.Errorf("got %v, want closed", s)
				}
			}
		})
	}
}

// A stateless server knows no resuming, whatever ids it gives.
func TestStatelessStreamIsNotResumed(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" {
			t.Errorf("got %s", r.Method)
		}
		emit(w, "id: a\nretry: 1\ndata:\n\n")
	})
	l, e := dial(t, httpOptions{url: url})
	l.setVersion("2026-07-28")
	must(t, l, call(1))
	e.want("lost 1: stream ended before its answer")
}

func TestCancelEndsResuming(t *testing.T) {
	polled := make(chan struct{}, 10)
	url, _ := sessions(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			polled <- struct{}{}
		}
		emit(w, "id: a\nretry: 1\ndata:\n\n")
		if r.Method == "GET" {
			<-r.Context().Done()
		}
	})
	l, e := dial(t, httpOptions{url: url})
	begin(t, l, e)
	ctx, cancel := context.WithCancel(context.Background())
	if err := l.send(ctx, call(1)); err != nil {
		t.Fatal(err)
	}
	<-polled
	cancel()
	e.want("lost 1: context canceled")
}

func TestListen(t *testing.T) {
	var gets atomic.Int64
	more := make(chan struct{})
	url, _ := sessions(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" {
			return
		}
		if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25" {
			t.Errorf("got %v", r.Header)
		}
		switch gets.Add(1) {
		case 1: // ends before it gave an id: what comes next may be missed
			emit(w, "retry: 1\n\ndata: "+changed+"\n\ndata: rubbish\n\n")
		case 2:
			emit(w, `id: x`+"\n"+`data: {"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n\n")
		case 3:
			if r.Header.Get("Last-Event-ID") != "x" {
				t.Errorf("got %v", r.Header)
			}
			w.WriteHeader(500)
		case 4: // resumed
			if r.Header.Get("Last-Event-ID") != "x" {
				t.Errorf("got %v", r.Header)
			}
			emit(w, "data: "+changed+"\n\n")
		case 5:
			w.WriteHeader(400) // it does not know the id any more
		case 6:
			if r.Header.Get("Last-Event-ID") != "" {
				t.Errorf("got %v", r.Header)
			}
			emit(w, "data: "+changed+"\n\n")
			close(more)
			<-r.Context().Done()
		}
	})
	l, e := dial(t, httpOptions{url: url})
	begin(t, l, e)
	l.listen()
	e.want("message on 0: "+changed, "garbage: "+why("rubbish"), "gap",
		"gap", `message on 0: {"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"message on 0: "+changed,
		"gap", "gap", "message on 0: "+changed)
	<-more
	l.close()
	e.want("closed: link closed")
}

// A server need not have a stream of its own; whatever it says then is no
// reason to give the connection up.
func TestListenWhereThereIsNoStream(t *testing.T) {
	for _, status := range []int{200, 400, 401, 403, 404, 405, 406, 501} {
		var gets atomic.Int64
		got := make(chan struct{}, 10)
		url, _ := sessions(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" {
				gets.Add(1)
				w.WriteHeader(status)
				got <- struct{}{}
				return
			}
			replyJSON(w, result(1))
		})
		l, e := dial(t, httpOptions{url: url})
		begin(t, l, e)
		l.listen()
		<-got
		must(t, l, call(1))
		e.want("message on 1: " + result(1))
		l.close()
		e.want("closed: link closed")
		if gets.Load() != 1 {
			t.Errorf("%d: got %d GETs, want 1", status, gets.Load())
		}
	}
}

func TestListenFindsTheSessionLost(t *testing.T) {
	var gets atomic.Int64
	url, _ := sessions(t, func(w http.ResponseWriter, r *http.Request) {
		if gets.Add(1) == 1 {
			emit(w, "id: 1\nretry: 1\ndata: "+changed+"\n\n")
			return
		}
		w.WriteHeader(404)
	})
	l, e := dial(t, httpOptions{url: url})
	begin(t, l, e)
	l.listen()
	e.want("message on 0: "+changed, "closed: "+errSessionLost.Error())
}

func TestPauses(t *testing.T) {
	for _, tt := range []struct {
		retry    time.Duration
		failures int
		want     time.Duration
	}{
		{time.Second, 0, time.Second},
		{time.Second, 2, 4 * time.Second},
		{time.Second, 100, slowestWait},
		{0, 3, 0},
		{time.Minute, 0, time.Minute}, // the server's wish, however long
		{time.Minute, 9, time.Minute},
	} {
		at := cursor{retry: tt.retry}
		if got := at.pause(tt.failures); got != tt.want {
			t.Errorf("%v after %d failures: got %v, want %v", tt.retry, tt.failures, got, tt.want)
		}
	}
}

// talker is a real server with tools that speak before they answer. It goes on
// with its notes when each has been heard: mcp-go drops those that are under way
// when the tool ends.
func talker(heard <-chan struct{}) *server.MCPServer {
	s := server.NewMCPServer("talker", "1", server.WithToolCapabilities(true), server.WithLogging())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("notes"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			if err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": 7, "progress": i}); err != nil {
				return nil, err
			}
			select {
			case <-heard:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return mcp.NewToolResultText("done"), nil
	})
	s.AddTool(mcp.NewTool("asks"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		//lint:ignore SA1019 servers with sessions still ask
		answer, err := s.RequestSampling(ctx, mcp.CreateMessageRequest{})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(answer.Model), nil
	})
	s.AddTool(mcp.NewTool("waits"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	return s
}

func toolCall(id int64, tool string) outgoing {
	return outgoing{id: id, line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool)}
}

func initialize(t *testing.T, l link, e *ear, version string) {
	t.Helper()
	must(t, l, outgoing{id: 100, line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":100,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"sampling":{}},"clientInfo":{"name":"t","version":"0"}}}`, version)})
	if s := e.next(); s.what != "message" || s.msg.Result == nil {
		t.Fatalf("got %v", s)
	}
	must(t, l, notification("notifications/initialized"))
}

// notes has the talker speak. Its notes come on the stream of the call, or on
// the one of the server's own.
func notes(t *testing.T, e *ear, id int64, heard chan<- struct{}) {
	t.Helper()
	for range 3 {
		if s := e.next(); s.msg.Method != "notifications/progress" || s.stream != id && s.stream != 0 {
			t.Fatalf("got %v, want a note", s)
		}
		heard <- struct{}{}
	}
	if s := e.next(); !isID(s.msg.ID, id) || !strings.Contains(string(s.msg.Result), "done") {
		t.Fatalf("got %v, want the answer", s)
	}
}

func TestRealServerWithSessions(t *testing.T) {
	heard := make(chan struct{})
	s := talker(heard)
	web := httptest.NewServer(server.NewStreamableHTTPServer(s, server.WithStateful(true)))
	t.Cleanup(web.Close)
	listening := make(chan struct{})
	transport := &watched{RoundTripper: http.DefaultTransport, listening: listening}
	l, e := dial(t, httpOptions{url: web.URL, transport: transport})
	initialize(t, l, e, "2025-11-25")
	l.setVersion("2025-11-25")
	l.listen()
	<-listening
	must(t, l, toolCall(1, "notes"))
	notes(t, e, 1, heard)
	must(t, l, toolCall(2, "asks"))
	q := e.next()
	if q.msg.Method != "sampling/createMessage" {
		t.Fatalf("got %v, want a question", q)
	}
	line := jsonrpc.AppendResult(nil, q.msg.ID, []byte(`{"model":"parrot","role":"assistant","content":{"type":"text","text":"hi"}}`))
	must(t, l, outgoing{line: line})
	if s := e.next(); !isID(s.msg.ID, 2) || !strings.Contains(string(s.msg.Result), "parrot") {
		t.Fatalf("got %v, want what was answered", s)
	}
	s.AddTool(mcp.NewTool("new"), nil)
	e.want("message on 0: " + changed)
	must(t, l, toolCall(3, "waits"))
	l.close()
	if err := e.lost(3); !strings.Contains(err.Error(), "link closed") {
		t.Errorf("got %v", err)
	}
	e.want("closed: link closed")
}

// watched tells when the listening stream is open.
type watched struct {
	http.RoundTripper
	listening chan struct{}
}

func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	if r.Method == "GET" && err == nil {
		close(w.listening)
	}
	return resp, err
}

func TestRealServerForgetsTheSession(t *testing.T) {
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	web.Config.Handler = server.NewStreamableHTTPServer(talker(nil), server.WithStateful(true))
	first, e1 := dial(t, httpOptions{url: web.URL})
	initialize(t, first, e1, "2025-11-25")
	first.setVersion("2025-11-25")
	// Another link ends the session behind the first one's back.
	second, e2 := dial(t, httpOptions{url: web.URL})
	initialize(t, second, e2, "2025-11-25")
	second.setVersion("2025-11-25")
	second.session = first.session
	second.close()
	must(t, first, toolCall(1, "notes"))
	if err := e1.lost(1); !errors.Is(err, errSessionLost) {
		t.Errorf("got %v", err)
	}
	e1.want("closed: " + errSessionLost.Error())
}

func TestRealStatelessServer(t *testing.T) {
	heard := make(chan struct{})
	web := httptest.NewServer(server.NewStreamableHTTPServer(talker(heard)))
	t.Cleanup(web.Close)
	l, e := dial(t, httpOptions{url: web.URL})
	l.setVersion(mcp.ProtocolVersion20260728)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"0"}}`
	modern := func(id int64, method, params string) outgoing {
		m := outgoing{id: id, header: make(http.Header)}
		raw := fmt.Appendf(nil, `{%s%s}`, params, meta)
		m.line = jsonrpc.AppendRequest(nil, fmt.Append(nil, id), method, raw)
		for k, v := range mcp.StandardHeaders(mcp.ProtocolVersion20260728, mcp.MCPMethod(method), raw) {
			m.header.Set(k, v)
		}
		return m
	}
	must(t, l, modern(1, "server/discover", ""))
	if s := e.next(); !strings.Contains(string(s.msg.Result), "2026-07-28") {
		t.Fatalf("got %v", s)
	}
	must(t, l, modern(2, "tools/call", `"name":"notes",`))
	notes(t, e, 2, heard)
	must(t, l, modern(3, "no/such", ""))
	if s := e.next(); !isID(s.msg.ID, 3) || s.msg.Error == nil {
		t.Fatalf("got %v, want an error answer", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := l.send(ctx, modern(4, "tools/call", `"name":"waits",`)); err != nil {
		t.Fatal(err)
	}
	cancel()
	e.want("lost 4: context canceled")
}
