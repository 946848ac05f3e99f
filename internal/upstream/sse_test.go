package upstream

import (
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
)

// olderServer is a server with the 2024-11-05 transport. call returns the event for a call,
// unless it responds to the POST.
type olderServer struct {
	*site
	stream chan string
}

const endpoint = ": hello\n\nevent: endpoint\ndata: /messages?s=1\n\nevent: endpoint\ndata: /another\n\n"

func newOlder(t *testing.T, call func(w http.ResponseWriter, id string) string) *olderServer {
	o := &olderServer{stream: make(chan string, 100)}
	o.site = &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) {
		if text := call(w, id); text != "" {
			w.WriteHeader(http.StatusAccepted)
			o.stream <- text
		}
	}}
	return o
}

func (o *olderServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Authorization") != "Bearer abcd":
		o.t.Errorf("%s: got %v", r.Method, r.Header)
	case r.Method == http.MethodPost && r.URL.RequestURI() != "/messages?s=1":
		o.t.Errorf("got a POST to %v", r.URL)
	case r.Method == http.MethodPost:
		var answer body
		o.site.ServeHTTP(&answer, r)
		if strings.Contains(answer.String(), "protocolVersion") {
			o.stream <- "data: " + answer.String() + "\n\n"
			answer.Reset()
			answer.status = http.StatusAccepted
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.status)
		w.Write([]byte(answer.String()))
	default:
		emit(w, endpoint)
		for {
			select {
			case text := <-o.stream:
				if text == "end" {
					return
				}
				emit(w, text)
			case <-r.Context().Done():
				return
			}
		}
	}
}

// body records the response body.
type body struct {
	strings.Builder
	header http.Header
	status int
}

func (b *body) Header() http.Header {
	if b.header == nil {
		b.header = make(http.Header)
	}
	return b.header
}

func (b *body) WriteHeader(status int) { b.status = status }

