// Package enrich chooses which calls to prefetch.
//
// A prefetch that will be asked for with probability P hides as much waiting as the
// call takes or as there is time before it is asked for, whichever is less; one that
// is never asked for is waste. It is worth making if what it is expected to hide
// outweighs what it is expected to waste (the gate), and of those worth making Pick
// takes the ones that together hide the most within the budget (the knapsack):
//
//	s := enrich.Pick([]enrich.Candidate{
//		{Key: list, Model: m, P: 0.8, Latency: enrich.Point(400 * time.Millisecond)},
//		{Key: issue, Model: m, P: 0.2},
//		{Key: page, Model: m, P: 0.6, Reason: enrich.Stored},
//	}, enrich.Options{Budget: 8000, Slots: 3, MinProbability: 0.3, Waste: 50 * time.Millisecond})
//	// s.Choices names the first, s.Declined the others: low_probability, stored
//
// A slow call is a better target than a fast one, up to the time there is. Every
// candidate that is left out has exactly one reason. How much an answer is worth, by
// its value class, its use so far and the model's intent, has no say in the gate. It
// decides between calls that pass it where answers are added to others; where they only go
// into the store, the expected net gain does.
//
// Everything here is a pure function of its arguments. Where candidates come from
// (predict), what is known of a call elsewhere, such as that its answer is stored
// (Candidate.Reason), and starting what is chosen (speculate) are not its business.
package enrich

import (
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/valuemodel"
)

// Reason is why a candidate is not chosen. "" is none.
type Reason string

// The reasons. Those of the first group are found here, those of the second come with
// the candidate.
const (
	NotSpeculatable Reason = "not_speculatable" // its model forbids it, or there is none
	LowProbability  Reason = "low_probability"  // under the floor
	Dollars         Reason = "dollars"          // priced beyond what may still be spent
	Gate            Reason = "gate"             // expected to waste more than it hides
	Budget          Reason = "budget"           // others hide more with the same tokens
	Cap             Reason = "cap"              // others hide more with the same number of calls

	RateLimited Reason = "rate_limited" // by the pace of its host
	Throttled   Reason = "throttled"    // by what became of earlier prefetches, or because its upstream is serial
	Stored      Reason = "stored"       // its answer is there, and fresh
	InFlight    Reason = "in_flight"    // it is being made
	Schema      Reason = "schema"       // its arguments are not what the tool takes
	Origin      Reason = "origin"       // its arguments come from another upstream's data
	Disclosure  Reason = "disclosure"   // it would tell third parties what it was derived from
	Unsteady    Reason = "unsteady"     // what it reads may change without notice: neither exclusive nor validated
	Shadow      Reason = "shadow"       // it is only watched; said of one that all else allows
)

// Candidate is a call that may be made before it is asked for.
type Candidate struct {
	Key   call.Key
	Model *valuemodel.Model // of its tool; nil: nothing is known, so it is never chosen

	P       float64 // probability that this very call is made while its answer may stand in for it
	Useful  float64 // how often answers of the tool were made use of, 0 to 1; 0: not known, counts as 0.5
	Latency Spread  // of the call; zero: what the model says
	Lead    Spread  // from now until it is asked for; zero: Options.Think
	Caution float64 // times what a wasted call costs, where its host is throttled; 0: 1

	Bytes     int // of the answer, 90th percentile; 0: not known
	FileBytes int // of the file that it reads; 0: it reads none

	Reason Reason // why it cannot be chosen, where that is known already
}

// Options bound a choice. The zero value chooses nothing.
type Options struct {
	Budget         int           // tokens that the answers may take
	Whole          int           // what an answer counts at most, as large as it is; 0: its size
	Slots          int           // calls that may be started now
	MinProbability float64       // floor under the gate
	Silent         bool          // answers only go into the store: what counts is the waiting that is hidden less what is wasted, whatever an answer is worth to the model
	Waste          time.Duration // hidden waiting that makes up for one wasted call
	SecondWorth    float64       // US dollars that hiding one second is worth; 0: no price is worth it
	Dollars        float64       // US dollars that may still be spent
	Keywords       []string      // of the model's intent
	Think          time.Duration // lead where none is known; default 3s
}

// Selection is what becomes of the candidates. One for the same call as another is
// merged with it and appears nowhere: of the two the one without a reason stands for
// both, else the more probable.
type Selection struct {
	Choices  []Choice  // in the order in which they should start
	Declined []Decline // in index order
	Tokens   int       // that the choices are expected to take, at the 90th percentile of each
}

// Choice is a candidate to start.
type Choice struct {
	Candidate int     // its index
	Value     float64 // ms of waiting that it is expected to hide, times what they are worth
	Tokens    int     // that its answer is expected to take
}

// Decline is a candidate that is left out.
type Decline struct {
	Candidate int // its index
	Reason    Reason
}
