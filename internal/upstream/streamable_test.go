package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

func readMessage(t *testing.T, r *http.Request) jsonrpc.Message {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("request body: %v", err)
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		t.Errorf("request %q: %v", body, err)
	}
	return m
}

// why returns what is wrong with text as a message.
func why(text string) string {
	_, err := jsonrpc.Parse([]byte(text))
	return err.Error()
}

// Each server answers request 1 in its own way.
func TestAnswers(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/message"}`
	const ask = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}` // the server's ids are its own
	ok := result(1)
	tests := []struct {
		name  string
		serve func(w http.ResponseWriter)
		want  []string
	}{
		{"JSON", func(w http.ResponseWriter) { replyJSON(w, ok) },
			[]string{"message on 1: " + ok}},
		{"JSON with a charset, chunked", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, ok[:10])
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, ok[10:])
		}, []string{"message on 1: " + ok}},
		{"pretty-printed JSON", func(w http.ResponseWriter) {
			replyJSON(w, "\n{\r\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"result\": {}\n}\n")
		}, []string{`message on 1: {    "jsonrpc": "2.0",   "id": 1,   "result": {} }`}},
		{"batch", func(w http.ResponseWriter) { replyJSON(w, "["+note+",\n"+ok+"]") },
			[]string{"message on 1: " + note, "message on 1: " + ok}},
		{"batch with something else in it", func(w http.ResponseWriter) { replyJSON(w, "[17,"+ok+"]") },
			[]string{"message on 1: " + ok, "garbage: " + why("17")}},
		{"stream", func(w http.ResponseWriter) {
			emit(w, "event: message\ndata: "+note+"\n\n: ping\n\n")
			emit(w, "data: "+ask+"\n\n")
			emit(w, "event: message\ndata: "+ok+"\n\n")
		}, []string{"message on 1: " + note, "message on 1: " + ask, "message on 1: " + ok}},
		{"stream with a pretty-printed message", func(w http.ResponseWriter) {
			emit(w, "data: {\"jsonrpc\": \"2.0\",\r\ndata:  \"id\": 1,\ndata:  \"result\": {}}\n\n")
		}, []string{`message on 1: {"jsonrpc": "2.0",  "id": 1,  "result": {}}`}},
		{"stream with a batch", func(w http.ResponseWriter) { emit(w, "data: ["+note+","+ok+"]\n\n") },
			[]string{"message on 1: " + note, "message on 1: " + ok}},
		{"stream with other events", func(w http.ResponseWriter) {
			emit(w, "event: heartbeat\ndata: {}\n\nid: 1\ndata:\n\ndata: "+ok+"\n\n")
		}, []string{"message on 1: " + ok}},
		{"stream with rubbish", func(w http.ResponseWriter) { emit(w, "data: hello\n\ndata: "+ok+"\n\n") },
			[]string{"garbage: " + why("hello"), "message on 1: " + ok}},
		{"stream that says more", func(w http.ResponseWriter) { emit(w, "data: "+ok+"\n\ndata: "+note+"\n\n") },
			[]string{"message on 1: " + ok, "message on 1: " + note}},
		{"error with status 400", func(w http.ResponseWriter) {
			reply(w, 400, "application/json", "{\"jsonrpc\":\"2.0\",\n\"id\":1,\"error\":{\"code\":-32020,\"message\":\"x\"}}")
		}, []string{`message on 1: {"jsonrpc":"2.0", "id":1,"error":{"code":-32020,"message":"x"}}`}},
		{"error with status 404", func(w http.ResponseWriter) {
			reply(w, 404, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`)
		}, []string{`message on 1: {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`}},
		{"error with status 500", func(w http.ResponseWriter) {
			reply(w, 500, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`)
		}, []string{`message on 1: {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`}},
		{"error about this request without its id", func(w http.ResponseWriter) {
			reply(w, 400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"x"}}`)
		}, []string{`message on 1: {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"x"}}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				readMessage(t, r)
				tt.serve(w)
			})
			l, e := dial(t, httpOptions{url: url})
			must(t, l, call(1))
			e.want(tt.want...)
			l.close()
			e.want("closed: link closed")
		})
	}
}

func TestLostAnswers(t *testing.T) {
	hijack := func(w http.ResponseWriter, text string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, text)
			conn.Close()
		}
	}
	tests := []struct {
		name  string
		serve func(w http.ResponseWriter)
		want  string
	}{
		{"status 500", func(w http.ResponseWriter) { reply(w, 500, "text/plain", "out of\n  order") },
			"status 500 Internal Server Error: out of order"},
		{"status 500 with HTML", func(w http.ResponseWriter) { reply(w, 502, "text/html", strings.Repeat("é", 1000)) },
			"status 502 Bad Gateway: " + strings.Repeat("é", 100) + "…"},
		{"wrong content type", func(w http.ResponseWriter) { reply(w, 200, "text/html", "<html>") },
			`status 200 OK, no answer, content type "text/html": <html>`},
		{"accepted only", func(w http.ResponseWriter) { w.WriteHeader(202) },
			`status 202 Accepted, no answer, content type ""`},
		{"no JSON", func(w http.ResponseWriter) { replyJSON(w, `{"id":1`) },
			"status 200 OK, " + why(`{"id":1`) + `: {"id":1`},
		{"no JSON-RPC", func(w http.ResponseWriter) { replyJSON(w, `{"id":1}`) },
			"status 200 OK, " + why(`{"id":1}`) + `: {"id":1}`},
		{"empty", func(w http.ResponseWriter) { replyJSON(w, "") },
			"status 200 OK, " + why("")},
		{"another answer", func(w http.ResponseWriter) { replyJSON(w, "[]") },
			`status 200 OK, not the answer to this request: []`},
		{"cut body", func(w http.ResponseWriter) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc")
		}, `status 200 OK, body broken off after 9 bytes: unexpected EOF: {"jsonrpc`},
		{"cut chunked body", func(w http.ResponseWriter) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"jsonrpc\r\n")
		}, `status 200 OK, body broken off after 9 bytes: unexpected EOF: {"jsonrpc`},
		{"too long", func(w http.ResponseWriter) { replyJSON(w, strings.Repeat(" ", 1001)) },
			"status 200 OK, body broken off after 0 bytes: message of 1001 bytes, want at most 1000"},
		{"no answer in the stream", func(w http.ResponseWriter) { emit(w, ": nothing\n\n") },
			"stream ended before its answer"},
		{"cut stream", func(w http.ResponseWriter) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\n")
		}, "stream broke before its answer: unexpected EOF"},
		{"broken answer in the stream", func(w http.ResponseWriter) {
			emit(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"a\tb\"}\n\n")
		}, "its answer cannot be read: " + why("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"a\tb\"}")},
		{"answer in the stream without a result", func(w http.ResponseWriter) {
			emit(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1}\n\n")
		}, "its answer cannot be read: " + why(`{"jsonrpc":"2.0","id":1}`)},
		{"answer in the stream too long", func(w http.ResponseWriter) {
			emit(w, `data: {"jsonrpc":"2.0","id":1,"result":"`+strings.Repeat("x", 10_000)+"\"}\n\n")
		}, "its answer cannot be read: line too long: more than 1000 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				readMessage(t, r)
				tt.serve(w)
			})
			l, e := dial(t, httpOptions{url: url, maxMessage: 1000})
			must(t, l, call(1))
			if err := e.lost(1); err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// The chunked body of unknown length is bounded as well.
func TestTooLongWithoutALength(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat(" ", 1000))
			w.(http.Flusher).Flush()
		}
	})
	l, e := dial(t, httpOptions{url: url, maxMessage: 10_000})
	must(t, l, call(1))
	if err := e.lost(1); !strings.HasSuffix(err.Error(), "message of more than 10000 bytes") {
		t.Errorf("got %v", err)
	}
}

