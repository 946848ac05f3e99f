package proxy

import (
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

// Enrichment says what is run before a client asks for it. With the zero value
// nothing is, and nothing is learned.
type Enrichment struct {
	Mode     string        // "off" (the default), "shadow": predict and score, but run nothing; "on"
	Delivery string        // "silent" (the default), "hint" or "inline"
	Wait     time.Duration // how long an answer may wait for what is inlined in it

	PerSession int // prefetches under way at once; default 3
	Total      int // of the process; default 16

	Budget         int           // tokens that the answers of one choice may take, and that one inlining may add
	MinProbability float64       // floor under the gate
	InlineFrom     float64       // probability from which a prefetch is inlined
	Waste          time.Duration // hidden waiting that makes up for one wasted call
	SecondWorth    float64       // US dollars that hiding one second is worth
	Dollars        float64       // US dollars that the guesses of one session may cost

	ShadowLabels int  // labels before a learned follow-up is run
	Learn        bool // follow-ups are learned, beside those that are configured
}

func (e *Enrichment) off() bool { return e.Mode != "on" && e.Mode != "shadow" }

// slots are the bounds of what runs at once.
func (e *Enrichment) slots() speculate.Options {
	return speculate.Options{PerSession: e.PerSession, Total: e.Total}
}

// pick are the bounds of one choice.
func (e *Enrichment) pick() enrich.Options {
	return enrich.Options{
		Budget: e.Budget, MinProbability: e.MinProbability,
		Waste: e.Waste, SecondWorth: e.SecondWorth,
	}
}
