package speculate

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Worker observes the calls of sessions and decides which calls to prefetch. Calls never wait
// for it: methods enqueue events, and one goroutine handles them in order of arrival. It has
// more than 25 methods, as each event has one that enqueues it and one that handles it.
type Worker struct {
	Setup
	Scheduler *Scheduler

	ids     atomic.Uint64 // IDs of observed calls and of prefetches
	queue   queue
	faults  faults
	figures figures

	// Used only by the worker's goroutine.
	current   *Client // session whose event is being handled; nil if it belongs to none
	upstreams upstreams
	sessions  map[*Client]*sessionState // those that made calls
}

// Setup is the configuration of a worker.
type Setup struct {
	Log     *slog.Logger
	Rules   func() *Rules                   // returns the current rules
	Waited  func(host string) time.Duration // total time that calls to a host have waited for prefetches
	Decided func(Decision)                  // called with each decision once its value is known
	Removed func(key string) bool           // reports whether an upstream is no longer configured
}

// Client is a client's session.
type Client struct {
	Name        string          // in the record
	ID          uint64          // random; distinguishes sessions in learned state, and is used nowhere else
	Multiplexed bool            // calls come from several independent clients
	Context     context.Context // ends with the session

	disabled    atomic.Bool // prediction panicked on it, so its calls are not observed any more
	missedWrite atomic.Bool // an unobserved write is queued
}

// Upstream is a session's lease on an upstream.
type Upstream struct {
	Name     string
	Key      string // identifies the upstream in learned state
	Instance uint64 // process or connection
	Shared   bool   // other sessions use the instance too
	Remote   bool   // reached over HTTP

	Exclusive bool    // only calls through the proxy change what it reads
	Storage   Storage // of learned state; nil if none is kept
	Offered
}

// Offered describes an upstream's current tools.
type Offered interface {
	Tools() []string // the listed tools
	Tool(name string) predict.Tool
	Host() string // default host of its calls
	// MayPrefetch returns the reason why the candidate must not be prefetched, if any.
	MayPrefetch(c *predict.Candidate) Verdict
	// Fetch starts a candidate's call and returns at once. The answer goes into the store, and
	// to the client only if the client makes the same call. begun is nil if nothing was started.
	Fetch(ctx context.Context, f *Fetch) (begun *Begun, why string)
	// Useless records that none of its tools may ever be prefetched.
	Useless()
}

// Storage reads and writes the learned state of an upstream: merge gets the stored state and
// returns the state to store. Other processes are locked out meanwhile.
type Storage func(merge func(stored State) (State, error)) error

// Rules configure prefetching. With the zero value nothing is prefetched or learned.
type Rules struct {
	Mode     string        // "off" (the default), "shadow" (predict and score only) or "on"
	Delivery string        // "silent" (the default), "hint" or "inline"
	Wait     time.Duration // how long an answer may wait for answers inlined in it
	MaxAge   time.Duration // of a prefetched answer (see Age)

	ExclusiveMaxAge time.Duration // if the upstream is exclusive; 0 for MaxAge

	PerSession int // concurrent prefetches of a session; default 3
	Total      int // of the process; default 16

	Budget         int           // tokens that the answers of one choice may take, and that one inlining may add
	MinProbability float64       // minimum for any prefetch
	InlineFrom     float64       // minimum probability for inlining
	Waste          time.Duration // hidden latency that offsets one wasted call
	SecondWorth    float64       // US dollars per hidden second
	Dollars        float64       // US dollars that one session's prefetches may cost

	ShadowLabels int  // labels before a learned follow-up is prefetched
	Learn        bool // learn follow-ups, besides the configured ones
}

// Off reports whether nothing is observed.
func (r *Rules) Off() bool { return r.Mode != "on" && r.Mode != "shadow" }

// Age is the maximum age of a prefetched answer whose tool has no freshness. exclusive says that
// only calls through the proxy change what its upstream reads.
func (r *Rules) Age(exclusive bool) time.Duration {
	if exclusive && r.ExclusiveMaxAge > 0 {
		return r.ExclusiveMaxAge
	}
	return r.MaxAge
}

// Slots returns the limits of concurrent prefetches.
func (r *Rules) Slots() Options { return Options{PerSession: r.PerSession, Total: r.Total} }

// Pick returns the limits of one choice. If answers only go into the store, each may take at most
// its slot's share of the budget.
func (r *Rules) Pick() enrich.Options {
	o := enrich.Options{Budget: r.Budget, MinProbability: r.MinProbability, Waste: r.Waste, SecondWorth: r.SecondWorth}
	if r.Delivery != "inline" {
		o.Silent = true
		o.MaxTokens = r.Budget / cmp.Or(max(r.PerSession, 0), 3)
	}
	return o
}

// Trace is a W3C trace context, or the zero value.
type Trace struct{ Parent, State string }

// Call is a client's tools/call, or a prefetch. It is immutable.
type Call struct {
	ID        uint64 // unique among observed calls; 0 if not observed
	Client    *Client
	Upstream  *Upstream
	Seq       int64 // sequence number in the record
	Trace     Trace // of its requests
	At        time.Time
	Turn      int // of the model
	Tool      string
	Arguments []byte // canonical if Key is set; nil if too long for a key
	Key       call.Key
	Effect    call.Effect
	Host      string
	Prefetch  bool
}

// Result is the end of a call.
type Result struct {
	At         time.Time
	Complete   bool             // other calls may get the same answer
	Body       []byte           // borrowed
	Took       time.Duration    // from sending to answer; 0 if not sent or not answered
	Unloaded   time.Duration    // lower bound of the latency without other calls; 0 if unknown
	Comparison dedup.Comparison // against the prefetched answer
	JoinWait   time.Duration    // wait for a prefetch that exceeded its join timeout
}

