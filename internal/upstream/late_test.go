package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// Late is called once for the answer to a cancelled request, however it was cancelled and whatever
// the answer is.
func TestLate(t *testing.T) {
	givenUp := map[string]func(ctx context.Context, cancel func(), req *Request) (why error){
		"its context ended": func(_ context.Context, cancel func(), _ *Request) error {
			time.AfterFunc(time.Second, cancel)
			return context.Canceled
		},
		"its time was up": func(_ context.Context, _ func(), req *Request) error {
			req.Timeout = time.Second
			return ErrTimeout
		},
	}
	result := func(id []byte) string { return string(jsonrpc.AppendResult(nil, id, []byte("{}"))) }
	for _, outcome := range []struct {
		name string
		say  func(p *mcptest.Puppet, id []byte)
		want int32
	}{
		{"a result", func(p *mcptest.Puppet, id []byte) { p.Say(result(id)) }, 1},
		{"an error", func(p *mcptest.Puppet, id []byte) {
			p.Say(string(jsonrpc.AppendError(nil, id, []byte(`{"code":1,"message":"no"}`))))
		}, 1},
		{"two answers", func(p *mcptest.Puppet, id []byte) { p.Say(result(id)); p.Say(result(id)) }, 1},
		{"the answer to another", func(p *mcptest.Puppet, id []byte) { p.Say(result([]byte("1"))) }, 0},
		{"nothing", func(*mcptest.Puppet, []byte) {}, 0},
	} {
		for how, giveUp := range givenUp {
			t.Run(outcome.name+" after "+how, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					p := mcptest.NewPuppet()
					u, _ := bubbledWith(t, p.SSE(), Spec{SSE: true, StartTimeout: time.Minute}, Options{})
					l := u.Attach(revision.Client{}, Listener{})
					defer l.Close()
					var late atomic.Int32
					req := &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`), Late: func(jsonrpc.Message) { late.Add(1) }}
					l.AwaitOffer(t.Context())
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					why := giveUp(ctx, cancel, req)
					if answer, err := l.Call(ctx, l.Turn(), req); !errors.Is(err, why) || !answer.Sent {
						t.Errorf("got %+v, %v, want %v", answer, err, why)
					}
					if late.Load() != 0 {
						t.Error("called before the answer")
					}
					outcome.say(p, (<-p.Calls).ID)
					synctest.Wait()
					if got := late.Load(); got != outcome.want {
						t.Errorf("called %d times, want %d", got, outcome.want)
					}
				})
			})
		}
	}
}

// A cancelled call of an HTTP session is not cut off at once: its server, which a notification tells to stop,
// may end the response, and net/http may have given its connection to the next request already. A prefetch is.
func TestCancelledExchangeLingers(t *testing.T) {
	for after, isolated := range map[time.Duration]bool{streamLinger / 2: false, streamLinger / 3: true, 2 * streamLinger: false} {
		bubble.Test(t, func(t *testing.T) {
			var late, cut atomic.Bool
			v := attach(t, &site{t: t, call: func(w http.ResponseWriter, r *http.Request, id string) {
				time.Sleep(after)
				if cut.Store(r.Context().Err() != nil); !cut.Load() {
					replyJSON(w, result(id))
				}
			}}, Spec{})
			v.AwaitOffer(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			req := &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`), Isolated: isolated, Late: func(jsonrpc.Message) { late.Store(true) }}
			v.Send(ctx, v.Turn(), req, func(Answer, error) {})
			synctest.Wait()
			cancel()
			time.Sleep(after)
			synctest.Wait()
			if lingers := after < streamLinger && !isolated; late.Load() != lingers || cut.Load() == lingers {
				t.Errorf("ended after %v: answered late: %v, cut off: %v", after, late.Load(), cut.Load())
			}
		})
	}
}

// A request that is cancelled before it has a connection is not sent.
func TestCancelledBeforeItsConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := attach(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) {
			t.Error("the request was sent")
			replyJSON(w, result(id))
		}}, Spec{})
		v.AwaitOffer(t.Context())
		synctest.Wait()
		transport := v.in.up.client.Transport.(*http.Transport)
		transport.CloseIdleConnections()
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(streamLinger / 2)
			return dial(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(t.Context(), streamLinger/4)
		defer cancel()
		if got := v.work(ctx); got != context.DeadlineExceeded.Error() {
			t.Errorf("got %s", got)
		}
		time.Sleep(streamLinger)
	})
}

