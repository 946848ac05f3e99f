package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

// foe is an upstream over HTTP that answers each tools/call as a test specifies, and records the
// calls. A small real server answers all other requests.
type foe struct {
	serve func(v *visit) reply // returns when the call is to be answered; nil answers at once
	tools []string             // raw list items
	rest  http.Handler
	first func(w http.ResponseWriter, m jsonrpc.Message) (done bool) // called with each message, unless it is nil

	mu     sync.Mutex
	visits []*visit // in order of arrival
	open   []*visit // not answered yet
	came   int64    // number of visits
}

// visit is a tools/call as the server received it.
type visit struct {
	ctx       context.Context // done when the response is not wanted any more
	cancel    context.CancelFunc
	session   string
	id        string // raw, of the request
	tool      string
	arguments string
	early     bool // marked as a prefetch
	came      time.Time
	worked    time.Time // start of the work on it, if the test sets it
	went      time.Time // end; zero while it is open
	beside    int       // number of open visits at its arrival, including itself
	sort      string    // set by the test, for how it was answered
}

// reply is the answer to a visit.
type reply struct {
	result     string // raw
	status     int    // HTTP status if not 200; then there is no result
	retryAfter string // Retry-After header; "" for none
	fault      string // raw error object instead of a result
	cut        bool   // the connection breaks
	asks       string // question that the small real server asks first
}

// newFoe returns a server with tools that list the items of a page, return an item, and change
// one.
func newFoe(serve func(*visit) reply, listed ...string) *foe {
	f := &foe{serve: serve, tools: listed}
	if listed == nil {
		f.tools = tools("list", "get", "write")
	}
	f.rest = mcptest.New(mcptest.Options{Name: "foe", Tools: f.tools}).Handler()
	return f
}

// perPage is the number of items in a list.
const perPage = 3

// told returns the result of a call: the items of a page, or one item.
func (v *visit) told() string {
	var text string
	switch page := jsonrpc.Get([]byte(v.arguments), "page"); {
	case v.tool == "list" && page != nil:
		var things []string
		for i := range perPage {
			things = append(things, fmt.Sprintf(`{"n":%s%d}`, page, i+1))
		}
		text = `{"things":[` + strings.Join(things, ",") + `]}`
	default:
		text = v.tool + " " + v.arguments
	}
	return said(text)
}

// said returns a result with a text.
func said(text string) string {
	return `{"content":[{"type":"text","text":` + string(jsonrpc.AppendString(nil, text)) + `}]}`
}

// complained returns a result with isError.
func complained(text string) string {
	return `{"content":[{"type":"text","text":` + string(jsonrpc.AppendString(nil, text)) + `}],"isError":true}`
}

// sleeps waits for d, or until the response is not wanted any more. It reports whether it waited
// for all of d.
func (v *visit) sleeps(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-v.ctx.Done():
		return false
	}
}

// after answers each call after a time of its own.
func after(d func(v *visit) time.Duration) func(*visit) reply {
	return func(v *visit) reply {
		v.sleeps(d(v))
		return reply{result: v.told()}
	}
}

// taking answers each call after d.
func taking(d time.Duration) func(*visit) reply {
	return after(func(*visit) time.Duration { return d })
}

// delaying answers some calls after d, and others at once.
func delaying(some func(*visit) bool, d time.Duration) func(*visit) reply {
	return after(func(v *visit) time.Duration {
		if some(v) {
			return d
		}
		return 0
	})
}

func isGet(v *visit) bool      { return v.tool == "get" }
func isPrefetch(v *visit) bool { return v.early }

func (f *foe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has disconnected
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m, err := jsonrpc.Parse(body)
	if err == nil && m.Method == "notifications/cancelled" {
		f.cancelled(r.Header.Get("Mcp-Session-Id"), string(jsonrpc.Get(m.Params, "requestId")))
	}
	if f.first != nil && f.first(w, m) {
		return
	}
	if r.Method != http.MethodPost || err != nil || tool(m) == "" {
		f.rest.ServeHTTP(w, r)
		return
	}
	v := f.arrives(r, m)
	answer := reply{result: v.told()}
	if f.serve != nil {
		answer = f.serve(v)
	}
	defer f.leaves(v)
	switch {
	case answer.asks != "":
		params := jsonrpc.Set(m.Params, "name", []byte(`"ask"`))
		params = jsonrpc.Set(params, "arguments", []byte(`{"asks":[`+answer.asks+`]}`))
		r.Body = io.NopCloser(bytes.NewReader(jsonrpc.AppendRequest(nil, m.ID, m.Method, params)))
		f.rest.ServeHTTP(w, r)
	case v.ctx.Err() != nil:
	case answer.cut:
		panic(http.ErrAbortHandler)
	case answer.fault != "":
		w.Header().Set("Content-Type", "application/json")
		w.Write(jsonrpc.AppendError(nil, m.ID, []byte(answer.fault)))
	case answer.status != 0:
		if answer.retryAfter != "" {
			w.Header().Set("Retry-After", answer.retryAfter)
		}
		http.Error(w, "not now", answer.status)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(answer.result)))
	}
}

func (f *foe) arrives(r *http.Request, m jsonrpc.Message) *visit {
	purpose, _ := jsonrpc.String(jsonrpc.Get(jsonrpc.Get(m.Params, "_meta"), "mcpschedd/purpose"))
	ctx, cancel := context.WithCancel(r.Context())
	v := &visit{
		ctx: ctx, cancel: cancel, session: r.Header.Get("Mcp-Session-Id"), id: string(m.ID), tool: tool(m),
		arguments: string(jsonrpc.Get(m.Params, "arguments")), early: purpose == "prefetch", came: time.Now(),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.visits = append(f.visits, v)
	f.came++
	f.open = append(f.open, v)
	v.beside = len(f.open)
	return v
}

// cancelled ends the wait of a visit whose request was cancelled.
func (f *foe) cancelled(session, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.open {
		if v.session == session && v.id == id {
			v.cancel()
		}
	}
}

func (f *foe) leaves(v *visit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v.went = time.Now()
	for i, o := range f.open {
		if o == v {
			f.open = append(f.open[:i], f.open[i+1:]...)
			return
		}
	}
}

// ledger returns all visits so far.
func (f *foe) ledger() []visit {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]visit, len(f.visits))
	for i, v := range f.visits {
		out[i] = *v
	}
	return out
}

// note sets the sort of a visit.
func (f *foe) note(v *visit, sort string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v.sort = sort
}

// early returns the visits of prefetches.
func early(ledger []visit) (out []visit) {
	for _, v := range ledger {
		if v.early {
			out = append(out, v)
		}
	}
	return out
}

// atOnce returns the maximum number of concurrent prefetches. A prefetch that ended at the same
// instant in which another one came does not count.
func atOnce(ledger []visit) (n int) {
	prefetches := early(ledger)
	for _, v := range prefetches {
		there := 0
		for _, o := range prefetches {
			if !o.came.After(v.came) && (o.went.IsZero() || o.went.After(v.came)) {
				there++
			}
		}
		n = max(n, there)
	}
	return n
}
