package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

// testPatience is how long a test waits for what must come.
const testPatience = 20 * time.Second

// said is one thing that a link told its sink.
type said struct {
	what   string // message, lost, garbage, gap, closed
	msg    jsonrpc.Message
	stream int64
	id     int64
	err    error
}

func (s said) String() string {
	switch s.what {
	case "message":
		return fmt.Sprintf("message on %d: %s", s.stream, s.msg.Raw)
	case "lost":
		return fmt.Sprintf("lost %d: %v", s.id, s.err)
	case "gap":
		return "gap"
	}
	return fmt.Sprintf("%s: %v", s.what, s.err)
}

// ear is a sink that remembers what it is told, in order.
type ear struct {
	t    *testing.T
	said chan said
	over chan struct{} // closed by closed
}

func newEar(t *testing.T) *ear {
	return &ear{t: t, said: make(chan said, 10_000), over: make(chan struct{})}
}

func (e *ear) hear(s said) {
	select {
	case <-e.over:
		e.t.Errorf("after closed: %v", s)
	default:
	}
	e.said <- s
}

func (e *ear) sink() sink {
	return sink{
		repaired: func() {},
		message:  func(m jsonrpc.Message, stream int64) { e.hear(said{what: "message", msg: m, stream: stream}) },
		lost:     func(id int64, err error) { e.hear(said{what: "lost", id: id, err: err}) },
		garbage:  func(head []byte, err error) { e.hear(said{what: "garbage", msg: jsonrpc.Message{Raw: head}, err: err}) },
		gap:      func() { e.hear(said{what: "gap"}) },
		limited:  func(int64, string) {},
		forgot:   func() {},
		closed: func(err error) {
			e.hear(said{what: "closed", err: err})
			close(e.over)
		},
	}
}

// next returns the next thing said.
func (e *ear) next() said {
	e.t.Helper()
	select {
	case s := <-e.said:
		return s
	case <-time.After(testPatience):
		e.t.Fatal("nothing more was said")
		panic("unreachable")
	}
}

// want compares the next things said with their text.
func (e *ear) want(texts ...string) {
	e.t.Helper()
	for _, text := range texts {
		if got := e.next().String(); got != text {
			e.t.Fatalf("got %s\nwant %s", got, text)
		}
	}
}

// lost returns the error with which request id is lost next, gaps and garbage aside.
func (e *ear) lost(id int64) error {
	e.t.Helper()
	for {
		s := e.next()
		if s.what == "gap" || s.what == "garbage" {
			continue
		}
		if s.what != "lost" || s.id != id {
			e.t.Fatalf("got %v, want request %d lost", s, id)
		}
		return s.err
	}
}

// serve runs a server until the test is over; links are closed before.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// dial opens a streamable link and closes it at the end of the test, after
// which no goroutine of any link may be left.
func dial(t *testing.T, opts httpOptions) (*streamable, *ear) {
	t.Helper()
	e := newEar(t)
	l := dialStreamable(opts, e.sink())
	closeAfter(t, l, e)
	return l, e
}

func closeAfter(t *testing.T, l link, e *ear) {
	t.Cleanup(func() {
		l.close()
		select {
		case <-e.over:
		default:
			t.Error("close returned before the sink was told")
		}
		noGoroutines(t)
	})
}

// noGoroutines checks that nothing of a link runs any more.
func noGoroutines(t *testing.T) {
	t.Helper()
	var stacks string
	for deadline := time.Now().Add(testPatience); time.Now().Before(deadline); runtime.Gosched() {
		buf := make([]byte, 1<<20)
		stacks = string(buf[:runtime.Stack(buf, true)])
		if !strings.Contains(stacks, "upstream.(*httpLink)") && !strings.Contains(stacks, "upstream.(*streamPost)") {
			return
		}
	}
	t.Errorf("goroutines left:\n%s", stacks)
}

// call is a tools/call with this id.
func call(id int64) outgoing {
	return outgoing{id: id, line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call"}`, id)}
}

func notification(method string) outgoing {
	return outgoing{line: jsonrpc.AppendNotification(nil, method, nil)}
}

func result(id int64) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }

// must sends a message that has to be accepted.
func must(t *testing.T, l link, m outgoing) {
	t.Helper()
	if err := l.send(t.Context(), m); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// reply writes an answer of the given type.
func reply(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, body)
}

func replyJSON(w http.ResponseWriter, body string) { reply(w, 200, "application/json", body) }

// emit sends part of an event stream at once.
func emit(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, text)
	w.(http.Flusher).Flush()
}

func TestCloseReturnsWhileTheServerNeverAnswers(t *testing.T) {
	arrived := make(chan struct{}, 10)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		readMessage(t, r) // without it the server does not see the client go
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	l, e := dial(t, httpOptions{url: url})
	must(t, l, call(1))
	must(t, l, notification("notifications/roots/list_changed"))
	<-arrived
	<-arrived
	l.close()
	l.close() // again changes nothing
	if err := e.lost(1); !strings.Contains(err.Error(), "link closed") {
		t.Errorf("got %v", err)
	}
	e.want("closed: link closed")
	if err := l.send(t.Context(), call(2)); !errors.Is(err, errLinkClosed) {
		t.Errorf("send after close: got %v, want %v", err, errLinkClosed)
	}
}

// What follows notifications/initialized is not sent before the server has
// taken it; what was sent before may still be under way.
func TestNothingOvertakesInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mcptest.New(mcptest.Options{Name: "web"})
		handler, held := server.Handler(), make(chan struct{})
		var came atomic.Int32 // after it
		u, _ := bubbled(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				m := readMessage(t, r)
				r.Body = io.NopCloser(bytes.NewReader(m.Raw))
				if m.Method == "notifications/initialized" {
					<-held
				} else if m.Method != "initialize" {
					came.Add(1)
				}
			}
			handler.ServeHTTP(w, r)
		}), time.Minute)
		l := u.Attach(Client{}, Listener{})
		defer l.Close()
		answered := make(chan error, 1)
		l.Start(t.Context(), l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"echo"}`)}, func(_ Answer, err error) { answered <- err })
		synctest.Wait()
		if n := came.Load(); n > 0 {
			t.Errorf("%d requests were sent before initialized was taken", n)
		}
		close(held)
		if err := <-answered; err != nil || came.Load() == 0 {
			t.Errorf("got %v after %d requests", err, came.Load())
		}
	})
}

// A server that is slow over notifications/initialized, or does not end its response to
// it, holds the handshake up for a while only, and the notification is not withdrawn.
func TestInitializedThatIsSlow(t *testing.T) {
	tests := map[string]struct {
		slow func(w http.ResponseWriter, r *http.Request)
		want time.Duration
	}{
		"before its status": {func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * time.Second)
			if err := r.Context().Err(); err != nil {
				t.Error("the notification was withdrawn")
			}
			w.WriteHeader(202)
		}, initializedWait},
		"after its status": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(202)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, headTimeout},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := mcptest.New(mcptest.Options{Name: "web"}).Handler()
				u, _ := bubbled(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						m := readMessage(t, r)
						if m.Method == "notifications/initialized" {
							test.slow(w, r)
							return
						}
						r.Body = io.NopCloser(bytes.NewReader(m.Raw))
					}
					handler.ServeHTTP(w, r)
				}), time.Minute)
				l := u.Attach(Client{}, Listener{})
				defer l.Close()
				began := time.Now()
				if _, err := l.Call(t.Context(), l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"echo"}`)}); err != nil {
					t.Error(err)
				}
				if got := time.Since(began); got != test.want {
					t.Errorf("the first call took %v, want %v", got, test.want)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestRedirects(t *testing.T) {
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("request to another origin: %v", r.Header)
	})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/new":
			if r.Method != "POST" || r.Header.Get("Authorization") == "" {
				t.Errorf("got %s with %v", r.Method, r.Header)
			}
			m := readMessage(t, r)
			replyJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
		case "/same":
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
		case "/get":
			http.Redirect(w, r, "/new", http.StatusFound)
		case "/away":
			http.Redirect(w, r, other+"/secret-path", http.StatusPermanentRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusPermanentRedirect)
		}
	})
	header := http.Header{"Authorization": {"Bearer abcdef"}}
	for path, want := range map[string]string{
		"/same": "",
		"/get":  "status 302 Found, redirect to " + url + " not followed",
		"/away": "status 308 Permanent Redirect, redirect to " + other + " not followed",
		"/loop": "status 308 Permanent Redirect, redirect to " + url + " not followed",
	} {
		l, e := dial(t, httpOptions{url: url + path, header: header})
		must(t, l, call(1))
		if want == "" {
			e.want("message on 1: " + result(1))
		} else if err := e.lost(1); err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

// What the link sends in secret does not come back in an error, whatever the
// server repeats.
func TestSecretsAreNotInErrors(t *testing.T) {
	const token, key, query = "tok-1234567890", "key+/=xyz", "q%20secret"
	long := strings.Repeat("L", 3000) // such a token must not be cut before it is found
	header := http.Header{"Authorization": {"Bearer " + token}, "X-Api-Key": {key}, "X-Long": {long}}
	for _, status := range []int{200, 400, 401, 403, 404, 500} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			all := fmt.Sprintln(r.Header.Get("X-Long"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.URL, r.URL.Query(), r.Header)
			w.Header().Set("WWW-Authenticate", `Bearer error="`+r.Header.Get("Authorization")+`"`)
			reply(w, status, "text/plain", all)
		})
		for _, kind := range []string{"streamable", "sse"} {
			e := newEar(t)
			spec := Spec{URL: url + "/?key=" + query, Header: header}
			opts := httpOptions{url: spec.URL, header: header, mask: spec.masker()}
			var l link = dialStreamable(opts, e.sink())
			if kind == "sse" {
				l = dialSSE(opts, e.sink())
			} else {
				must(t, l, call(1))
			}
			text := e.next().String()
			for _, secret := range []string{token, key, query, "q secret", long[:20]} {
				if strings.Contains(text, secret) {
					t.Errorf("%s, status %d: %q in %s", kind, status, secret, text)
				}
			}
			if !strings.Contains(text, fmt.Sprint(status)) {
				t.Errorf("got %s, want the status %d in it", text, status)
			}
			l.close()
		}
	}
	l, e := dial(t, httpOptions{url: "http://127.0.0.1:1/?key=" + query, header: header})
	must(t, l, call(1))
	if err := e.lost(1); strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}