// A status is told even if its body never ends.
func TestErrorBodyWithoutEnd(t *testing.T) {
	for _, kind := range []string{"application/json", "text/plain"} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			readMessage(t, r)
			reply(w, 500, kind, "to be continued")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		l, e := dial(t, httpOptions{url: url})
		must(t, l, call(1))
		e.want("lost 1: status 500 Internal Server Error: to be continued")
	}
}

// The first POST tells whether the endpoint speaks streamable HTTP at all.
func TestNotStreamable(t *testing.T) {
	for _, status := range []int{400, 404, 405} {
		for _, body := range []string{"", "no such page", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`} {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if m := readMessage(t, r); string(m.ID) == "2" {
					replyJSON(w, result(2))
					return
				}
				reply(w, status, "application/json", body)
			})
			l, e := dial(t, httpOptions{url: url})
			must(t, l, call(1))
			if err := e.lost(1); !isType[*notStreamable](err) {
				t.Errorf("%d %q: got %v", status, body, err)
			}
			must(t, l, call(2))
			e.want("message on 2: " + result(2))
			must(t, l, call(3)) // it does speak it: the same status is a failure of this request
			if s := e.next(); s.what == "lost" && isType[*notStreamable](s.err) {
				t.Errorf("%d %q later: got %v", status, body, s)
			}
		}
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) })
	l, e := dial(t, httpOptions{url: url})
	must(t, l, call(1))
	if err := e.lost(1); isType[*notStreamable](err) {
		t.Errorf("500: got %v", err)
	}
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestAuthRequired(t *testing.T) {
	for _, status := range []int{401, 403} {
		requests := 0
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			requests++
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="x"`)
			w.WriteHeader(status)
		})
		l, e := dial(t, httpOptions{url: url})
		must(t, l, call(1))
		err := e.lost(1)
		if !isType[*authRequired](err) || !strings.Contains(err.Error(), `(WWW-Authenticate: Bearer resource_metadata="x")`) {
			t.Errorf("%d: got %v", status, err)
		}
		if s := e.next(); s.what != "closed" || !isType[*authRequired](s.err) {
			t.Errorf("%d: got %v, want closed", status, s)
		}
		l.close()
		if requests != 1 {
			t.Errorf("%d: got %d requests, want 1", status, requests)
		}
	}
}

