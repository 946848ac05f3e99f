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

// Worker observes the calls of sessions and decides which to make early. Nothing on the
// path of a call waits for it: what it is told it queues, and one goroutine works that
// off, in the order in which it came. It has more than 25 methods: each thing that it may be told
// is one to queue it and one to work it off.
type Worker struct {
	Setup
	Scheduler *Scheduler

	ids     atomic.Uint64 // of the calls observed, and of prefetches
	queue   queue
	faults  faults
	figures figures

	// Of the worker's goroutine.
	current   *Client // for which it does what it does now; nil: for no one session
	upstreams upstreams
	sessions  map[*Client]*sessionState // those that made calls
}

// Setup is what a worker is given.
type Setup struct {
	Log     *slog.Logger
	Rules   func() *Rules                   // in force at this moment
	Waited  func(host string) time.Duration // what the calls at a host have waited for prefetches so far
	Decided func(Decision)                  // is told of each decision, once it is known what it was worth
	Removed func(key string) bool           // reports whether an upstream is configured no more
}

// Client is a client's session, as the worker knows it.
type Client struct {
	Name        string          // in the record
	ID          uint64          // by which it is learned which session made which call: a number that stands nowhere else
	Multiplexed bool            // its calls come from clients that know nothing of each other
	Context     context.Context // ends with the session

	disabled    atomic.Bool // prediction panicked over it: its calls are not observed any more
	missedWrite atomic.Bool // the worker is to hear of writes that it does not look at
}

// Upstream is a session's lease on an upstream.
type Upstream struct {
	Name     string
	Key      string // by which what is known of it is kept
	Instance uint64 // the process or connection
	Shared   bool   // other sessions use the instance too
	Remote   bool   // it is reached over HTTP

	Exclusive bool    // nothing but calls through the proxy changes what it reads
	Storage   Storage // nil: what is learned is not kept
	Offered
}

// Offered answers for an upstream's tools at this moment.
type Offered interface {
	Tools() []string // listed
	Tool(name string) predict.Tool
	Host() string // of its calls in general
	// MayPrefetch says what stands in the way of a candidate.
	MayPrefetch(c *predict.Candidate) Verdict
	// Fetch makes a candidate's call: its answer goes into the store, and to the client
	// only if that makes the same call. It returns at once; nil: nothing was begun, and why.
	Fetch(ctx context.Context, f *Fetch) (begun *Begun, why string)
	// Useless notes that none of its tools may ever be prefetched.
	Useless()
}

// Learned keeps what was learned of an upstream: merge is given what is stored
// and returns what is to be stored instead; other processes wait meanwhile.
type Storage func(merge func(stored State) (State, error)) error

// Rules say what is prefetched. With the zero value nothing is, and nothing is learned.
type Rules struct {
	Mode     string        // "off" (the default), "shadow": predict and score, but run nothing; "on"
	Delivery string        // "silent" (the default), "hint" or "inline"
	Wait     time.Duration // how long an answer may wait for what is inlined in it
	MaxAge   time.Duration // how old a prefetched answer may be (see Age)

	ExclusiveMaxAge time.Duration // the same, where the upstream is exclusive; 0: MaxAge

	PerSession int // prefetches under way at once; default 3
	Total      int // of the process; default 16

	Budget         int           // tokens that the answers of one choice may take, and that one inlining may add
	MinProbability float64       // floor under the gate
	InlineFrom     float64       // probability from which a prefetch is inlined
	Waste          time.Duration // hidden waiting that makes up for one wasted call
	SecondWorth    float64       // US dollars that hiding one second is worth
	Dollars        float64       // US dollars that the prefetches of one session may cost

	ShadowLabels int  // labels before a learned follow-up is run
	Learn        bool // follow-ups are learned, beside those that are configured
}

// Off reports whether nothing is observed.
func (r *Rules) Off() bool { return r.Mode != "on" && r.Mode != "shadow" }

// Age is how old a prefetched answer may be, where its tool has no freshness. exclusive:
// nothing but calls through the proxy changes what its upstream reads.
func (r *Rules) Age(exclusive bool) time.Duration {
	if exclusive && r.ExclusiveMaxAge > 0 {
		return r.ExclusiveMaxAge
	}
	return r.MaxAge
}

// Slots are the bounds of what runs at once.
func (r *Rules) Slots() Options { return Options{PerSession: r.PerSession, Total: r.Total} }

// Pick are the bounds of one choice. An answer that only goes into the store takes no more
// of the budget than its slot's share.
func (r *Rules) Pick() enrich.Options {
	o := enrich.Options{Budget: r.Budget, MinProbability: r.MinProbability, Waste: r.Waste, SecondWorth: r.SecondWorth}
	if r.Delivery != "inline" {
		o.Silent = true
		o.MaxTokens = r.Budget / cmp.Or(max(r.PerSession, 0), 3)
	}
	return o
}

