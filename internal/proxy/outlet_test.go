package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/valuemodel"
)

// outlet is a front.Outlet that keeps what it is sent.
type outlet struct {
	sending func(method string) error // called before a message other than an answer is kept, unless it is nil; an error drops it
	got     chan jsonrpc.Message
}

func newOutlet() *outlet { return &outlet{got: make(chan jsonrpc.Message, 4096)} }

func (o *outlet) Send(line []byte) error {
	m, err := jsonrpc.Parse(bytes.Clone(line))
	if err == nil && o.sending != nil {
		err = o.sending(m.Method)
	}
	if err == nil {
		o.got <- m
	}
	return err
}

func (o *outlet) Answer(line []byte) error {
	m, err := jsonrpc.Parse(bytes.Clone(line))
	o.got <- m
	return err
}

func (o *outlet) Connected() bool { return true }

// next returns the next message, or one without a method if none comes for a while.
func (o *outlet) next() jsonrpc.Message {
	select {
	case m := <-o.got:
		return m
	case <-time.After(patience):
		return jsonrpc.Message{}
	}
}

// begin opens a session and lists its tools, which means that the server has started.
func begin(t *testing.T, s *proxy.Server, client front.Client) (n front.Session, to *outlet) {
	t.Helper()
	to = newOutlet()
	client.Out = to
	n = proxy.Begin(s, client)
	for _, request := range []string{`"initialize","params":{"protocolVersion":"` + handshake + `","capabilities":` + able + `}`, `"tools/list"`} {
		accept(t, n, `{"jsonrpc":"2.0","id":1,"method":`+request+`}`, to)
		if m := to.next(); m.Result == nil {
			t.Fatalf("%s: got %s", request, m.Raw)
		}
	}
	return n, to
}

// accept passes a client's message to its session, as a transport does.
func accept(t *testing.T, n front.Session, line string, to front.Outlet) {
	t.Helper()
	if serve := n.Accept(context.Background(), message(t, line), to); serve != nil {
		go serve()
	}
}

// message parses a client's message.
func message(t *testing.T, line string) *front.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	full := &front.Message{Message: m, Index: revision.ParamsOf(m.Index(m.Params))}
	full.Client = full.Index.Client()
	return full
}

// changeable returns a proxy in front of a foe, and a function that changes the foe's tools.
func changeable(t *testing.T, era string) (d *ordeal, change func(tool string)) {
	srv := mcptest.New(mcptest.Options{Name: "foe", Era: era})
	f := newFoe(nil)
	f.rest = srv.Handler()
	return beset(t, f, withoutPrefetch(defaults(t))), func(tool string) {
		srv.SetTools(`{"name":"` + tool + `","inputSchema":{"type":"object"}}`)
		srv.Announce("notifications/tools/list_changed", "{}")
	}
}