// A cancelled call that its server ends without an answer says nothing about the session's other messages.
func TestCancelledExchangeIsNoGap(t *testing.T) {
	for _, id := range []string{"", "id: a\n"} { // with an id the stream could be resumed
		bubble.Test(t, func(t *testing.T) {
			v := attach(t, &site{t: t, call: func(w http.ResponseWriter, r *http.Request, _ string) {
				emit(w, id+"data: "+note+"\n\n")
				time.Sleep(streamLinger / 2)
			}, other: func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") != "" {
					t.Error("the stream of a cancelled call was resumed")
				}
				w.WriteHeader(http.StatusMethodNotAllowed)
			}}, Spec{})
			v.AwaitOffer(t.Context())
			synctest.Wait()
			v.heard.turn()
			ctx, cancel := context.WithTimeout(t.Context(), streamLinger/4)
			defer cancel()
			v.work(ctx)
			time.Sleep(time.Minute)
			v.heard.want(t, "heard notifications/message")
		})
	}
}

// attachPuppet returns a server that the test plays, and a lease on it.
func attachPuppet(t *testing.T) (*mcptest.Puppet, *Lease) {
	p := mcptest.NewPuppet()
	u, _ := bubbledWith(t, p.SSE(), Spec{SSE: true, StartTimeout: time.Minute}, Options{})
	l := u.Attach(revision.Client{}, Listener{})
	l.AwaitOffer(t.Context())
	return p, l
}

// An answer that arrives before the cancellation is not late, and no cancellation is sent.
func TestAnswerInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, l := attachPuppet(t)
		defer l.Close()
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			req := &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`), Late: func(jsonrpc.Message) { t.Error("late") }}
			outcome := make(chan error, 2)
			l.Send(ctx, l.Turn(), req, func(_ Answer, err error) { outcome <- err })
			p.Answer((<-p.Calls).ID, []byte(`{}`))
			synctest.Wait()
			cancel()
			synctest.Wait()
			if err := <-outcome; err != nil || len(outcome) > 0 {
				t.Fatalf("got %v and %d more, want the answer that had arrived", err, len(outcome))
			}
		}
		if n := len(p.Ended); n > 0 {
			t.Errorf("%d requests were cancelled", n)
		}
	})
}

// A server that never answers cancelled requests costs bounded memory.
func TestAbandonedRequestsAreBounded(t *testing.T) {
	r := &newConn(nil).requests
	late := make(map[int64]bool)
	for range maxLater + 1 {
		p := new(pending)
		p.req = &Request{Late: func(jsonrpc.Message) { late[p.id] = true }}
		if r.add(p) != nil || r.remove(p.id, true, false) != p {
			t.Fatal("not abandoned")
		}
	}
	for id := range int64(maxLater + 1) {
		if r.lateAnswer(id+1, jsonrpc.Message{}); late[id+1] == (id == 0) {
			t.Fatalf("of request %d: called late: %v, want only the oldest forgotten", id+1, late[id+1])
		}
	}
}

// When a connection ends, answers are invalidated before its requests fail.
func TestEndIsKnownFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := mcptest.NewPuppet()
		handler := p.SSE()
		var heard diary
		stream, cut := context.WithCancel(t.Context())
		u, _ := bubbledWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				r = r.WithContext(stream)
			}
			handler.ServeHTTP(w, r)
		}), Spec{SSE: true, StartTimeout: time.Minute}, Options{Invalidated: heard.write})
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		heard.turn()
		for i := range 3 {
			req := &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)}
			l.Send(t.Context(), l.Turn(), req, func(answer Answer, err error) {
				if !errors.Is(err, errEnded) || !answer.Sent {
					t.Errorf("got %+v, %v", answer, err)
				}
				heard.write(fmt.Sprint("failed ", i))
			})
		}
		synctest.Wait()
		cut()
		synctest.Wait()
		if got := heard.turn(); len(got) < 4 || got[0] != "exit" {
			t.Errorf("got %q, want the end and then three requests that failed", got)
		}
	})
}
