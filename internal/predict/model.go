// Package predict predicts the exact next calls to one upstream and their probabilities from
// the calls observed so far.
//
// It explains every call by the calls before it, and applies every explanation to later
// results. If list_issues {owner: a} is followed by get_issue {owner: a, number: 7}, and its
// result has 7 at $.items[*].number, that is a template: applied to the next result of
// list_issues, it makes the candidates get_issue 11, 12, 13. A configured follow-up is a
// template too, with a probability that starts at the configured value. The session's later calls
// label the candidates, whether they were prefetched or not. Each label updates an online
// logistic regression over hashed features: the template, the rank in the list, the tool,
// the preceding calls and others.
//
//	m := predict.New(predict.Options{Tool: known, Learn: true})
//	s := m.Begin(rand.Uint64(), false)
//	s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list_issues", Arguments: `{"owner":"a"}`, At: now})
//	r := predict.Read(answer, len(answer))
//	r.ID, r.At = 1, now
//	s.Result(r)
//	candidates := s.Candidates(now)
//
// [Session.Check] tells which candidates must not be prefetched. A model only has the data of one
// upstream, so data of other upstreams never become arguments, and no follow-up leads to
// another upstream, whatever is configured.
//
// The package neither waits nor sends. Its caller decides what depends on the cache and on
// rate limits.
package predict

import (
	"cmp"
	"time"

	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// Options configure a model.
type Options struct {
	Tool         func(name string) Tool // returns the current tool, not nil; called often, so it must be fast
	Learn        bool                   // false: only configured follow-ups, at their configured probability
	ShadowLabels int                    // labels before a learned follow-up, or a tool declared read-only by annotation only, may prefetch; default 5
	MaxAge       time.Duration          // how long a prefetched result of a tool without freshness may be served; zero: not at all, and turns count

	// Labelled, if not nil, is called for each predicted call, once it is known whether it came in time;
	// p is its probability when it was first predicted.
	Labelled func(p float64, came bool)
}

// Tool describes a tool.
type Tool struct {
	Model     *valuemodel.Model // nil if the upstream has no such tool
	Schema    *schema.Schema    // of its arguments; nil if they are not checked
	Annotated bool              // only the server's annotations, which the operator trusts, declare it read-only
}

// Model is the learned model of one upstream. It is not safe for concurrent use: one worker
// owns it and its sessions.
type Model struct {
	opt        Options
	upstream   string // name of the upstream
	learned    *state
	changes    []func(*state) // to learned, since the last merge
	saved      uint64         // hash of the state that was saved last
	overflowed bool           // older changes were dropped
	follows    map[*valuemodel.Model][]*followUp
}

// New returns a model without observations.
func New(o Options) *Model {
	m := &Model{opt: o, learned: newState()}
	m.Configure(o.Learn, o.ShadowLabels, o.MaxAge)
	return m
}

// Configure changes options; see Options.
func (m *Model) Configure(learn bool, shadowLabels int, maxAge time.Duration) {
	m.opt.Learn, m.opt.ShadowLabels, m.opt.MaxAge = learn, cmp.Or(shadowLabels, 5), maxAge
}

// maxAge returns how long a prefetched result of a tool may be served.
func (m *Model) maxAge(tool string) time.Duration {
	if t := m.opt.Tool(tool).Model; t != nil && t.Cost.Freshness > 0 {
		return t.Cost.Freshness
	}
	return m.opt.MaxAge
}