// Once the server has answered, 403 is about one request only.
func TestForbiddenLater(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if m := readMessage(t, r); string(m.ID) == "2" {
			w.WriteHeader(403)
			return
		}
		replyJSON(w, result(1))
	})
	l, e := dial(t, httpOptions{url: url})
	for range 2 {
		must(t, l, call(1))
		e.want("message on 1: " + result(1))
		must(t, l, call(2))
		e.want("lost 2: status 403 Forbidden")
	}
}

// sessions is a server that hands out session "s1" and remembers its requests.
func sessions(t *testing.T, other http.HandlerFunc) (url string, seen chan *http.Request) {
	seen = make(chan *http.Request, 1000)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		if r.Method == "POST" {
			m := readMessage(t, r)
			if m.Method == "initialize" {
				w.Header().Set("Mcp-Session-Id", "s1")
				replyJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
				return
			}
			r.Header.Set("Test-Method", m.Method)
			r.Header.Set("Test-Id", string(m.ID))
		}
		other(w, r)
	}), seen
}

// begin opens the session.
func begin(t *testing.T, l *streamable, e *ear) {
	t.Helper()
	must(t, l, outgoing{id: 100, line: []byte(`{"jsonrpc":"2.0","id":100,"method":"initialize"}`)})
	e.want("message on 100: " + result(100))
	l.setVersion("2025-11-25")
}

func TestSessionHeaders(t *testing.T) {
	url, seen := sessions(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "s2") // not at the handshake: means nothing
		switch {
		case r.Method == "DELETE":
		case r.Header.Get("Test-Id") == "":
			w.WriteHeader(202)
		default:
			replyJSON(w, result(1))
		}
	})
	l, e := dial(t, httpOptions{url: url, header: http.Header{"x-mine": {"a", "b"}, "Accept": {"nothing"}}})
	begin(t, l, e)
	taken := make(chan struct{})
	initialized := notification("notifications/initialized")
	initialized.taken = func() { close(taken) }
	must(t, l, initialized)
	<-taken // or the close could cut it off before it is sent
	must(t, l, call(1))
	e.want("message on 1: " + result(1))
	must(t, l, call(1))
	e.want("message on 1: " + result(1))
	l.close()

	want := []struct{ method, session, version string }{
		{"POST", "", ""}, {"POST", "s1", "2025-11-25"}, {"POST", "s1", "2025-11-25"}, {"POST", "s1", "2025-11-25"}, {"DELETE", "s1", "2025-11-25"},
	}
	if len(seen) != len(want) {
		t.Fatalf("got %d requests, want %d", len(seen), len(want))
	}
	for i, want := range want {
		r := <-seen
		h := r.Header
		if r.Method != want.method || h.Get("Mcp-Session-Id") != want.session || h.Get("Mcp-Protocol-Version") != want.version {
			t.Errorf("request %d: got %s with %v, want %v", i, r.Method, h, want)
		}
		if fmt.Sprint(h["X-Mine"]) != "[a b]" {
			t.Errorf("request %d: got static header %q", i, h["X-Mine"])
		}
		if r.Method == "POST" && (h.Get("Accept") != "application/json, text/event-stream" || h.Get("Content-Type") != "application/json") {
			t.Errorf("request %d: got Accept %q, Content-Type %q", i, h.Get("Accept"), h.Get("Content-Type"))
		}
	}
}

func TestStatelessHeaders(t *testing.T) {
	url, seen := sessions(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "s9")
		replyJSON(w, result(1))
	})
	l, e := dial(t, httpOptions{url: url})
	begin(t, l, e) // an attempt at the older era leaves nothing behind
	<-seen
	l.setVersion("2026-07-28")
	for range 2 {
		m := call(1)
		m.header = http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"x"}, "Mcp-Param-Region": {"y"}}
		must(t, l, m)
		e.want("message on 1: " + result(1))
		h := (<-seen).Header
		if h.Get("Mcp-Protocol-Version") != "2026-07-28" || h.Get("Mcp-Name") != "x" || h.Get("Mcp-Param-Region") != "y" || h.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %v", h)
		}
	}
	l.close() // there is no session to delete
	if len(seen) > 0 {
		t.Errorf("got %s", (<-seen).Method)
	}
}

