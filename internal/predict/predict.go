// Package forecast says which exact calls are worth thinking of early, from the
// calls that are seen of one upstream.
//
// The one idea: what is configured and what is learned make the same thing, a
// concrete call with a probability, and every rule on what may be guessed is asked
// of that call in one place. After list_issues {owner: a} a follow-up
//
//	get_issue {owner: "$args.owner", number: "$result.items[*].number"}
//
// makes get_issue {owner: a, number: 7}, then 11, then 12, and predict makes what
// it has seen to follow; both learn from what the session does next. Each comes
// out as a [Guess], with the reason why it may not be made where there is one:
//
//	f := predict.New(predict.Options{Tool: known, Learn: true})
//	s := f.Begin(rand.Uint64(), false)
//	s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list_issues", Arguments: `{"owner":"a"}`, At: now})
//	text, structured := predict.Read(answer, false)
//	s.Result(predict.Result{ID: 1, Text: text, Structured: structured, Size: len(answer), At: now})
//	candidates := s.Guesses(now)
//
// A forecast knows one upstream: nothing that another one said can become an
// argument here, as it is never told. Nor does it follow up on another upstream,
// whatever is configured.
//
// It leaves out what only its user can know of a call (whether its answer is there,
// what its host allows) and everything that waits or is sent: times come in,
// guesses go out.
package predict

import (
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// Options say what is foreseen. With the zero value there are no tools, and so no
// guesses.
type Options struct {
	Tool         func(name string) Tool // what is known of a tool at this moment; asked often, so it must be cheap; nil: nothing of any
	Learn        bool                   // false: configured follow-ups alone, at their configured probability
	ShadowLabels int                    // labels before a learned edge, or a tool known by annotation alone, issues; 0: 5
	MaxAge       time.Duration          // how long an answer may stand in for a later call; 0: no limit
	Turns        int                    // and for how many turns; 0: 10
}

// Tool is what is known of a tool.
type Tool struct {
	Model   *valuemodel.Model // nil: the upstream offers no such tool
	Schema  *schema.Schema    // of its arguments; nil: any object
	Hearsay bool              // that it only reads is known from the server's own annotation alone
}

// Forecast is what was learned of one upstream. It is not safe for use by several
// goroutines: one worker owns it and its sessions.
type Model struct {
	o        Options
	m        *Learner
	upstream string // its name, as the calls have it
	edges    edges
	checked  verdicts
	stats    Stats
}

const shadowLabels = 5 // where Options do not say

// New makes a forecast that has seen nothing.
func New(o Options) *Model {
	if o.Tool == nil {
		o.Tool = func(string) Tool { return Tool{} }
	}
	if o.ShadowLabels == 0 {
		o.ShadowLabels = shadowLabels
	}
	f := &Model{o: o}
	f.m = NewLearner(LearnerOptions{
		Target: f.target, Turns: o.Turns, MaxAge: f.maxAge, ShadowLabels: o.ShadowLabels, Static: !o.Learn,
	})
	return f
}

// maxAge is how long an answer of a tool may stand in for a later call.
func (f *Model) maxAge(tool string) time.Duration {
	if m := f.o.Tool(tool).Model; m != nil && m.Cost.Freshness > 0 && f.o.MaxAge > 0 {
		return m.Cost.Freshness
	}
	return f.o.MaxAge
}

// target reports whether it is worth learning when a tool is called.
func (f *Model) target(tool string) bool {
	return enrich.Speculatable(f.o.Tool(tool).Model)
}

// Merge returns the state to be kept: what stored holds and what was learned since
// the last merge. What of stored cannot be read is left out and reported; the
// state returned is good all the same.
func (f *Model) Merge(stored []byte) ([]byte, error) { return f.m.Merge(stored) }

// Join is [Forecast.Merge] for who may fail to keep what it returns: what was learned
// counts as kept once commit is called.
func (f *Model) Join(stored []byte) (next []byte, commit func(), err error) {
	return f.m.Join(stored)
}

// Trial notes that an answer got early was compared with one got when it was asked
// for. A tool that gave two is barred.
func (f *Model) Trial(tool string, same bool) { f.m.Trial(tool, same) }

// Tried reports whether a tool that is known to read by its annotation alone has
// proven it: as many comparisons as Options.ShadowLabels agreed, and none did not.
func (f *Model) Tried(tool string) bool {
	return f.m.Trials(tool) >= f.o.ShadowLabels && f.Barred(tool) == ""
}

// Bar says that a tool is never called on a guess again, and why. The first reason
// stays, and is kept in the state.
func (f *Model) Bar(tool, why string) { f.m.Bar(tool, why) }

// Barred is why a tool is never called on a guess; "" if it is not barred. That its
// answers differed says no more than that its server's word is not good for it: it
// counts no longer once the operator has given theirs.
func (f *Model) Barred(tool string) string {
	why := f.m.Barred(tool)
	if why == AnswersDiffer && !f.o.Tool(tool).Hearsay {
		return ""
	}
	return why
}

// Harm notes that a guess at a tool did harm: what leads to it is only watched
// again.
func (f *Model) Harm(tool string) { f.m.Harm(tool) }

// Changes returns what became trusted or ceased to be since it was last asked.
func (f *Model) Changes() []Change { return f.m.Changes() }
