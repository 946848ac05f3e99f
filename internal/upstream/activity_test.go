package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

// guest is a session on a shared instance with the notifications and requests it received.
type guest struct {
	*Lease
	heard *diary
}

func visit(u *Upstream, name string) guest {
	g := guest{heard: new(diary)}
	g.Lease = u.Attach(Client{}, Listener{
		Notify: func(_ string, params []byte) { g.heard.write("heard " + text(jsonrpc.Get(params, "data"))) },
		Ask: func(string) askFunc {
			return func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
				g.heard.write("asked")
				return fmt.Appendf(nil, `{"who":%q}`, name), nil
			}
		},
	})
	return g
}

// speak makes the server send a notification that names no request, and a request. It returns the
// name of the session that answered.
func speak(p *mcptest.Puppet) string {
	p.Log("info", "something")
	p.Say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	synctest.Wait()
	return text(jsonrpc.Get((<-p.Replies).Result, "who"))
}

// Another session receives messages again once the server can no longer mean a request of a
// session that has ended: its answer has arrived and the trailing time has passed, or the time
// for unfinished requests has passed.
func TestEndedSessionMakesMessagesAmbiguous(t *testing.T) {
	const settle = 10 * time.Minute
	for _, test := range []struct {
		name    string
		sse     bool
		end     func(p *mcptest.Puppet, l *Lease, cancel func())
		until   time.Duration
		neither []time.Duration // before that
	}{
		{"answered", false, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			p.Answer((<-p.Calls).ID, []byte(`{}`))
			synctest.Wait()
			l.Close()
		}, trailing, []time.Duration{0, trailing - 1}},
		{"cancelled", false, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			<-p.Calls
			cancel()
			synctest.Wait()
			l.Close()
		}, settle, []time.Duration{0, time.Minute, settle - 1}},
		{"cancelled, after it has ended", false, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			<-p.Calls
			l.Close()
			synctest.Wait()
			cancel()
		}, settle, []time.Duration{0, time.Minute, settle - 1}},
		{"cancelled, and answered all the same", true, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			call := <-p.Calls
			cancel()
			synctest.Wait()
			l.Close()
			p.Answer(call.ID, []byte(`{}`))
			synctest.Wait()
		}, trailing, []time.Duration{0, trailing - 1}},
		{"cancelled, and not answered", true, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			<-p.Calls
			cancel()
			synctest.Wait()
			l.Close()
		}, settle, []time.Duration{0, time.Minute, settle - 1}},
		{"answered, and it goes on", true, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			p.Answer((<-p.Calls).ID, []byte(`{}`))
			synctest.Wait()
			l.TaskStarted()
			time.Sleep(time.Hour)
			l.Close()
		}, settle, []time.Duration{0, time.Minute, settle - 1}},
		{"not sent for long", false, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			p.Answer((<-p.Calls).ID, []byte(`{}`))
			time.Sleep(trailing)
			l.Close()
		}, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := mcptest.NewPuppet()
				handler := p.Streamable()
				if test.sse {
					handler = p.SSE()
				}
				u, _ := bubbledWith(t, handler, Spec{Shared: true, SSE: test.sse, StartTimeout: time.Minute}, Options{WriteSettle: func() time.Duration { return settle }})
				a, b := visit(u, "a"), visit(u, "b")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go a.Call(ctx, a.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)})
				synctest.Wait()
				test.end(p, a.Lease, cancel)
				ended := time.Now()
				for _, d := range test.neither {
					time.Sleep(d - time.Since(ended))
					if who := speak(p); who != "" {
						t.Errorf("after %v: %s answered", d, who)
					}
				}
				b.heard.want(t)
				time.Sleep(test.until - time.Since(ended))
				if who := speak(p); who != "b" {
					t.Errorf("after %v: got an answer of %q", test.until, who)
				}
				b.heard.want(t, "heard something", "asked")
				a.heard.want(t)
				n := int64(len(test.neither))
				if got, want := u.Stats(), (Stats{Dropped: n, Refused: n}); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				b.Close()
			})
		})
	}
}

// A server may continue with a request whose HTTP response has failed.
func TestFailedResponseMakesMessagesAmbiguous(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := mcptest.NewPuppet()
		handler := p.Streamable()
		u, _ := bubbledWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // the client may be gone
			if bytes.Contains(body, []byte(`"work"`)) {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			handler.ServeHTTP(w, r)
		}), Spec{Shared: true, StartTimeout: time.Minute}, Options{})
		a, b := visit(u, "a"), visit(u, "b")
		defer b.Close()
		if _, err := a.Call(t.Context(), a.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)}); err == nil {
			t.Error("the call was answered")
		}
		a.Close()
		time.Sleep(writeSettle - time.Nanosecond)
		if who := speak(p); who != "" {
			t.Errorf("%s answered while the server may go on", who)
		}
		time.Sleep(time.Nanosecond)
		if who := speak(p); who != "b" {
			t.Errorf("after %v: got an answer of %q", writeSettle, who)
		}
	})
}

