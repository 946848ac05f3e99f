// Package call is the words that what decides and what acts have in common:
// which call is meant, and what it reads or changes.
package call

// Key says which call is meant: two calls with equal keys ask the same of the
// same server on behalf of the same principal.
type Key struct {
	Upstream  uint64 // the upstream instance; never given to another one in this process
	Scope     string // the session or principal that the answers belong to; never ""
	Tool      string // as the upstream names it
	Arguments string // canonical: members sorted, no white space, numbers as written
}

// Number names a call in the record: clients' calls and prefetches are counted
// together in each session.
type Number struct {
	Session string // as the record names it; "": it is not recorded
	Seq     int64  // from 1
}

// Place is what an answer depends on or a call changes: a whole domain, or the
// answers that one invalidation edge matches.
type Place struct {
	Domain string // the domain; "" for an edge's place
	Slot   uint64 // identifies the edge and what it matched; 0 for a whole domain
}

// Effect is what a call may change. The zero value changes nothing.
type Effect struct {
	Places []Place
	Remote bool // by a remote host, which may show it only after a while
}

// Changes reports whether there is anything the call may change.
func (e Effect) Changes() bool { return len(e.Places) > 0 }