// A change of a list while a listen request is acknowledged is notified after the acknowledgement.
func TestChangeWhileListenBegins(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, change := changeable(t, "handshake")
		n := proxy.Begin(d.proxy, front.Client{})
		defer n.End(front.ErrEnded)
		request := func(id, method, params string, to *outlet) {
			accept(t, n, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`+withMeta(params, able, "")+`}`, to)
		}
		listed, first, second := newOutlet(), newOutlet(), newOutlet()
		request("1", "tools/list", "{}", listed)
		if m := listed.next(); m.Result == nil {
			t.Fatalf("tools/list: got %s", m.Raw)
		}
		const tools = `{"notifications":{"toolsListChanged":true}}`
		request("2", "subscriptions/listen", tools, first)
		first.next() // the acknowledgement
		synctest.Wait()
		second.sending = func(method string) error {
			if method == "notifications/subscriptions/acknowledged" {
				change("fresh")
				first.next() // the other listener has been notified
			}
			return nil
		}
		request("3", "subscriptions/listen", tools, second)
		for _, want := range []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed"} {
			if m := second.next(); m.Method != want {
				t.Errorf("got %s, want %s", m.Raw, want)
			}
		}
	})
}

// If resources and their templates change, a listen request gets one list_changed for both.
func TestResourcesAndTemplatesChange(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, _ := changeable(t, "handshake")
		n := proxy.Begin(d.proxy, front.Client{})
		defer n.End(front.ErrEnded)
		to := newOutlet()
		for i, r := range [][2]string{
			{"resources/list", `{}`}, {"resources/templates/list", `{}`},
			{"subscriptions/listen", `{"notifications":{"resourcesListChanged":true}}`},
		} {
			accept(t, n, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i, r[0], withMeta(r[1], able, "")), to)
			if m := to.next(); m.Method == "" && !strings.Contains(string(m.Result), "foe://") {
				t.Fatalf("%s: got %s", r[0], m.Raw)
			}
		}
		synctest.Wait()
		o := withoutPrefetch(defaults(t))
		o.Upstreams = nil
		d.proxy.Apply(o)
		if m := to.next(); m.Method != "notifications/resources/list_changed" {
			t.Errorf("got %s", m.Raw)
		}
		if m := to.next(); m.Raw != nil {
			t.Errorf("then got %s", m.Raw)
		}
	})
}

// The resources of a listen request are watched with one request at a stateless server.
func TestListenToManyResources(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, listens := newFoe(nil).of("stateless"), make(chan string, 1000)
		f.first = func(_ http.ResponseWriter, m jsonrpc.Message) bool {
			if m.Method == "subscriptions/listen" {
				listens <- string(m.Params)
			}
			return false
		}
		d, to := beset(t, f, withoutPrefetch(defaults(t))), newOutlet()
		n := proxy.Begin(d.proxy, front.Client{})
		defer n.End(front.ErrEnded)
		request := func(id, method, params string) {
			accept(t, n, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`+withMeta(params, able, "")+`}`, to)
			to.next()
			synctest.Wait()
		}
		request("1", "tools/list", "{}")
		for len(listens) > 0 {
			<-listens // for changes of lists
		}
		var uris []string
		for i := range 100 {
			uris = append(uris, fmt.Sprintf("foe://%02d", i))
		}
		request("2", "subscriptions/listen", `{"notifications":{"resourceSubscriptions":`+string(jsonrpc.Marshal(uris))+`}}`)
		if n := len(listens); n != 1 {
			t.Fatalf("got %d requests, want 1", n)
		}
		if got := <-listens; strings.Count(got, "foe://") != 100 {
			t.Errorf("got %s", got)
		}
		accept(t, n, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, to)
		synctest.Wait()
		if n := len(listens); n != 1 {
			t.Fatalf("at its end, got %d requests, want 1", n)
		}
		if got := <-listens; strings.Contains(got, "foe://") {
			t.Errorf("at its end, got %s", got)
		}
	})
}

// A client that cannot be told of a changed list, as it does not read, is told later, once.
func TestChangeWhileClientDoesNotRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, change := changeable(t, "handshake")
		n, to := begin(t, d.proxy, front.Client{})
		defer n.End(front.ErrEnded)
		var tries atomic.Int64
		to.sending = func(string) error {
			if tries.Add(1) < 4 {
				return errors.New("the client does not read")
			}
			return nil
		}
		change("fresh")
		if m := to.next(); m.Method != "notifications/tools/list_changed" {
			t.Errorf("got %q", m.Raw)
		}
		if m := to.next(); m.Method != "" || tries.Load() != 4 {
			t.Errorf("after %d tries, want 4: got %q", tries.Load(), m.Raw)
		}
	})
}

// lossy is an outlet that keeps an answer but says that it was not delivered.
type lossy struct{ *outlet }

func (l lossy) Answer(line []byte) error {
	return errors.Join(l.outlet.Answer(line), errors.New("the client has gone"))
}

// A client gets no reference to an answer that did not reach it.
func TestNoReferenceToALostAnswer(t *testing.T) {
	o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"}))
	o.Repeat = "reference"
	n, to := begin(t, start(t, o), front.Client{ID: "session"})
	defer n.End(front.ErrEnded)
	var got []string
	for _, by := range []front.Outlet{lossy{to}, to, to} {
		n.Accept(context.Background(), message(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+toolCall("echo", longArguments())+`}`), by)()
		got = append(got, disposition(t, string(to.next().Result)))
	}
	if diff := cmp.Diff([]string{"fetched", "hit", "reference"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A call ends if its questions do not reach the client, which then has no handle to repeat the call with.
func TestLostQuestionsEndTheCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, to := beset(t, newFoe(interviewer), planned(t)), newOutlet()
		n := proxy.Begin(d.proxy, front.Client{})
		defer n.End(front.ErrEnded)
		for id, by := range []front.Outlet{lossy{to}, to} {
			params := toolCall("get", `{"tag":"1x1"}`)
			d.account.note("tools/call", params)
			accept(t, n, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, withMeta(params, able, "")), by)
			if m := to.next(); jsonrpc.Get(m.Result, "inputRequests") == nil {
				t.Fatalf("got %s, want a question", m.Raw)
			}
			synctest.Wait()
			if suspended := n.Pending(); suspended != (id == 1) || d.foe.there() != id {
				t.Errorf("questions delivered %v: the call is suspended: %v, and %d are open at the server", id == 1, suspended, d.foe.there())
			}
		}
	})
}