// When the server wants other credentials, or has lost the session, requests
// that are under way still get their answers, and only those that the server
// refused are said not to have been run.
func TestFailingLinkWaitsForAnswersUnderWay(t *testing.T) {
	refusedOne := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch m := readMessage(t, r); string(m.ID) {
		case "1":
			<-refusedOne
			replyJSON(w, result(1))
		case "2":
			w.WriteHeader(http.StatusUnauthorized)
		case "3":
			<-r.Context().Done()
		}
	})
	l, e := dial(t, httpOptions{url: url})
	must(t, l, call(1))
	must(t, l, call(3))
	must(t, l, call(2))
	var answered, refused, cut bool
	for range 3 {
		switch s := e.next(); {
		case s.what == "message":
			answered = string(s.msg.ID) == "1"
		case s.id == 2:
			_, refused = errors.AsType[*authRequired](s.err)
			close(refusedOne)
		case s.id == 3:
			_, auth := errors.AsType[*authRequired](s.err)
			cut = !auth && strings.HasPrefix(s.err.Error(), "cut off before its answer: status 401")
		}
	}
	if !answered || !refused || !cut {
		t.Errorf("got answered %v, refused %v, cut %v", answered, refused, cut)
	}
	if s := e.next(); s.what != "closed" {
		t.Errorf("got %v, want closed", s)
	} else if _, ok := errors.AsType[*authRequired](s.err); !ok {
		t.Errorf("closed: got %v", s.err)
	}
	if err := l.send(context.Background(), call(4)); err == nil {
		t.Error("a failed link accepts requests")
	}
}
