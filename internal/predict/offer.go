package predict

import (
	"cmp"

	"mcpschedd/internal/enrich"
)

// Offer is what one answer makes likely, until each guess is begun or given up.
// What only lacks a slot stays in it; so do the tokens that are left of its budget.
type Offer struct {
	guesses []Candidate
	budget  int                              // tokens
	again   func(g *Candidate) enrich.Reason // why it may not be made now; nil: what was said of it stands
}

// NewOffer makes an offer of guesses, whose answers may take so many tokens. What
// was said of them when they were made stands as long as they wait.
func NewOffer(guesses []Candidate, budget int) *Offer {
	return &Offer{guesses: guesses, budget: budget}
}

// Offer makes an offer of guesses of the session. While one waits, its tool may be
// barred, or its model or schema may change: it is held against the rules again
// before it is chosen.
func (s *Session) Offer(guesses []Candidate, budget int) *Offer {
	return &Offer{guesses: guesses, budget: budget, again: func(g *Candidate) enrich.Reason { return s.f.again(g) }}
}

// Add adds what the answer to one of its guesses makes likely.
func (o *Offer) Add(guesses []Candidate) { o.guesses = append(o.guesses, guesses...) }

// Open is how many guesses have no slot yet.
func (o *Offer) Open() int { return len(o.guesses) }

// Picked is what becomes of an offer for now.
type Picked struct {
	Start    []Candidate // in this order
	Watch    []Candidate // allowed by all but that they have still to prove themselves
	Declined []Declined  // those given up, the watched ones included
}

// Declined is a guess that was given up.
type Declined struct {
	Candidate
	Why enrich.Reason
}

// Choose picks from the offer what to start now, as [Choose] does. What is started,
// watched or declined leaves it.
func (o *Offer) Choose(ask func(g *Candidate) World, opt enrich.Options) Picked {
	opt.Budget = o.budget
	o.review()
	var p Picked
	start, s := Choose(o.guesses, ask, opt)
	p.Start = start
	o.budget -= s.Tokens
	var open []Candidate
	for _, d := range s.Declined {
		g := o.guesses[d.Candidate]
		if g.Reason == "" && (d.Reason == enrich.Cap || d.Reason == enrich.Throttled) {
			open = append(open, g)
			continue
		}
		if d.Reason == enrich.Shadow {
			p.Watch = append(p.Watch, g)
		}
		p.Declined = append(p.Declined, Declined{g, d.Reason})
	}
	o.guesses = open
	return p
}

// review asks again about the guesses that nothing was said against.
func (o *Offer) review() {
	if o.again == nil {
		return
	}
	for i := range o.guesses {
		if g := &o.guesses[i]; g.Reason == "" || g.Reason == enrich.Shadow {
			g.Reason = cmp.Or(o.again(g), g.Reason)
		}
	}
}

// Likely are the calls, of those foreseen last, that are worth finishing if they
// have been begun: at least half as likely as would be needed to begin them, for a
// part of what they cost is spent.
func Likely(guesses []Candidate, minProbability float64) func(tool, arguments string) bool {
	type exact struct{ tool, arguments string }
	likely := make(map[exact]bool)
	for i := range guesses {
		if g := &guesses[i]; g.P >= minProbability/2 {
			likely[exact{g.Key.Tool, g.Key.Arguments}] = true
		}
	}
	return func(tool, arguments string) bool { return likely[exact{tool, arguments}] }
}