// A task is pending, which keeps its session, until its client has asked for its result, or for write_settle.
func TestTaskIsPending(t *testing.T) {
	for _, settle := range []time.Duration{time.Hour, time.Millisecond} {
		_, up := remote(t, mcptest.Options{Name: "a"})
		o := options(up)
		o.Dedup.WriteSettle = settle
		n, to := begin(t, start(t, o), front.Client{})
		defer n.End(front.ErrEnded)
		accept(t, n, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","task":{}}}`, to)
		to.next()
		if settle == time.Hour {
			if !n.Pending() {
				t.Error("a task that runs is not pending")
			}
			accept(t, n, `{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"a-0"}}`, to)
			to.next()
		}
		mcptest.Eventually(t, "the task has ended", func() bool { return !n.Pending() })
	}
}

// Of the requests that a client on stdio makes, or all clients over HTTP together, 2048 may be in flight.
// Further ones are refused until one has been answered. Other clients on stdio are not concerned.
func TestRequestsInFlightAreLimited(t *testing.T) {
	const limit, more = 2048, 20
	for name, test := range map[string]struct {
		client   front.Client
		sessions int
		others   bool // another client is served
	}{
		"stdio": {front.Client{NonBlocking: true}, 1, true},
		"HTTP":  {front.Client{}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f, starts := newFoe(nil), make(chan struct{})
				defer close(starts)
				f.rest = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-starts }) // so calls wait
				d := beset(t, f, withoutPrefetch(defaults(t)))
				ids := 0
				begin := func() (front.Session, *outlet) {
					n, to := proxy.Begin(d.proxy, test.client), newOutlet()
					accept(t, n, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":{}}}`, to)
					to.next()
					return n, to
				}
				read := func(n front.Session, to *outlet) {
					ids++
					accept(t, n, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":"foe://a"}}`, ids), to)
				}
				served := func(n front.Session, to *outlet) bool {
					accept(t, n, `{"jsonrpc":"2.0","id":"p","method":"ping"}`, to)
					return to.next().Error == nil
				}
				var sessions []front.Session
				var outlets []*outlet
				for range test.sessions {
					n, to := begin()
					sessions, outlets = append(sessions, n), append(outlets, to)
				}
				other, toOther := begin()
				for i := range limit + more {
					read(sessions[i%test.sessions], outlets[i%test.sessions])
				}
				synctest.Wait()
				refused := 0
				for _, to := range outlets {
					for len(to.got) > 0 {
						if m := <-to.got; strings.Contains(string(m.Error), "too many requests are in flight") {
							refused++
						} else {
							t.Errorf("got %s", m.Raw)
						}
					}
				}
				if refused != more {
					t.Errorf("%d requests were refused, want %d", refused, more)
				}
				if got := served(other, toOther); got != test.others {
					t.Errorf("another client is served: %v, want %v", got, test.others)
				}
				accept(t, sessions[0], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, outlets[0])
				synctest.Wait()
				if !served(sessions[0], outlets[0]) {
					t.Error("a request is refused although one has ended")
				}
				for _, n := range append(sessions, other) {
					n.End(front.ErrEnded)
				}
			})
		})
	}
}

// If a question cannot be sent to the client, its server's call ends with the reason.
func TestQuestionThatCannotBeSent(t *testing.T) {
	for _, era := range []string{"handshake", "stateless"} {
		n, to := begin(t, start(t, options(child(t, mcptest.Options{Name: "one", Era: era}))), front.Client{})
		defer n.End(front.ErrEnded)
		to.sending = func(method string) error {
			if method == "elicitation/create" {
				return errors.New("it does not read")
			}
			return nil
		}
		accept(t, n, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+toolCall("ask", `{"asks":[`+elicits+`]}`)+`}`, to)
		if m := to.next(); !strings.Contains(string(m.Raw), "the client cannot be reached: it does not read") {
			t.Errorf("%s server: got %s", era, m.Raw)
		}
	}
}