// NewWorker returns a worker. Its goroutine starts with the first event.
func NewWorker(s Setup) *Worker {
	w := &Worker{
		Setup: s, Scheduler: New(Options{}), faults: faults{log: s.Log},
		sessions: make(map[*Client]*sessionState),
	}
	w.upstreams = upstreams{
		log: s.Log, rules: s.Rules, scheduler: w.Scheduler, faults: &w.faults, tools: new(learnedTools), byKey: make(map[string]*upstreamState),
		enqueue: func(do func()) { w.queue.add(task{required: true, do: do}) },
	}
	w.figures.declined = make(map[enrich.Reason]int64)
	w.queue = newQueue(w.run, func(wait bool) { w.faults.protect(func() { w.upstreams.saveChanged(wait) }) })
	return w
}

// maxRead is the number of bytes of a result that are read.
const maxRead = 256 << 10

// Wants reports whether the worker will observe a call of a client now.
func (w *Worker) Wants(r *Rules, c *Client) bool {
	return !r.Off() && !c.disabled.Load() && w.queue.hasTime(time.Now())
}

// Changed reports a write that is not observed: it withdraws the predictions for the session.
func (w *Worker) Changed(r *Rules, c *Client, e call.Effect) {
	if r.Off() || c.disabled.Load() || !e.Changes() || c.missedWrite.Swap(true) {
		return
	}
	w.queue.add(task{required: true, do: func() {
		c.missedWrite.Store(false)
		if s := w.sessions[c]; s != nil {
			w.current = c
			s.invalidate(func(*pairState, string, string) bool { return true })
		}
	}})
}

// Prompted reports the prompt of a session's user, which replaces the session's earlier intent.
func (w *Worker) Prompted(r *Rules, c *Client, words string) {
	if r.Off() {
		return
	}
	w.queue.add(task{bytes: len(words), do: func() {
		w.current = c
		if s := w.watch(c); s != nil {
			s.prompt, s.intent = words[:min(len(words), promptBytes)], nil
		}
	}})
}

// Called reports a call for which Wants returned true.
func (w *Worker) Called(c *Call) {
	c.ID = w.ids.Add(1)
	w.queue.add(task{bytes: len(c.Arguments), do: func() { w.called(c) }})
}

// Answered reports the end of a call, and returns whether it will be handled. If reply is not nil,
// the worker sends on it what it started because of the answer, and closes it. The result of a
// comparison is always handled, as it may show that a tool must not be prefetched.
func (w *Worker) Answered(c *Call, r Result, reply chan<- Announcement) bool {
	a := answer{Result: r, call: c, length: len(r.Body), reply: reply}
	a.Body = nil
	if n := min(a.length, maxRead); c.ID != 0 && r.Complete && w.queue.hasRoom(n) {
		a.text = bytes.Clone(r.Body[:n])
	}
	return w.queue.add(task{
		bytes: len(a.text), urgent: reply != nil, required: r.Comparison != dedup.NotCompared || r.JoinWait > 0,
		do: func() { w.answered(&a) },
	})
}

// SessionEnded reports the end of a session and of its prefetches. It calls then after the last
// event of the session.
func (w *Worker) SessionEnded(c *Client, then func()) {
	queued := w.queue.add(task{required: true, do: func() {
		defer then() // even if the worker panics
		w.leave(c)
	}})
	if !queued {
		then()
	}
}

// UpstreamsChanged drops the state of upstreams that are no longer configured.
func (w *Worker) UpstreamsChanged() {
	w.queue.add(task{required: true, do: func() { w.upstreams.forget(w.Removed) }})
}

// LeaseEnded drops an instance that ends with its lease. What was learned of its concurrency is
// kept with the upstream.
func (w *Worker) LeaseEnded(up *Upstream) {
	if !up.Shared && !w.queue.add(task{required: true, do: func() { w.upstreams.left(up) }}) {
		w.Scheduler.RemoveInstance(up.Instance)
	}
}

// Save saves learned state, and returns when that is done.
func (w *Worker) Save() { w.queue.save() }

// Close handles the remaining events, saves learned state and stops the worker.
func (w *Worker) Close() {
	if !w.queue.close() {
		w.Log.Warn("recently learned state is not saved: writing it takes too long")
	}
}

// Protect calls an optional function, on any goroutine, and reports whether it returned without
// a panic.
func (w *Worker) Protect(what func()) bool { return w.faults.protect(what) }

// Announcement is what the worker started because of an answer.
type Announcement struct {
	Begun  []Started
	Intent []string // words for what the model is working on
}

// Started is a prefetch that was started.
type Started struct {
	predict.Candidate
	Query dedup.Query
	Ended <-chan struct{} // closed when its answer has arrived, or will not
}

// Fetch is a request to an upstream to fetch a candidate's call. It has more than 15 fields with
// those of its candidate.
type Fetch struct {
	*predict.Candidate
	Call        *Call         // as the worker knows it
	After       int64         // sequence number of the call whose answer it follows
	Trace       Trace         // of that call
	JoinTimeout time.Duration // how long a call waits for it, from its sending

	ClientRequest func(certain bool) // the server sends the client a request, for this call or, unless certain, perhaps another
	Done          func(FetchResult)  // it has returned, or will not
}

// Begun is a prefetch in progress.
type Begun struct {
	Fate func() call.Fate     // outcome so far
	Took func() time.Duration // duration of its fetch; 0 if unknown
}

// FetchResult is the result of a prefetch at its upstream.
type FetchResult struct {
	Body    []byte // borrowed
	Good    bool   // an answer that may be served
	Limited bool   // its host answered 429
	Crashed bool   // the server's process ended
	Bar     string // why the tool must not be prefetched again; "" if it may

	Displaced bool // answers that calls had asked for were evicted for it
}
