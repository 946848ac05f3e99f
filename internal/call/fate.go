package call

// Fate is the outcome of a prefetch.
type Fate int

const (
	Pending  Fate = iota // unknown: still being fetched, or stored and not requested yet
	Ready                // requested after its answer had arrived
	Late                 // requested while it was being fetched, and answered by it
	Wasted               // not used
	Compared             // requested, but only compared with the answer to the call itself
)
