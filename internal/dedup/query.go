package dedup

import (
	"math"
	"time"

	"mcpschedd/internal/call"
)

// Query is one call that may be answered without its upstream.
type Query struct {
	Key       call.Key
	Places    []call.Place // what its answer depends on; not changed afterwards
	SharedKey string       // under which other replicas may have the answer; "": it is not theirs
	Reuse     Reuse
	Delivered *Delivered  // of the client that asks; nil: it is not known which one does
	Number    call.Number // of a call that compares, for [Prefetch.By]; of a prefetch its own
}

// Use says how long an answer may stand in for a new one. With the zero value it
// never may, except for calls that are made at the same time.
type Reuse struct {
	Pure        bool                   // until something changes a place
	Freshness   time.Duration          // since the fetch began; 0: an answer that a call asked for is never served again, a prefetched one once
	MaxAge      time.Duration          // of a prefetched one where Freshness is 0; 0: it is not kept
	Volatile    bool                   // no prefetch may answer it
	File        string                 // absolute path of what the answer depends on besides; "": nothing
	Repeats     int                    // after so many identical answers in a row a back-off is hinted at; 0: never
	BackOff     bool                   // and the next identical call within that time is served the stored one
	CompareOnly bool                   // what was prefetched does not answer the call, but is compared with what that fetches
	Equal       func(a, b []byte) bool // whether two answers that differ say the same; nil: they do not

	JoinTimeout time.Duration // of a prefetch: how long from its sending a call waits for it, before it is told [ErrJoinTimeout]; 0: for ever
}

// Lends reports whether an answer that a call asked for may be served to others at all.
func (u Reuse) Shareable() bool { return (u.Pure || u.Freshness > 0) && u.File == "" }

// tries reports whether the call is not answered by what was prefetched.
func (q *Query) comparesOnly(g *Prefetch) bool {
	return g != nil && q.Reuse.CompareOnly // the trial rule
}

// together is how far apart two calls may begin and still count as made at the
// same time, where no freshness says more.
const coalesceWindow = 100 * time.Millisecond

// admits reports whether an answer of that age may be served: one that was
// prefetched, and one that was asked for before.
func (u Reuse) admits(prefetched, used bool, age time.Duration) bool {
	switch {
	case prefetched && u.Volatile:
		return false
	case u.Pure:
		return true
	case prefetched && (used || u.MaxAge == 0) && u.Freshness == 0:
		return false
	case prefetched:
		return age <= u.ageLimit()
	}
	return age < u.Freshness
}

// lasts is how old an answer may be that was prefetched.
func (u Reuse) ageLimit() time.Duration {
	switch {
	case u.Pure:
		return math.MaxInt64
	case u.Freshness > 0:
		return u.Freshness
	}
	return u.MaxAge
}

// joins reports whether a call may wait for a fetch that began so long ago. asked
// is how long ago a call first asked for it; negative: none did.
func (u Reuse) mayJoin(prefetched bool, age, asked time.Duration) bool {
	if u.Freshness == 0 && asked >= 0 && asked < coalesceWindow && !(prefetched && u.Volatile) {
		return true
	}
	return u.admits(prefetched, asked >= 0, age)
}

// backsOff reports whether an answer that may not be served may have to be, to a
// client that keeps asking.
func (u Reuse) backsOff() bool { return u.BackOff && u.Repeats > 0 }

// Disposition is how a call came by its answer.
type Disposition string

// What a call can be answered from.
const (
	Hit     Disposition = "hit"     // the store
	Joined  Disposition = "joined"  // a fetch that had begun before
	Fetched Disposition = "fetched" // its own fetch
)

// Outcome is the answer to one call.
type Outcome struct {
	Body       []byte // of a hit or joined: not to be changed; nil where the fetcher has it
	Stateless  bool   // what was said of the body when it came
	How        Disposition
	Prefetched bool          // it was fetched, or began to be, before a call asked
	BackedOff  bool          // too old to be served, but to a client that keeps asking
	Age        time.Duration // since the fetch began
	Took       time.Duration // of a hit or joined: how long the fetch took, from its sending, or would have alone
	FirstUseOf *Prefetch     // of a hit or joined: what was prefetched, if the call is the first that is given it
	Comparison Comparison    // of a call that fetched: how its answer compares with what had been prefetched
	BackOff    time.Duration // until something new may be expected; 0: nothing is known
	Refetch    bool          // joined a fetch with an answer that no other call may have: to be fetched without the store
	Repeated   bool          // the client already holds these very bytes: a reference may stand for them
	Err        error         // why there is no answer: the cause of the context's end
}

// Waiter is one call that waits for its answer.
type Waiter struct {
	Done   func(Outcome)                      // called once, under no lock; maybe before Do returns, on its goroutine
	Notify func(method string, params []byte) // what the server says on the way; nil: not of interest
	Sent   func()                             // the prefetch that it waits for has been sent, where [Store.Do] says that it waits for that; nil: not of interest

	query  Query
	flight *Flight     // what it waits for; nil: nothing, or no longer. The store's mutex guards it
	stop   func() bool // stops watching its context and its join timeout
}
