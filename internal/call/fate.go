package call

// Fate is what became of a call that was made before it was asked for.
type Fate int

const (
	Pending  Fate = iota // not known yet: under way, or there and not asked for
	Ready                // asked for when its answer was there
	Late                 // asked for while it was under way, and its answer given
	Wasted               // of no use
	Compared             // asked for, and only held against what the real call fetched
)
