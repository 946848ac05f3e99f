package proxy

import (
	"cmp"
	"time"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/plan"
)

// Plans says whether clients may send many calls as one, and which plans they
// need not write themselves. The zero value offers none of it.
type Plans struct {
	Enabled   bool
	Mutations string // what of a plan that may change something: "confirm" (the default) with the user, "allow" or "deny"
	plan.Limits
	KeepFor time.Duration // what did not come back can be read for so long; default 30 min; below 0: not at all
	Named   []plan.Named  // offered as tools of their own, plan__NAME
}

func (p *Plans) withDefaults() {
	p.Mutations = cmp.Or(p.Mutations, "confirm")
	p.KeepFor = cmp.Or(p.KeepFor, 30*time.Minute)
	l := &p.Limits
	l.Steps, l.Parallel, l.Depth = cmp.Or(l.Steps, 100), cmp.Or(l.Parallel, 8), cmp.Or(l.Depth, 32)
	l.Bytes, l.Budget = cmp.Or(l.Bytes, 16<<20), cmp.Or(l.Budget, 10_000)
	l.ReadOnly = p.Mutations == "deny"
}

// mostBrought is how many characters a plan brings back at most, whatever its
// budget: a known client puts longer answers into a file, which its model then has
// to read.
const mostBrought = 48_000

// limits are what a client takes at once.
func limits(tokens int) excerpt.Limit {
	return excerpt.Limit{Tokens: tokens, Chars: mostBrought, Count: deliver.Tokens}
}

// tokens counts those of a result. One that is far too long to come back whole is
// not worth counting.
func tokens(text []byte) int {
	if len(text) > 4*mostBrought {
		return len(text) / bytesPerToken
	}
	return deliver.Tokens(text)
}

// loadVocabulary has the tokenizer ready, which takes some 20 ms and 12 MiB.
func loadVocabulary() { deliver.Tokens([]byte("now")) }
