package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// guest is a session on a shared instance with the notifications and requests it received.
type guest struct {
	*Lease
	heard *diary
}

func visit(u *Upstream, name string) guest {
	g := guest{heard: new(diary)}
	g.Lease = u.Attach(revision.Client{}, Listener{
		Notify: func(_ string, params []byte) { g.heard.write("heard " + jsonrpc.Text(params, "data")) },
		Ask: func(string) askFunc {
			return func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
				g.heard.write("asked")
				return fmt.Appendf(nil, `{"who":%q}`, name), nil
			}
		},
	})
	return g
}

// speak makes the server send a notification and a request that name no request of the proxy. It
// returns the name of the session that answered.
func speak(p *mcptest.Puppet) string {
	p.Log("info", "something")
	p.Say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	synctest.Wait()
	return jsonrpc.Text((<-p.Replies).Result, "who")
}

// A message that may be about a request of an ended session reaches no other session. The request
// may be in flight, or may have been given up or have failed, until the time for unfinished
// requests has passed.
func TestEndedSessionMakesMessagesAmbiguous(t *testing.T) {
	const settle = 10 * time.Minute
	for _, test := range []struct {
		name  string
		sse   bool
		end   func(p *mcptest.Puppet, l *Lease, cancel func())
		until time.Duration
	}{
		{"answered", false, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			p.Answer((<-p.Calls).ID, []byte(`{}`))
			synctest.Wait()
			l.Close()
		}, 0},
		{"cancelled, after it has ended", false, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			<-p.Calls
			l.Close()
			time.Sleep(time.Hour) // the request stays in flight
			if who := speak(p); who != "" {
				t.Errorf("while its request is in flight: %s answered", who)
			}
			cancel()
		}, settle},
		{"failed", false, func(p *mcptest.Puppet, l *Lease, _ func()) {
			p.Answer((<-p.Calls).ID, []byte(`{}`))
			_, _ = l.Call(context.Background(), l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"status","arguments":{"status":500}}`)})
			l.Close()
		}, settle},
		{"cancelled", true, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			<-p.Calls
			cancel()
			synctest.Wait()
			l.Close()
		}, settle},
		{"answered, and it goes on", true, func(p *mcptest.Puppet, l *Lease, cancel func()) {
			p.Answer((<-p.Calls).ID, []byte(`{}`))
			synctest.Wait()
			l.TaskStarted()
			l.Close()
		}, settle},
		{"cancelled, of the proxy itself", true, cancelledOwnRequest, 0},
		{"cancelled, of the proxy itself, over streamable HTTP", false, cancelledOwnRequest, 0},
		{"failed, of the proxy itself", false, func(p *mcptest.Puppet, l *Lease, _ func()) {
			p.Answer((<-p.Calls).ID, []byte(`{}`))
			_, _ = l.in.live().ownRequest(context.Background(), &Request{Method: "tools/call", Params: []byte(`{"name":"status","arguments":{"status":500}}`)})
			l.Close()
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := mcptest.NewPuppet()
				handler := p.Handler()
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
				synctest.Wait()
				ended := time.Now()
				if test.until > 0 {
					for _, d := range []time.Duration{0, test.until - 1} {
						time.Sleep(d - time.Since(ended))
						if who := speak(p); who != "" {
							t.Errorf("after %v: %s answered", d, who)
						}
					}
				}
				b.heard.want(t)
				time.Sleep(test.until - time.Since(ended))
				if who := speak(p); who != "b" {
					t.Errorf("after %v: got an answer from %q", test.until, who)
				}
				b.heard.want(t, "heard something", "asked")
				a.heard.want(t)
				b.Close()
			})
		})
	}
}

// A message that may be about a request that its only session gave up reaches that session, unless the session
// has several clients, or another session gave one up too.
func TestOwnUnfinishedRequest(t *testing.T) {
	for _, test := range []struct {
		name        string
		another     bool // it gave up a request before, and has ended
		multiplexed bool
		task        bool // the request was answered, and goes on
		who         string
	}{
		{"given up", false, false, false, "b"},
		{"a task", false, false, true, "b"},
		{"given up, after another's", true, false, false, ""},
		{"given up, of one of several clients", false, true, false, ""},
		{"a task of one of several clients", false, true, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := mcptest.NewPuppet()
				u, _ := bubbledWith(t, p.SSE(), Spec{Shared: true, SSE: true, StartTimeout: time.Minute}, Options{})
				giveUp := func(l *Lease) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go l.Call(ctx, l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)})
					id := (<-p.Calls).ID
					if synctest.Wait(); test.task {
						p.Answer(id, []byte(`{}`))
						synctest.Wait()
						l.TaskStarted()
					}
					cancel()
					synctest.Wait()
				}
				a, b := visit(u, "a"), visit(u, "b")
				defer b.Close()
				b.listener.Multiplexed = test.multiplexed
				if test.another {
					giveUp(a.Lease)
				}
				a.Close()
				time.Sleep(defaultWriteSettle / 2)
				giveUp(b.Lease)
				if who := speak(p); who != test.who {
					t.Errorf("got an answer from %q, want %q", who, test.who)
				}
				time.Sleep(defaultWriteSettle / 2)
				if who := speak(p); (who == "b") == test.multiplexed {
					t.Errorf("later: got an answer from %q", who)
				}
			})
		})
	}
}

// cancelledOwnRequest ends a session after its call was answered and a request of the proxy itself
// was cancelled, which is about no client.
func cancelledOwnRequest(p *mcptest.Puppet, l *Lease, _ func()) {
	p.Answer((<-p.Calls).ID, []byte(`{}`))
	ctx, cancel := context.WithCancel(context.Background())
	go l.in.live().ownRequest(ctx, &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)})
	<-p.Calls
	cancel()
	synctest.Wait()
	l.Close()
}

// A server that declared no capabilities to is told that it cannot ask, also while it has one session.
func TestQuestionWithoutCapabilities(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := mcptest.NewPuppet()
		u, _ := bubbledWith(t, p.SSE(), Spec{Shared: true, SSE: true, NoCapabilities: true, StartTimeout: time.Minute}, Options{})
		a := visit(u, "a")
		defer a.Close()
		a.AwaitOffer(t.Context())
		p.Say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		synctest.Wait()
		if got, want := jsonrpc.Text((<-p.Replies).Error, "message"), "roots/list: this server may have several clients, and none is known to be meant"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A request that cannot be read is refused, as its server may wait for the reply. What looks like no message of
// JSON-RPC gets none.
func TestQuestionThatCannotBeRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, l := attachPuppet(t)
		defer l.Close()
		for message, want := range map[string]string{
			`{"jsonrpc":"2.0","id":7,"method":"ask","params":["x"]}`:                     `7 {"code":-32602,"message":"invalid params: not an object"}`,
			`{"jsonrpc":"2.0","id":"a","method":"ask","params":{"text":"` + "\t" + `"}}`: `"a" {"code":-32700,"message":"parse error: not JSON at byte 59"}`,
			`{"jsonrpc":"2.0","method":"ask","params":"` + "\t" + `","id":7}`:            "", // its id is unknown
			`{"level":"info","id":7,"method":"GET"}`:                                     "",
			`{"jsonrpc":"2.0","method":"note","params":["x"]}`:                           "",
		} {
			p.Say(message)
			synctest.Wait()
			got := ""
			if len(p.Replies) > 0 {
				reply := <-p.Replies
				got = string(reply.ID) + " " + string(reply.Error)
			}
			if got != want {
				t.Errorf("%s: got %s, want %s", message, got, want)
			}
		}
	})
}

// Progress restarts the timeout of its request.
func TestProgressRestartsTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, l := attachPuppet(t)
		defer l.Close()
		began, outcome := time.Now(), make(chan error, 1)
		req := &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`), Token: true, Timeout: time.Second}
		l.Send(t.Context(), l.Turn(), req, func(_ Answer, err error) { outcome <- err })
		call := <-p.Calls
		for range 3 {
			time.Sleep(800 * time.Millisecond)
			p.Say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":` + string(call.ID) + `}}`)
		}
		if err := <-outcome; !errors.Is(err, ErrTimeout) || time.Since(began) != 3400*time.Millisecond {
			t.Errorf("got %v after %v, want the timeout one second after the last progress", err, time.Since(began))
		}
	})
}

