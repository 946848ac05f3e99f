// Package speculate prefetches: it makes calls before a client makes them.
//
// The worker observes the calls and results of sessions. It predicts the next calls (predict),
// checks which may be made now, picks those that are worth it (enrich), starts them within the
// limits of its scheduler, and continues when they return:
//
//	w := speculate.NewWorker(speculate.Setup{Log: log, Rules: rules, ReadWait: limits.ReadHarm, Decided: record, …})
//	w.Called(call)
//	w.Answered(call, result, nil)
//	w.SessionEnded(client, func() {})
//	w.Close()
//
// The scheduler limits the prefetches in progress. A prefetch holds only a claim, and each claim
// ends: it takes a slot when the prefetch starts and releases it when the call returns, or at a
// deadline. A call that has joined is not affected, as it holds the flight itself. The outcomes
// of prefetches move a session, and the host that they went to, between five levels, from more
// waste than configured down to shadows, which only record what would have been started. Harm lowers a
// level at once. An upstream that is not known to be parallel gets one prefetch at a time.
//
// The chooser and the scheduler get the time as an argument, so that recorded sessions can be replayed.
// Only the deadline of a prefetch runs in real time there.
package speculate

import (
	"context"
	"sync/atomic"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Rules configure prefetching. With the zero value nothing is prefetched or learned. The tags are
// the keys of [enrichment] in the configuration, with its defaults.
type Rules struct {
	Mode     string        `toml:"mode" default:"on" enum:"off|shadow|on"`              // shadow: predict and score only
	Delivery string        `toml:"delivery" default:"silent" enum:"silent|hint|inline"` // "" is "silent"
	Wait     time.Duration `toml:"prefetch_timeout_ms" unit:"1ms" min:"0"`              // how long an answer may wait for answers inlined in it
	MaxAge   time.Duration `toml:"max_age" default:"30s"`                               // of a prefetched answer (see Age)

	MaxAgeSet bool // MaxAge is configured, be it to its default

	PerSession int `toml:"max_parallel_prefetches" default:"3" min:"1"` // concurrent prefetches of a session
	Total      int `toml:"max_parallel_total" default:"16" min:"1"`     // of all sessions of a scheduler

	Budget         int           `toml:"prefetch_budget_tokens" default:"8000" min:"0"`         // tokens that the prefetches after one answer, or one inlining, may take
	MinProbability float64       `toml:"min_probability" default:"0.30" min:"0" max:"1"`        // minimum for any prefetch
	InlineFrom     float64       `toml:"inline_min_probability" default:"0.80" min:"0" max:"1"` // minimum probability for inlining
	Waste          time.Duration `toml:"waste_ms" unit:"1ms" default:"50" min:"0"`              // hidden latency that offsets one wasted call
	SecondWorth    float64       `toml:"second_worth_usd" default:"0.01" min:"0"`               // US dollars per hidden second
	Dollars        float64       `toml:"max_dollars_per_session" min:"0"`                       // US dollars that one session's prefetches may cost

	ShadowLabels int  `toml:"shadow_labels" default:"5" min:"1"` // labels before a learned follow-up is prefetched
	Learn        bool `toml:"learn" default:"true"`              // learn follow-ups, besides the configured ones
}

// The default of MaxAge, and what it means for an exclusive upstream.
const (
	defaultMaxAge   = 30 * time.Second
	exclusiveMaxAge = 5 * time.Minute
)

// Off reports whether nothing is observed.
func (r *Rules) Off() bool { return r.Mode != "on" && r.Mode != "shadow" }

// Age is the maximum age of a prefetched answer if its tool has no freshness. exclusive says that
// only calls through the proxy change what its upstream reads. There the default is longer.
func (r *Rules) Age(exclusive bool) time.Duration {
	if exclusive && !r.MaxAgeSet && r.MaxAge == defaultMaxAge {
		return exclusiveMaxAge
	}
	return r.MaxAge
}

// Slots returns the configured slots.
func (r *Rules) Slots() Slots { return Slots{PerSession: r.PerSession, Total: r.Total} }

// pickOptions returns the limits of one choice. If answers only go into the store, each counts for
// at most its slot's share of the budget.
func (r *Rules) pickOptions() enrich.Options {
	o := enrich.Options{
		Budget: r.Budget, MinProbability: r.MinProbability, Waste: r.Waste, SecondWorth: r.SecondWorth,
	}
	if r.Delivery != "inline" {
		o.Silent = true
		o.MaxTokens = r.Budget / r.Slots().withDefaults().PerSession
	}
	return o
}

// Session is a session of a client.
type Session struct {
	Name        string          // in the record
	ID          uint64          // random; distinguishes sessions in learned state, and is used nowhere else
	Multiplexed bool            // calls come from several independent clients
	Context     context.Context // ends with the session

	disabled        atomic.Bool // not observed any more: it has ended, or prediction panicked on it
	unobservedWrite atomic.Bool // an unobserved write is queued
}

// Lease is a session's lease on an upstream.
type Lease struct {
	Name     string
	Key      string // identifies the upstream in learned state
	Instance uint64 // process or connection
	Remote   bool   // reached over HTTP, so its prefetches are assumed to delay no call until it is seen to be serial

	Exclusive bool    // only calls through the proxy change what it reads
	Storage   Storage // of learned state; nil if none is kept
	Source
}

// Source has an upstream's current tools, and makes calls to them.
type Source interface {
	Tools() []string // the listed tools
	Tool(name string) predict.Tool
	Host() string // default host of its calls
	// MayPrefetch returns the reason why the candidate must not be prefetched, if any.
	MayPrefetch(c *predict.Candidate) Eligibility
	// Fetch starts a candidate's call and returns at once. The answer goes into the store, and
	// to the client only if the client makes the same call. fate returns the outcome so far, and
	// takes no lock; it is nil if nothing was started. The call is cancelled when ctx ends, unless
	// a client's call has joined it.
	Fetch(ctx context.Context, f *Fetch) (fate func() call.Fate, why enrich.Reason)
	// NoteNothingToPrefetch records that none of its tools may ever be prefetched.
	NoteNothingToPrefetch()
}

// Storage reads and writes the learned state of an upstream: merge gets the stored state and
// returns the state to store. Other processes are locked out meanwhile.
type Storage func(merge func(stored State) (State, error)) error

// State is the stored state of an upstream. State of another version than LearnedVersion is ignored.
type State = predict.State

const LearnedVersion = predict.StateVersion

// AnswersDiffer is why a state bars a tool that gave different answers to two equal calls.
const AnswersDiffer = predict.AnswersDiffer

// Trace is a W3C trace context, or the zero value.
type Trace struct{ Parent, State string }

// Call is a client's tools/call, or a prefetch. Only the worker sets its ID, and Claim.
type Call struct {
	ID        uint64 // unique among observed calls; 0 if not observed
	Session   *Session
	Lease     *Lease
	Seq       int64 // sequence number in the record
	Trace     Trace // of its requests; of a prefetch, that of the call that it follows
	At        time.Time
	Turn      int // of the model
	Tool      string
	Arguments []byte // canonical if Key is set; nil if too long for a key
	Key       call.Key
	Effect    call.Effect
	Host      string
	Claim     *Claim // of a prefetch; nil for a client's call
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

// Eligibility says whether a candidate may be prefetched now, and what is known about it before.
type Eligibility struct {
	Query     dedup.Query
	Host      string        // its limits apply
	Reason    enrich.Reason // why it must not be prefetched now; "" if it may
	Settle    time.Duration // with enrich.Settling: after how long it is worth checking again
	FileBytes int           // size of the file that it reads; 0 for none
}

// Fetch is a request to an upstream to fetch a candidate's call. It has more than 15 fields
// because it embeds its candidate.
type Fetch struct {
	*predict.Candidate
	Query       dedup.Query
	Ended       chan struct{} // closed when its answer has arrived, or will not
	Call        *Call         // as the worker knows it
	After       int64         // sequence number of the call that it follows
	JoinTimeout time.Duration // how long a call waits for it, from its sending

	ClientRequest func(certain bool) // the server asks the client; unless certain, perhaps for another call
	Done          func(FetchResult)  // it has returned, or will not
}

// FetchResult is the result of a prefetch at its upstream.
type FetchResult struct {
	Body    []byte // borrowed
	Good    bool   // an answer that may be served
	Limited bool   // its host answered 429
	Crashed bool   // the server's process ended
	Bar     string // why the tool must not be prefetched again; "" if it may

	Displaced bool // answers that calls had fetched were evicted for it
}

// Reply is what the worker started because of an answer.
type Reply struct {
	Begun  []*Fetch
	Intent []string // words for what the model is working on
}
