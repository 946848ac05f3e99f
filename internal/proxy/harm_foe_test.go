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

// foe is an upstream over HTTP that does with each tools/call what a test wants,
// and the ledger of those calls. Whatever else it is asked a small real server
// answers.
type foe struct {
	serve func(v *visit) reply // waits as long as the call takes; nil: it takes no time
	tools []string             // raw, as they are listed; nil: see newFoe
	rest  http.Handler

	mu     sync.Mutex
	visits []*visit // in the order in which they came
	open   []*visit // those that are there
	came   int64    // visits so far
}

// visit is one tools/call as its server saw it.
type visit struct {
	ctx        context.Context // ends when its caller waits no longer
	session    string
	tool       string
	arguments  string
	early      bool // it says that it is a prefetch
	came       time.Time
	worked     time.Time // when work on it began, where a test says so
	went       time.Time // zero: it is there
	beside     int       // calls that were there when it came, itself among them
	prefetches int       // of those: made early
	sort       string    // what a test notes of how it was answered
}

// reply is how a visit is answered.
type reply struct {
	result     string // raw
	status     int    // of HTTP, where it is not 200: then there is no result
	retryAfter string // the header beside it; "": none
	fault      string // a raw error object, in place of a result
	cut        bool   // the connection breaks off
	asks       string // a question: the small real server asks it, and answers with what was said
}

// newFoe makes a server that lists things by the page, shows one, and can be told
// to change one.
func newFoe(serve func(*visit) reply, tools ...string) *foe {
	f := &foe{serve: serve, tools: tools}
	if tools == nil {
		for _, name := range []string{"list", "get", "write"} {
			f.tools = append(f.tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		}
	}
	f.rest = mcptest.New(mcptest.Options{Name: "foe", Tools: f.tools}).Handler()
	return f
}

// perPage is how many things a list has.
const perPage = 3

// told is what there is to say to a call: the things of a page, or one thing.
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

// said is a result that says something.
func said(text string) string {
	return `{"content":[{"type":"text","text":` + string(jsonrpc.AppendString(nil, text)) + `}]}`
}

// complained is a result that says that the call failed.
func complained(text string) string {
	return `{"content":[{"type":"text","text":` + string(jsonrpc.AppendString(nil, text)) + `}],"isError":true}`
}

// sleeps waits as long as said, or until the caller does not; it says whether it
// slept through.
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

func (f *foe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m, err := jsonrpc.Parse(body)
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
	v := &visit{
		ctx: r.Context(), session: r.Header.Get("Mcp-Session-Id"), tool: tool(m),
		arguments: string(jsonrpc.Get(m.Params, "arguments")), early: purpose == "prefetch", came: time.Now(),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.visits = append(f.visits, v)
	f.came++
	f.open = append(f.open, v)
	v.beside = len(f.open)
	for _, o := range f.open {
		if o.early {
			v.prefetches++
		}
	}
	return v
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

// ledger is every visit so far.
func (f *foe) ledger() []visit {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]visit, len(f.visits))
	for i, v := range f.visits {
		out[i] = *v
	}
	return out
}

// note remembers how a visit was answered.
func (f *foe) note(v *visit, sort string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v.sort = sort
}

// early are the visits of prefetches.
func early(ledger []visit) (out []visit) {
	for _, v := range ledger {
		if v.early {
			out = append(out, v)
		}
	}
	return out
}

// atOnce is how many prefetches were there at the same time at most. One that went in
// the moment in which another came was not.
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