// The timeout of a request is suspended while its server waits for the client's reply, as a user
// may take any time.
func TestQuestionStopsTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := mcptest.NewPuppet()
		u, _ := bubbledWith(t, p.SSE(), Spec{SSE: true, StartTimeout: time.Minute}, Options{})
		answer := make(chan struct{})
		l := u.Attach(revision.Client{}, Listener{Ask: func(string) askFunc {
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
			l.Send(t.Context(), l.Turn(), req, func(_ Answer, err error) { outcome <- err })
			return outcome
		}
		outcome := start()
		p.Say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		synctest.Wait()
		time.Sleep(time.Hour + time.Second/2) // checked every second
		if len(outcome) > 0 {
			t.Fatalf("while the client is asked: got %v", <-outcome)
		}
		close(answer)
		synctest.Wait()
		p.Answer((<-p.Calls).ID, []byte(`{}`))
		if err := <-outcome; err != nil {
			t.Errorf("after the client has answered: got %v", err)
		}
		outcome = start()
		time.Sleep(2 * time.Second)
		if err := <-outcome; err != ErrTimeout {
			t.Errorf("without an answer: got %v, want %v", err, ErrTimeout)
		}
	})
}

// A question on the stream of a request suspends the timeout of that request alone.
func TestQuestionStopsItsOwnTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, calls := &site{t: t}, 0
		s.call = func(w http.ResponseWriter, r *http.Request, _ string) {
			if calls++; calls == 1 {
				emit(w, `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`+"\n\n")
			}
			<-r.Context().Done()
		}
		v := attach(t, s, Spec{})
		v.AwaitOffer(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var outcomes [2]chan error
		for i := range outcomes {
			outcomes[i] = make(chan error, 1)
			v.Send(ctx, v.Turn(), &Request{
				Method: "tools/call", Params: []byte(`{"name":"work"}`), Timeout: time.Second,
				Ask: func(ctx context.Context, _ string, _ []byte) ([]byte, *jsonrpc.Error) {
					<-ctx.Done()
					return nil, &jsonrpc.Error{}
				},
			}, func(_ Answer, err error) { outcomes[i] <- err })
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		if len(outcomes[0]) > 0 {
			t.Errorf("the call that asks: got %v", <-outcomes[0])
		}
		if len(outcomes[1]) == 0 || <-outcomes[1] != ErrTimeout {
			t.Errorf("the other call has not timed out")
		}
	})
}