func TestSessionLost(t *testing.T) {
	for name, forget := range map[string]func(w http.ResponseWriter){
		"404": func(w http.ResponseWriter) { w.WriteHeader(404) },
		"404 with an error": func(w http.ResponseWriter) {
			reply(w, 404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
		},
		"400": func(w http.ResponseWriter) {
			reply(w, 400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, seen := sessions(t, func(w http.ResponseWriter, r *http.Request) { forget(w) })
			l, e := dial(t, httpOptions{url: url})
			begin(t, l, e)
			must(t, l, call(1))
			if err := e.lost(1); !errors.Is(err, errSessionLost) {
				t.Errorf("got %v", err)
			}
			e.want("closed: " + errSessionLost.Error())
			l.close()
			for range 2 {
				<-seen
			}
			if len(seen) > 0 {
				t.Errorf("got %s, want no DELETE of a lost session", (<-seen).Method)
			}
		})
	}
}

// A notification that finds the session gone tells the same.
func TestSessionLostUnderANotification(t *testing.T) {
	url, _ := sessions(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) })
	l, e := dial(t, httpOptions{url: url})
	begin(t, l, e)
	must(t, l, notification("notifications/initialized"))
	e.want("closed: " + errSessionLost.Error())
}

func TestRefusedNotificationIsReported(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { reply(w, 400, "text/plain", "no") })
	l, e := dial(t, httpOptions{url: url})
	must(t, l, notification("notifications/roots/list_changed"))
	if s := e.next(); s.what != "garbage" || !strings.Contains(s.err.Error(), "message not taken: status 400 Bad Request: no") {
		t.Errorf("got %v", s)
	}
}

// The end of the caller's context drops the response stream, which tells a
// stateless server that the request is cancelled.
func TestCancelDropsTheStream(t *testing.T) {
	dropped := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		readMessage(t, r)
		emit(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
		<-r.Context().Done()
		close(dropped)
	})
	l, e := dial(t, httpOptions{url: url})
	nobody := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(context.Background())
	if err := l.send(ctx, call(1)); err != nil {
		t.Fatal(err)
	}
	e.want(`message on 1: {"jsonrpc":"2.0","method":"notifications/progress"}`)
	cancel(nobody)
	<-dropped
	if err := e.lost(1); err != nobody {
		t.Errorf("got %v, want %v", err, nobody)
	}
}

// A caller's context usually ends as soon as it has the answer. The connection
// must live on, or every call would pay for a new one.
func TestConnectionsAreUsedAgain(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, answered chan struct{}){
		"JSON": func(w http.ResponseWriter, _ chan struct{}) { replyJSON(w, result(1)) },
		"stream": func(w http.ResponseWriter, answered chan struct{}) {
			emit(w, "data: "+result(1)+"\n\n")
			<-answered // the end of the stream comes after the caller has gone
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			from := make(map[string]bool)
			answered := make(chan struct{})
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				from[r.RemoteAddr] = true
				mu.Unlock()
				answer(w, answered)
			})
			transport := newTransport()
			defer transport.CloseIdleConnections()
			l, e := dial(t, httpOptions{url: url, transport: transport})
			const calls = 20
			for range calls {
				ctx, cancel := context.WithCancel(context.Background())
				if err := l.send(ctx, call(1)); err != nil {
					t.Fatal(err)
				}
				e.want("message on 1: " + result(1))
				cancel()
				if name == "stream" {
					answered <- struct{}{}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(from) > calls/2 { // the next call may come before the last connection is free
				t.Errorf("got %d connections for %d calls one after another", len(from), calls)
			}
		})
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	const calls = 100
	var all sync.WaitGroup // every call is there before any is answered
	all.Add(calls)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		m := readMessage(t, r)
		all.Done()
		all.Wait()
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"n":%s}}`, m.ID, m.ID)
		if len(m.ID)%2 == 0 {
			emit(w, "data: "+answer+"\n\n")
		} else {
			replyJSON(w, answer)
		}
	})
	transport := newTransport()
	defer transport.CloseIdleConnections()
	l, e := dial(t, httpOptions{url: url, transport: transport})
	for id := range int64(calls) {
		must(t, l, call(id+1))
	}
	seen := make(map[int64]bool)
	for range calls {
		s := e.next()
		if want := fmt.Sprintf(`{"n":%d}`, s.stream); s.what != "message" || string(s.msg.Result) != want || !isID(s.msg.ID, s.stream) {
			t.Fatalf("got %v", s)
		}
		seen[s.stream] = true
	}
	if len(seen) != calls {
		t.Errorf("got %d different answers, want %d", len(seen), calls)
	}
}
