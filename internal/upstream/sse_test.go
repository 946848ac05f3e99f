package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func openSSE(t *testing.T, opts httpOptions) (*sse, *ear) {
	t.Helper()
	e := newEar(t)
	l := dialSSE(opts, e.sink())
	closeAfter(t, l, e)
	return l, e
}

// older is a server of the 2024-11-05 transport: it writes stream, and then
// what post returns for each message.
func older(t *testing.T, stream string, post func(w http.ResponseWriter, id string) string) string {
	posted := make(chan string, 100)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer abcd" {
			t.Errorf("%s: got %v", r.Method, r.Header)
		}
		if r.Method == "POST" {
			if r.URL.Path != "/messages" || r.URL.Query().Get("s") != "1" {
				t.Errorf("got a POST to %v", r.URL)
			}
			posted <- post(w, string(readMessage(t, r).ID))
			return
		}
		emit(w, stream)
		for {
			select {
			case text := <-posted:
				if text == "end" {
					return
				}
				emit(w, text)
			case <-r.Context().Done():
				return
			}
		}
	})
}

var bearer = http.Header{"Authorization": {"Bearer abcd"}}

const endpoint = "event: endpoint\ndata: /messages?s=1\n\n"

func TestSSE(t *testing.T) {
	url := older(t, ": hello\n\n"+endpoint+"event: endpoint\ndata: /another\n\n", func(w http.ResponseWriter, id string) string {
		if id != "3" {
			w.WriteHeader(202)
		}
		switch id {
		case "1":
			return "event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n"
		case "2":
			return "data: rubbish\n\ndata: [" + changed + "," + result(2) + "]\n\n"
		case "3":
			reply(w, 400, "application/json", `{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}`)
		case "4":
			return "data: {\"jsonrpc\":\"2.0\",\"id\":4,\"result\":\"\t\"}\n\n"
		case "5":
			return `data: {"jsonrpc":"2.0","id":5,"result":"` + strings.Repeat("x", 20_000) + "\"}\n\n"
		case "6":
			return "end"
		}
		return ""
	})
	l, e := openSSE(t, httpOptions{url: url + "/sse", header: bearer, maxMessage: 5000})
	must(t, l, notification("notifications/initialized"))
	must(t, l, call(1))
	e.want(`message on 0: {"jsonrpc":"2.0", "id":1,"result":{}}`)
	must(t, l, call(2))
	e.want("garbage: "+why("rubbish"), "message on 0: "+changed, "message on 0: "+result(2))
	must(t, l, call(3))
	e.want(`message on 0: {"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}`)
	must(t, l, call(4))
	bad := why("{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":\"\t\"}")
	e.want("garbage: "+bad, "lost 4: its answer cannot be read: "+bad)
	must(t, l, call(5))
	long := "line too long: more than 5000 bytes"
	e.want("garbage: "+long, "lost 5: its answer cannot be read: "+long)
	must(t, l, call(6))
	ends(t, e, "the server ended the stream")
	if err := l.send(t.Context(), call(7)); err == nil {
		t.Error("a link that has ended accepts requests")
	}
}

// An answer that lacks its result, or is cut, is one nevertheless.
func TestSSEUnreadableAnswers(t *testing.T) {
	const question = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\t\"}" // as unreadable, and none
	for _, text := range []string{`{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":1,"res`, `{"id":1}`} {
		t.Run(text, func(t *testing.T) {
			url := older(t, endpoint, func(w http.ResponseWriter, _ string) string {
				w.WriteHeader(202)
				return "data: " + question + "\n\ndata: " + text + "\n\n"
			})
			l, e := openSSE(t, httpOptions{url: url + "/sse", header: bearer})
			must(t, l, call(1))
			e.want("garbage: "+why(question), "garbage: "+why(text), "lost 1: its answer cannot be read: "+why(text))
		})
	}
}