// An upstream that was replaced closes when its last request has an outcome, at most after its grace, or
// when the proxy stops.
func TestRetire(t *testing.T) {
	const grace = time.Minute
	for _, tt := range []struct {
		name   string
		end    func(p *mcptest.Puppet, cancel, stopFast func())
		closes time.Duration // after the end of the call
		want   error         // what the call gets
	}{
		{"answered", func(p *mcptest.Puppet, _, _ func()) { p.Answer((<-p.Calls).ID, []byte(`{}`)) }, 0, nil},
		{"cancelled", func(_ *mcptest.Puppet, cancel, _ func()) { cancel() }, 0, context.Canceled},
		{"the proxy stops", func(_ *mcptest.Puppet, _, stopFast func()) { stopFast() }, 0, errStopped},
		{"not answered", func(*mcptest.Puppet, func(), func()) {}, grace - time.Second, errStopped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p, stop := mcptest.NewPuppet(), make(chan struct{})
				u, _ := bubbledWith(t, p.SSE(), Spec{SSE: true, StartTimeout: time.Minute}, Options{StopFast: stop})
				l := u.Attach(revision.Client{}, Listener{})
				l.AwaitOffer(t.Context())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				outcome := make(chan error, 1)
				l.Send(ctx, l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)}, func(_ Answer, err error) { outcome <- err })
				synctest.Wait()
				u.Retire(grace)
				unsent := make(chan error, 1)
				l.Send(ctx, l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)}, func(_ Answer, err error) { unsent <- err })
				if err := <-unsent; !errors.Is(err, errReplaced) {
					t.Errorf("a later call: got %v, want %v", err, errReplaced)
				}
				closed := make(chan time.Time, 1)
				go func() {
					u.Close()
					closed <- time.Now()
				}()
				time.Sleep(time.Second)
				ended := time.Now()
				tt.end(p, cancel, func() { close(stop) })
				if got := (<-closed).Sub(ended); got != tt.closes {
					t.Errorf("closed %v after the end, want %v", got, tt.closes)
				}
				if err := <-outcome; !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if err := l.Problem(); !errors.Is(err, errReplaced) {
					t.Errorf("afterwards: got %v, want %v", err, errReplaced)
				}
			})
		})
	}
}