// The timeout of a request is suspended while its server waits for the client, because a person
// may take any time. That of a request sent after the server's question is not.
func TestQuestionStopsTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := mcptest.NewPuppet()
		u, _ := bubbledWith(t, p.SSE(), Spec{SSE: true, StartTimeout: time.Minute}, Options{})
		answer := make(chan struct{})
		l := u.Attach(Client{}, Listener{Ask: func(string) askFunc {
			return func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
				<-answer
				return []byte("{}"), nil
			}
		}})
		defer l.Close()
		l.AwaitOffer(t.Context())
		start := func() (outcome chan error) {
			outcome = make(chan error, 1)
			req := &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`), Timeout: time.Second}
			l.Start(t.Context(), l.Turn(), req, func(_ Answer, err error) { outcome <- err })
			return outcome
		}
		before := start()
		p.Say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		synctest.Wait()
		after := start()
		time.Sleep(time.Hour + time.Second/2) // checked every second
		if err := <-after; err != ErrTimeout {
			t.Errorf("of the later request: got %v, want %v", err, ErrTimeout)
		}
		if len(before) > 0 {
			t.Fatalf("while the client is asked: got %v", <-before)
		}
		close(answer)
		synctest.Wait()
		p.Answer((<-p.Calls).ID, []byte(`{}`))
		if err := <-before; err != nil {
			t.Errorf("after the client has answered: got %v", err)
		}
	})
}

// The table of requests does not grow with the number of past sessions.
func TestEndedSessionsAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := mcptest.NewPuppet()
		u, _ := bubbledWith(t, p.SSE(), Spec{Shared: true, SSE: true, StartTimeout: time.Minute}, Options{})
		for i := range 100 {
			a := visit(u, "a")
			ctx, cancel := context.WithCancel(t.Context())
			go a.Call(ctx, a.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)})
			call := <-p.Calls
			if i%2 == 0 {
				p.Answer(call.ID, []byte(`{}`))
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			a.Close()
			time.Sleep(writeSettle / 2)
			if c := u.shared.status.live(); len(c.requests.activity) > 3 {
				t.Fatalf("of %d leases something is known after %d sessions", len(c.requests.activity), i+1)
			}
		}
	})
}

// Over HTTP a log level is not sent before the previous one was answered, because requests may
// arrive in another order.
func TestLevelsAreToldOneAfterTheOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := mcptest.NewPuppet()
		handler, release := p.Streamable(), make(chan struct{})
		var came atomic.Int32
		u, _ := bubbledWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // the client may be gone
			if bytes.Contains(body, []byte("logging/setLevel")) {
				came.Add(1)
				<-release // independent of the speed of the machine
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			handler.ServeHTTP(w, r)
		}), Spec{Shared: true, StartTimeout: time.Minute}, Options{})
		a, b := visit(u, "a"), visit(u, "b")
		a.AwaitOffer(t.Context())
		for level := range strings.FieldsSeq("error debug warning notice error alert debug") {
			a.SetLevel(level)
			b.SetLevel("emergency")
		}
		synctest.Wait()
		if n := came.Load(); n != 1 {
			t.Errorf("%d levels came before the first had an answer", n)
		}
		close(release)
		synctest.Wait()
		if got := p.Levels(); !slices.Equal(got, []string{"info", "debug"}) { // b had requested no level when the first was sent
			t.Errorf("got %v, want the first and the last", got)
		}
		a.Close()
		synctest.Wait()
		if got := p.Levels(); got[len(got)-1] != "emergency" {
			t.Errorf("got %v", got)
		}
		b.Close()
	})
}

// A reply that a server does not accept is dropped after a while, to make room for others.
func TestRepliesThatAreNotTaken(t *testing.T) {
	for _, sse := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			p := mcptest.NewPuppet()
			handler := p.Streamable()
			if sse {
				handler = p.SSE()
			}
			u, _ := bubbledWith(t, handler, Spec{Shared: true, SSE: sse, StartTimeout: time.Minute}, Options{})
			a := visit(u, "a")
			a.AwaitOffer(t.Context())
			release := p.Hold()
			defer release()
			ping := func(n int) {
				for i := range n {
					p.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
				}
				synctest.Wait()
			}
			ping(1000)
			if n := len(p.Replies); n != maxPings || u.Stats().Unanswered != 1000-maxPings {
				t.Errorf("%d replies came at once, %d were dropped", n, u.Stats().Unanswered)
			}
			time.Sleep(replyTimeout)
			synctest.Wait()
			ping(1)
			if n := len(p.Replies); n != maxPings+1 {
				t.Errorf("%d replies came, want %d", n, maxPings+1)
			}
			release()
			a.Close()
		})
	}
}
