// Package enrich chooses which calls to prefetch.
//
// A prefetch is used with probability P. If it is used, it hides waiting time: the
// shorter of the call's latency and its lead, the time until the client makes the call.
// If it is not used, it is wasted. Pick drops a candidate if its expected waste exceeds the time
// that it is expected to hide, not counting calls for which a later choice is early enough (the
// gate). Of the rest it chooses those that together hide the most within the budget (the knapsack):
//
//	chosen := enrich.Pick([]enrich.Candidate{
//		{Key: list, Model: m, P: 0.8, Latency: enrich.Fixed(400 * time.Millisecond)},
//		{Key: issue, Model: m, P: 0.2},
//		{Key: page, Model: m, P: 0.6, Reason: enrich.Stored},
//	}, enrich.Options{
//		Budget: 8000, Slots: 3, MinProbability: 0.3, Waste: 50 * time.Millisecond, DefaultLead: 3 * time.Second,
//	})
//	// chosen is [0]; the Reasons of the others are low_probability and stored
//
// Every declined candidate has exactly one reason. The gate ignores how much a result is
// worth to the model (its value class, the model's intent). That
// weight ranks the candidates that pass the gate when results are inlined into other
// results. When results only go into the cache, the expected net gain ranks them.
//
// What is chosen depends only on the arguments. Package predict makes the
// candidates, the caller sets Candidate.Reason if it already knows why a candidate must
// not be chosen (its result is cached, say), and package speculate starts the choices.
package enrich

import (
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/valuemodel"
)

// Reason is why a candidate was declined; "" if it was not. It may also be a refusal of the store, see
// dedup.Refusal.
type Reason string

// Pick finds those of the first group by itself. Each may also be passed in with the candidate, as those of
// the second group always are.
const (
	NotSpeculatable Reason = "not_speculatable" // forbidden by its model or the configuration, without a model, or barred
	LowProbability  Reason = "low_probability"  // below Options.MinProbability
	Dollars         Reason = "dollars"          // its price exceeds the remaining dollars
	Gate            Reason = "gate"             // expected waste exceeds expected hidden time
	Budget          Reason = "budget"           // it exceeds the tokens that are left, or others hide more with the same
	Cap             Reason = "cap"              // no slot is free, or others hide more in the same slots

	RateLimited Reason = "rate_limited" // by the rate limit of its host
	Quota       Reason = "quota"        // by the hourly limit of prefetches of its host
	Throttled   Reason = "throttled"    // by the outcomes of earlier prefetches, or because it may delay calls at its upstream
	Stored      Reason = "stored"       // a fresh result is cached
	Delivered   Reason = "delivered"    // the client has the result, and may get it from a prefetch only once
	InFlight    Reason = "in_flight"    // the call is in flight
	Settling    Reason = "settling"     // a write to what it reads may not show yet
	Schema      Reason = "schema"       // its arguments do not match the tool's schema
	Origin      Reason = "origin"       // its arguments are derived from another upstream's data
	Disclosure  Reason = "disclosure"   // it would disclose data of its source to third parties
	Unsteady    Reason = "unsteady"     // its data may change unnoticed: its upstream is not exclusive and its file not validated
	Shadow      Reason = "shadow"       // observed only; set if no other reason applies
	Closed      Reason = "closed"       // its session or the process has ended
)

// Candidate is a call that may be prefetched.
type Candidate struct {
	Key   call.Key
	Model *valuemodel.Model // of its tool; nil if unknown, and then never chosen

	P           float64     // probability that exactly this call is made while the result may be served
	CanWait     float64     // share of P that loses nothing by waiting: calls that come after a later choice, and are as likely then
	Latency     Percentiles // of the call; zero means the model's latency
	Lead        Percentiles // time until the client makes the call; zero means Options.DefaultLead
	WasteFactor float64     // multiplies the cost of waste, by the level of session and host; zero means 1

	Bytes int // size of the result, 90th percentile, or of the file that it reads; zero means unknown

	// Why it must not be chosen, if the caller knows already; set by Pick if it is not chosen. The
	// gate comes before Shadow, Cap, Throttled and Settling.
	Reason Reason

	// Set by Pick unless it refuses the candidate before the gate.
	Value  float64 // expected hidden time in ms: weighted, or net of waste if Silent
	Tokens int     // expected size of the call and its result, at its 90th percentile
}

// Options bound a choice. The zero value chooses nothing.
type Options struct {
	Budget         int           // tokens for all results
	MaxTokens      int           // most tokens that one result counts for, whatever its size; zero means no limit
	Slots          int           // calls that may start now
	MinProbability float64       // candidates below it are declined before the gate
	Silent         bool          // results only go into the cache, so net gain ranks candidates, not their weight for the model
	Waste          time.Duration // hidden time that outweighs one wasted call
	SecondWorth    float64       // US dollars that hiding one second is worth; zero declines all priced calls
	Dollars        float64       // US dollars that may still be spent
	Keywords       []string      // from the model's intent
	DefaultLead    time.Duration // lead of candidates without one
}
