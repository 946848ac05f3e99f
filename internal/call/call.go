// Package call defines the types that identify a call and describe what it reads and changes.
package call

// Key identifies a call. Two calls with equal keys send the same request to the same server for
// the same principal.
type Key struct {
	Upstream  uint64 // upstream instance; never reused within a process
	Scope     string // session or principal that the answer belongs to; never ""
	Tool      string // the upstream's name for the tool
	Arguments string // canonical JSON: members sorted, no white space, numbers as written
}

// Number identifies a call in the event log. Each session numbers its calls and prefetches
// together.
type Number struct {
	Session string // the session's id in the log; "" if the call is not recorded
	Seq     int64  // from 1
}

// Place is something that an answer depends on or a call changes: a whole domain, or the answers
// that an invalidation edge matches.
type Place struct {
	Domain string // "" for the place of an edge
	Slot   uint64 // hash of an edge and the value it matched; 0 for a whole domain
}

// Effect is what a call may change. The zero Effect changes nothing.
type Effect struct {
	Places []Place
	Remote bool // the change is made by a remote host, where it may take a while to become visible
}

// Changes reports whether the call may change anything.
func (e Effect) Changes() bool { return len(e.Places) > 0 }

// Fate is the outcome of a prefetch.
type Fate int

const (
	Pending  Fate = iota // unknown: still being fetched, or stored and not requested yet
	Ready                // requested after its answer had arrived
	Late                 // requested while it was being fetched, and answered by it
	Wasted               // not used
	Compared             // requested, but only compared with the answer to the call itself
)