// A question on the stream of a request that has failed or was cancelled is withdrawn, and the server is told.
func TestQuestionOfAFailedRequest(t *testing.T) {
	for _, cut := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			told := make(chan struct{}, 2)
			s := &replied{site: &site{t: t}, reply: func() { told <- struct{}{} }}
			s.call = func(w http.ResponseWriter, r *http.Request, _ string) {
				emit(w, `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`+"\n\n")
				if cut {
					time.Sleep(time.Second)
					return
				}
				<-r.Context().Done()
			}
			v := attach(t, s, Spec{})
			v.AwaitOffer(t.Context())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			withdrawn := make(chan struct{})
			_, err := v.Call(ctx, v.Turn(), &Request{
				Method: "tools/call", Params: []byte(`{"name":"work"}`),
				Ask: func(ctx context.Context, _ string, _ []byte) ([]byte, *jsonrpc.Error) {
					<-ctx.Done()
					close(withdrawn)
					return nil, &jsonrpc.Error{}
				},
			})
			synctest.Wait()
			select {
			case <-withdrawn:
			default:
				t.Errorf("after %v the question is still open", err)
			}
			if time.Sleep(time.Second); len(told) != 1 {
				t.Errorf("after %v the server got %d replies, want one", err, len(told))
			}
		})
	}
}

// A reply that a server does not accept is dropped after a while, so that others can be sent.
func TestRepliesThatAreNotTaken(t *testing.T) {
	for sse, questions := range map[bool]int{false: maxReplies + maxQuestions + 1, true: 3 * maxReplies} {
		bubble.Test(t, func(t *testing.T) {
			p := mcptest.NewPuppet()
			handler := p.Handler()
			if sse {
				handler = p.SSE()
			}
			held := make(chan struct{})
			close(held)
			slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handler.ServeHTTP(w, r) // its short responses are sent when this function returns
				select {
				case <-held:
				case <-r.Context().Done():
				}
			})
			u, _ := bubbledWith(t, slow, Spec{Shared: true, SSE: sse, StartTimeout: time.Minute}, Options{})
			a := visit(u, "a")
			a.AwaitOffer(t.Context())
			synctest.Wait()
			held = make(chan struct{})
			want := func(n int, when string) {
				synctest.Wait()
				if got := len(p.Replies); got != n {
					t.Errorf("%s: %d replies came, want %d", when, got, n)
				}
			}
			for i := range questions {
				p.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
				if i == maxReplies {
					want(maxReplies, "at once")
				}
			}
			want(maxReplies, "with those that wait")
			time.Sleep(replyTimeout)
			want(2*maxReplies, "after the timeout")
			close(held)
			want(min(questions, maxReplies+maxQuestions), "when they are taken")
			a.Close()
		})
	}
}