// The end of a session answers a call that its server has received, and says that it may have run. A later
// request is answered with the reason for the end.
func TestSessionEndsInACall(t *testing.T) {
	for _, why := range []error{front.ErrEnded, front.ErrShutdown} {
		for _, meta := range []string{`{"name":"wait"}`, withMeta(`{"name":"wait"}`, able, "")} {
			b, up := newBench(t, "a")
			n, to := begin(t, start(t, options(up)), front.Client{})
			accept(t, n, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+meta+`}`, to)
			await(t, b.started)
			n.End(why)
			if m := to.next(); !strings.Contains(string(m.Result), why.Error()+"; the call may have run") {
				t.Errorf("%v: got %s", why, m.Raw)
			}
			accept(t, n, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":`+meta+`}`, to)
			if m := to.next(); !strings.Contains(string(m.Error), why.Error()) {
				t.Errorf("%v: a later request got %s", why, m.Raw)
			}
		}
	}
}

// subscriber begins a session at a server that passes each subscription to refuse, and accepts it if that
// returns false. The server has started.
func subscriber(t *testing.T, refuse func(w http.ResponseWriter, m jsonrpc.Message) bool) (n front.Session, to *outlet, srv *mcptest.Server) {
	t.Helper()
	f := newFoe(nil)
	srv = mcptest.New(mcptest.Options{Name: "foe"})
	f.rest = srv.Handler()
	f.first = func(w http.ResponseWriter, m jsonrpc.Message) bool {
		return m.Method == "resources/subscribe" && refuse(w, m)
	}
	n, to = begin(t, beset(t, f, withoutPrefetch(defaults(t))).proxy, front.Client{})
	return n, to, srv
}

// A client that has cancelled a subscription is not subscribed once the server has refused that.
func TestCancelledSubscriptionIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		reply := make(chan struct{})
		n, to, _ := subscriber(t, func(w http.ResponseWriter, m jsonrpc.Message) bool {
			<-reply
			w.Header().Set("Content-Type", "application/json")
			w.Write(jsonrpc.AppendError(nil, m.ID, []byte(`{"code":-32002,"message":"no such resource"}`)))
			return true
		})
		defer n.End(front.ErrEnded)
		const subscribe = `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"foe://a"}}`
		accept(t, n, subscribe, to)
		synctest.Wait()
		accept(t, n, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, to)
		synctest.Wait()
		close(reply)
		synctest.Wait()
		accept(t, n, subscribe, to)
		if m := to.next(); jsonrpc.Text(m.Error, "message") != "no such resource" {
			t.Errorf("subscribed again: got %s, want the refusal", m.Raw)
		}
	})
}

// A client is told why a server refuses a subscription, and is then not subscribed.
func TestRefusedSubscription(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, to, srv := subscriber(t, func(w http.ResponseWriter, m jsonrpc.Message) bool {
			if !strings.Contains(string(m.Params), "foe://no") {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.Write(jsonrpc.AppendError(nil, m.ID, []byte(`{"code":-32002,"message":"no such resource","data":{"uri":"foe://no"}}`)))
			return true
		})
		defer n.End(front.ErrEnded)
		for id, uri := range []string{"foe://no", "foe://yes"} {
			accept(t, n, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, id+2, uri), to)
			m := to.next()
			if refused := jsonrpc.Text(m.Error, "message") == "no such resource" && jsonrpc.Get(m.Error, "data") != nil; refused != (uri == "foe://no") {
				t.Errorf("%s: got %s", uri, m.Raw)
			}
		}
		for _, uri := range []string{"foe://no", "foe://yes"} {
			srv.Announce("notifications/resources/updated", fmt.Sprintf(`{"uri":%q}`, uri))
		}
		if m := to.next(); m.Method != "notifications/resources/updated" || jsonrpc.Text(m.Params, "uri") != "foe://yes" {
			t.Errorf("got %s, want an update of foe://yes", m.Raw)
		}
	})
}