func TestSSE(t *testing.T) {
	event := func(text string) func(http.ResponseWriter, string) string {
		return func(_ http.ResponseWriter, id string) string {
			return "data: " + strings.ReplaceAll(text, "ID", id) + "\n\n"
		}
	}
	status := func(code int, kind, text string) func(http.ResponseWriter, string) string {
		return func(w http.ResponseWriter, id string) string {
			w.Header().Set("Retry-After", "17")
			reply(w, code, kind, strings.ReplaceAll(text, "ID", id))
			return ""
		}
	}
	const cannot = "its answer cannot be read: "
	question := "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ask\",\"params\":\"\t\"}" // it cannot be parsed, like an answer, but is a question
	entry := `{"level":"info","id":2}`                                                // of a log
	bad := "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"\t\"}"
	for _, tt := range []struct {
		name  string
		call  func(w http.ResponseWriter, id string) string
		want  string
		heard []string
	}{
		{"an answer", event("{\"jsonrpc\":\"2.0\",\ndata: \"id\":ID,\"result\":{}}"), "{}", nil},
		{"rubbish and a note", event("rubbish\n\nevent: heartbeat\ndata: {}\n\ndata: " + note + "\n\ndata: " + result("ID")), "{}",
			[]string{"garbage: " + why("rubbish"), "own stream: notifications/message"}},
		{"a log entry with an id", event(entry + "\n\ndata: " + result("ID")), "{}", []string{"garbage: " + why(entry)}},
		{"a broken answer", event(question + "\n\ndata: " + bad), cannot + why(bad), []string{"garbage: " + why(question), "garbage: " + why(bad)}},
		{"a long answer", event(`{"jsonrpc":"2.0","id":ID,"result":"` + strings.Repeat("x", 20_000) + `"}`), "stream broke: message too long: more than the 5000 bytes of max_message_bytes in [server]", nil},
		{"an error to the POST", status(400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"no"}}`), `{"code":1,"message":"no"}`, nil},
		{"a status", status(500, "text/plain", "out of order"), "status 500 Internal Server Error: out of order", nil},
		{"a status of one request", status(403, "text/plain", ""), "status 403 Forbidden", nil},
		{"credentials", status(401, "text/plain", ""), "status 401 Unauthorized, the server wants other credentials", nil},
		{"the end", func(http.ResponseWriter, string) string { return "end" }, "the server ended the stream", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				v := attach(t, newOlder(t, tt.call), Spec{SSE: true, MaxMessage: 5000, Header: http.Header{"Authorization": {"Bearer abcd"}}})
				v.AwaitOffer(t.Context())
				v.heard.turn()
				if got := v.work(t.Context()); !strings.HasSuffix(got, tt.want) {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
				if !strings.Contains(tt.want, "credentials") && !strings.Contains(tt.want, "stream") { // the connection may have ended
					v.heard.want(t, tt.heard...)
				}
			})
		})
	}
}

// HTTP+SSE reports a rate limit in the response to the POST.
func TestLimitedOverSSE(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := attach(t, newOlder(t, func(w http.ResponseWriter, _ string) string {
			w.Header().Set("Retry-After", "17")
			w.WriteHeader(http.StatusTooManyRequests)
			return ""
		}), Spec{SSE: true, Header: http.Header{"Authorization": {"Bearer abcd"}}})
		if answer, err := callEcho(t.Context(), v.Lease); err == nil || !answer.Limited || answer.RetryAfter != "17" {
			t.Errorf("got %+v, %v", answer, err)
		}
	})
}

// A server that is away for a while, behind a proxy that answers 404 for it, is used over streamable
// HTTP when it is back.
func TestStreamableHTTPAfterStrayStatus(t *testing.T) {
	for _, status := range []int{400, 404, 405} {
		bubble.Test(t, func(t *testing.T) {
			var away atomic.Bool
			s := &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) { replyJSON(w, result(id)) }}
			v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if away.Load() {
					w.WriteHeader(status)
					return
				}
				s.ServeHTTP(w, r)
			}), Spec{})
			v.AwaitOffer(t.Context())
			away.Store(true)
			v.in.live().link.(*httpLink).end(errSessionLost, 0) // so it connects again
			time.Sleep(time.Minute)
			away.Store(false)
			time.Sleep(2 * time.Minute)
			if got := v.work(t.Context()); got != "{}" {
				t.Errorf("%d: got %s", status, got)
			}
		})
	}
}

// The credentials in the URL of the stream are sent to the endpoint, not those in the URL that names it.
func TestSSECredentialsInTheURL(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		posted := make(chan string, 100)
		attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				user, password, _ := r.BasicAuth()
				posted <- user + ":" + password
				return
			}
			emit(w, "event: endpoint\ndata: http://other:one@web.test/m\n\n")
			<-r.Context().Done()
		}), Spec{SSE: true, URL: "http://user:secret@web.test/sse"})
		if got := <-posted; got != "user:secret" {
			t.Errorf("got the credentials %s", got)
		}
	})
}

func TestSSEFailures(t *testing.T) {
	tests := []struct {
		name string
		get  func(w http.ResponseWriter, r *http.Request)
		want string
	}{
		{"not there", func(w http.ResponseWriter, r *http.Request) { reply(w, 404, "text/plain", "no") },
			"status 404 Not Found"}, // after "initialize: " if that was sent before the stream failed
		{"no stream", func(w http.ResponseWriter, r *http.Request) { reply(w, 200, "text/html", "<html>") },
			`status 200 OK, no event stream, content type "text/html"`},
		{"ends", func(w http.ResponseWriter, r *http.Request) { emit(w, ":\n\n") }, "the server ended the stream"},
		{"credentials", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) },
			"status 401 Unauthorized, the server wants credentials"},
		{"forbidden", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) },
			"status 403 Forbidden, the server wants credentials"},
		{"endpoint elsewhere", func(w http.ResponseWriter, r *http.Request) {
			emit(w, "event: endpoint\ndata: http://other.test/m?session=abc\n\n")
			<-r.Context().Done()
		}, "endpoint event: http://other.test is not the origin of the stream"},
		{"no endpoint", func(w http.ResponseWriter, r *http.Request) { emit(w, "event: endpoint\ndata: :%\n\n") }, "endpoint event: invalid URL"},
		{"cut", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:\n\n\r\n")
		}, "stream broke: unexpected EOF"},
		{"never says where", func(w http.ResponseWriter, r *http.Request) {
			emit(w, ":\n\n")
			<-r.Context().Done()
		}, "still starting after 1m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				v := attach(t, http.HandlerFunc(tt.get), Spec{SSE: true})
				if got := v.work(t.Context()); !strings.Contains(got, tt.want) {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}
