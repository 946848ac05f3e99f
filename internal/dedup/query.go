package dedup

import (
	"math"
	"time"

	"mcpschedd/internal/call"
)

// Query is one call that the store may answer.
type Query struct {
	Key       call.Key
	Places    []call.Place // what the answer depends on; not modified afterwards
	SharedKey string       // key under which replicas share the answer; "" if it is not shared
	Reuse     Reuse
	Delivered *Delivered  // answers given to the calling client; nil if the client is not known
	Number    call.Number // of the call, for [Prefetch.By]; of a prefetch, its own
}

// Reuse says when a stored answer may be reused. The zero value allows reuse only
// by calls made at the same time.
type Reuse struct {
	Pure        bool                   // reusable until one of its places changes
	Freshness   time.Duration          // since the fetch began; with 0 the answer to a call is never reused, and a prefetched one once
	MaxAge      time.Duration          // of a prefetched answer if Freshness is 0; with 0 it is not stored
	Volatile    bool                   // a prefetch must not answer the call
	File        string                 // absolute path of a file that the answer also depends on; "" for none
	Repeats     int                    // number of identical answers in a row after which a back-off is suggested; 0 for never
	BackOff     bool                   // during that back-off, an identical call gets the stored answer
	CompareOnly bool                   // a prefetched answer is not served but compared with the call's own
	Equal       func(a, b []byte) bool // whether two different bodies mean the same; nil if they never do

	JoinTimeout time.Duration // of a prefetch: how long calls that join it wait after it was sent, before they get [ErrJoinTimeout]; 0 for no limit
}

// Shareable reports whether an answer fetched for a call may be served to other calls.
func (u Reuse) Shareable() bool { return (u.Pure || u.Freshness > 0) && u.File == "" }

// coalesceWindow is how far apart two calls may begin and still share one fetch if
// Freshness is 0.
const coalesceWindow = 100 * time.Millisecond

// admits reports whether an answer of that age may be served. prefetched says that a
// prefetch fetched it, and used that a call has asked for it before.
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

// ageLimit is the maximum age at which a prefetched answer is served.
func (u Reuse) ageLimit() time.Duration {
	switch {
	case u.Pure:
		return math.MaxInt64
	case u.Freshness > 0:
		return u.Freshness
	}
	return u.MaxAge
}

// mayJoin reports whether a call may join a fetch that began age ago. asked is the time
// since a call first asked for its answer; negative if none has.
func (u Reuse) mayJoin(prefetched bool, age, asked time.Duration) bool {
	if u.Freshness == 0 && asked >= 0 && asked < coalesceWindow && !(prefetched && u.Volatile) {
		return true
	}
	return u.admits(prefetched, asked >= 0, age)
}

// backsOff reports whether a client that repeats the call may get an answer that is
// otherwise too old.
func (u Reuse) backsOff() bool { return u.BackOff && u.Repeats > 0 }

// Disposition is how a call was answered.
type Disposition string

// The ways in which a call is answered.
const (
	Hit     Disposition = "hit"     // from the store
	Joined  Disposition = "joined"  // by a flight that had begun before
	Fetched Disposition = "fetched" // by its own fetch
)

// Outcome is the answer to one call.
type Outcome struct {
	Body       []byte // of a hit or a joined flight, and read-only; nil if the caller fetched it itself
	Stateless  bool   // the body has the form of the MCP revisions without sessions
	How        Disposition
	Prefetched bool          // a prefetch began the fetch
	BackedOff  bool          // too old, but served because the client repeats the call
	Age        time.Duration // since the fetch began
	Took       time.Duration // of a hit or a joined flight: duration of the fetch from its sending, or its unloaded latency if less
	FirstUseOf *Prefetch     // of a hit or a joined flight: the prefetch, if this is its first use
	Comparison Comparison    // of a call that fetched: its answer against the prefetched one
	BackOff    time.Duration // until a new answer may be expected; 0 if unknown
	Refetch    bool          // the flight that it joined failed, or its answer belongs to one client: the caller must fetch without the store
	Repeated   bool          // the client already has this answer, and may be sent a reference to it
	Err        error         // why there is no answer: the cause of the context's end, or [ErrJoinTimeout]
}

// Waiter is a call waiting for its answer.
type Waiter struct {
	Done   func(Outcome)                      // called once, with no lock held; possibly before Do returns, on its goroutine
	Notify func(method string, params []byte) // forwards the server's notifications; may be nil
	Sent   func()                             // called when the prefetch that it waits for has been sent, if [Store.Do] returned unsent, and when it waits for another replica's fetch; may be nil without peers

	query  Query
	flight *Flight     // nil unless it is waiting; guarded by the store's mutex
	stop   func() bool // stops watching the context
}