// Trace is a W3C trace context; zero: there is none.
type Trace struct{ Parent, State string }

// Call is a tools/call of a client, or a prefetch. It does not change.
type Call struct {
	ID        uint64 // tells it from all others that are observed; 0: it is not
	Client    *Client
	Upstream  *Upstream
	Seq       int64 // in the record
	Trace     Trace // of which its requests are part
	At        time.Time
	Turn      int // of the model
	Tool      string
	Arguments []byte // canonical if it has a key; nil: longer than a key's may be
	Key       call.Key
	Effect    call.Effect
	Host      string
	Prefetch  bool // it is a prefetch
}

// Result is the end of a call.
type Result struct {
	At         time.Time
	Complete   bool             // another call could be given the same
	Body       []byte           // lent
	Took       time.Duration    // from its sending to its answer; 0: it was not sent, or not answered
	Unloaded   time.Duration    // that it would have taken at least had its server had no other call; 0: not known
	Comparison dedup.Comparison // how it compares with what had been prefetched
	JoinWait   time.Duration    // for a prefetch that took too long
}

// NewWorker makes a worker, whose goroutine begins with the first thing it is told.
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

// mostRead (bytes) is how much of a result is kept to be read.
const maxRead = 256 << 10

// Wants reports whether the worker looks at a call of a client now.
func (w *Worker) Wants(r *Rules, c *Client) bool {
	return !r.Off() && !c.disabled.Load() && w.queue.hasTime(time.Now())
}

// Changed is told of a write that the worker does not look at: whatever was expected of the
// session is taken back.
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

// Prompted is told what the user of a session asks for: what the model was after before counts
// no longer.
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

// Called is told of a call of a client that it wants to look at.
func (w *Worker) Called(c *Call) {
	c.ID = w.ids.Add(1)
	w.queue.add(task{bytes: len(c.Arguments), do: func() { w.called(c) }})
}

// Answered is told how a call has ended, and says whether the worker will look at it.
// reply is closed then, after it was sent what was begun because of the answer; nil:
// nothing waits for that. How an answer compares with what was prefetched is not left out,
// whatever call it belongs to: it may be what gives a tool away.
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

// SessionEnded is told that a session has ended, and its prefetches with it. then is
// called when the last has been said of it.
func (w *Worker) SessionEnded(c *Client, then func()) {
	kept := w.queue.add(task{required: true, do: func() {
		defer then() // whatever becomes of the worker's part
		w.leave(c)
	}})
	if !kept {
		then()
	}
}

// UpstreamsChanged has forgotten what is known of upstreams that are there no more.
func (w *Worker) UpstreamsChanged() {
	w.queue.add(task{required: true, do: func() { w.upstreams.forget(w.Removed) }})
}

// LeaseEnded forgets the instance of a lease, if it ends too, but for what it showed of its
// server.
func (w *Worker) LeaseEnded(up *Upstream) {
	if !up.Shared && !w.queue.add(task{required: true, do: func() { w.upstreams.left(up) }}) {
		w.Scheduler.RemoveInstance(up.Instance)
	}
}

// Save keeps what was learned so far, and returns when that is done.
func (w *Worker) Save() { w.queue.save() }

// Close ends the worker once it has seen what is left, and keeps what was learned.
func (w *Worker) Close() {
	if !w.queue.close() {
		w.Log.Warn("what was learned of late is not kept: a file does not answer")
	}
}

// Recovering does something that is optional, on any goroutine, and reports whether it
// came to its end.
func (w *Worker) Protect(what func()) bool { return w.faults.protect(what) }

// Announcement is what was begun because of an answer.
type Announcement struct {
	Begun  []Started
	Intent []string // what the model is after
}

// Started is a prefetch that has been begun.
type Started struct {
	predict.Candidate
	Query dedup.Query
	Ended <-chan struct{} // closed when its answer is there, or will not be
}

// Fetch is what is asked of an upstream: a candidate's call, and what is to be heard of it.
// It has more than 15 fields with those of its candidate.
type Fetch struct {
	*predict.Candidate
	Call        *Call         // as the worker knows it
	After       int64         // the call (Seq) whose answer it follows
	Trace       Trace         // of that call
	JoinTimeout time.Duration // how long a call waits for it, from its sending

	ClientRequest func(certain bool) // its server asks the client something, for this call or, if that is not certain, for another
	Done          func(FetchResult)  // it has come back, or will not
}

// Begun is a prefetch under way.
type Begun struct {
	Fate func() call.Fate     // what has become of it
	Took func() time.Duration // how long its fetch took; 0: not known
}

// Landing is what came of a prefetch at its upstream.
type FetchResult struct {
	Body    []byte // lent
	Good    bool   // it is an answer that may be served
	Limited bool   // its host refused it as one call too many
	Crashed bool   // its server's process ended
	Bar     string // why the tool must not be prefetched again; "": it may

	Displaced bool // answers that real calls had asked for gave way to it
}