func TestSSEFailures(t *testing.T) {
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("got %v", r.Header) })
	tests := []struct {
		name string
		get  func(w http.ResponseWriter)
		want string
	}{
		{"not there", func(w http.ResponseWriter) { reply(w, 404, "text/plain", "no") },
			`status 404 Not Found, no event stream, content type "text/plain"`},
		{"no stream", func(w http.ResponseWriter) { reply(w, 200, "text/html", "<html>") },
			`status 200 OK, no event stream, content type "text/html"`},
		{"ends", func(w http.ResponseWriter) { emit(w, ":\n\n") }, "the server ended the stream"},
		{"credentials", func(w http.ResponseWriter) { w.WriteHeader(401) },
			"status 401 Unauthorized, the server wants other credentials"},
		{"endpoint elsewhere", func(w http.ResponseWriter) { emit(w, "event: endpoint\ndata: "+other+"/m?session=abc\n\n") },
			"endpoint event: " + other + " is not the origin of the stream"},
		{"no endpoint", func(w http.ResponseWriter) { emit(w, "event: endpoint\ndata: :%\n\n") }, "endpoint event: no URL"},
		{"cut", func(w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:\n\n\r\n")
				conn.Close()
			}
		}, "stream broke: unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) { tt.get(w) })
			_, e := openSSE(t, httpOptions{url: url})
			e.want("closed: " + tt.want)
		})
	}
}

func TestSSERefusedMessages(t *testing.T) {
	url := older(t, endpoint, func(w http.ResponseWriter, id string) string {
		switch id {
		case "1":
			reply(w, 500, "text/plain", "out of order")
		case "2":
			w.WriteHeader(403)
		case "3":
			w.WriteHeader(401)
		}
		return ""
	})
	l, e := openSSE(t, httpOptions{url: url, header: bearer})
	must(t, l, call(1))
	e.want("lost 1: status 500 Internal Server Error: out of order")
	must(t, l, call(2)) // about this request: the stream was allowed
	e.want("lost 2: status 403 Forbidden")
	must(t, l, call(3))
	if err := e.lost(3); !isType[*authRequired](err) {
		t.Errorf("got %v", err)
	}
	if s := e.next(); s.what != "closed" || !isType[*authRequired](s.err) {
		t.Errorf("got %v", s)
	}
}

// A server may open its stream and never say where messages go.
func TestSSECloseWithoutEndpoint(t *testing.T) {
	open := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		emit(w, ":\n\n")
		close(open)
		<-r.Context().Done()
	})
	l, e := openSSE(t, httpOptions{url: url})
	must(t, l, call(1))
	<-open
	l.close()
	if err := e.lost(1); !strings.Contains(err.Error(), "link closed") {
		t.Errorf("got %v", err)
	}
	s := e.next()
	if s.what != "closed" || !errors.Is(s.err, errLinkClosed) {
		t.Errorf("got %v", s)
	}
}

func TestRealSSEServer(t *testing.T) {
	heard := make(chan struct{})
	s := talker(heard)
	web := httptest.NewServer(server.NewSSEServer(s, server.WithUseFullURLForMessageEndpoint(false)))
	t.Cleanup(web.Close)
	l, e := openSSE(t, httpOptions{url: web.URL + "/sse"})
	initialize(t, l, e, "2024-11-05")
	must(t, l, toolCall(1, "notes"))
	notes(t, e, 1, heard)
	s.AddTool(mcp.NewTool("new"), nil)
	e.want("message on 0: " + changed)
	const calls = 100
	for id := range int64(calls) {
		must(t, l, outgoing{id: id + 10, line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id+10)})
	}
	for range calls {
		if s := e.next(); s.msg.Result == nil {
			t.Fatalf("got %v", s)
		}
	}
	l.close()
	ends(t, e, "link closed")
}

// ends wants the link closed next. An answer may come before the server has said
// that it took the request, whose exchange is cut off then.
func ends(t *testing.T, e *ear, want string) {
	t.Helper()
	s := e.next()
	for s.what == "lost" {
		s = e.next()
	}
	if s.String() != "closed: "+want {
		t.Errorf("got %v, want closed: %s", s, want)
	}
}
