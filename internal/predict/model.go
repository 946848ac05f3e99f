// Package predict says which exact calls come next, and how likely each is, from the
// calls that are seen of one upstream.
//
// The one idea: explain every call by the calls before it, and try every explanation on
// the next ones. After list_issues {owner: a} came get_issue {owner: a, number: 7}, and 7
// stood at $.items[*].number: this template, tried on the next result of list_issues,
// makes candidates get_issue 11, 12, 13. A follow-up of the configuration is such a
// template too, with a probability that begins where the operator put it. Whether or not
// candidates are issued, what the session does next says which were right, and each label
// moves the weights of the template, the rank in the list, the tool, what came before and
// the like: an online logistic regression over hashed features.
//
//	m := predict.New(predict.Options{Tool: known, Learn: true})
//	s := m.Begin(rand.Uint64(), false)
//	s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list_issues", Arguments: `{"owner":"a"}`, At: now})
//	text, structured := predict.Read(answer, false)
//	s.Result(predict.Result{ID: 1, Text: text, Structured: structured, Size: len(answer), At: now})
//	candidates := s.Guesses(now)
//
// Each comes with the reason why it may not be made where there is one. A model knows one
// upstream: nothing that another one said can become an argument here, as it is never
// told, and no follow-up leads to another upstream, whatever is configured.
//
// It leaves out what only its user can know of a call (whether its answer is stored, what
// its host allows) and everything that waits or is sent: times come in, candidates go out.
package predict

import (
	"time"

	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// Options say what is foreseen. With the zero value there are no tools, and so no
// candidates.
type Options struct {
	Tool         func(name string) Tool // what is known of a tool at this moment; asked often, so it must be cheap; nil: nothing of any
	Learn        bool                   // false: configured follow-ups alone, at their configured probability
	ShadowLabels int                    // labels before a learned edge, or a tool known by annotation alone, issues; 0: 5
	MaxAge       time.Duration          // how long an answer may stand in for a later call; 0: no limit
	Turns        int                    // and for how many turns, where no age is known; 0: 10
}

// Tool is what is known of a tool.
type Tool struct {
	Model         *valuemodel.Model // nil: the upstream offers no such tool
	Schema        *schema.Schema    // of its arguments; nil: any object
	UntrustedHint bool              // that it only reads is known from the server's own annotation alone
}

// Model is what was learned of one upstream. It is not safe for use by several
// goroutines: one worker owns it and its sessions.
type Model struct {
	opt       Options
	upstream  string // its name, as the calls have it
	learned   *state
	lastSaved fingerprint // of the state that it was last kept as
	follows   map[*valuemodel.Model][]*followUp
	checks    checks
	matches   []match // what candidates are made of, kept for its memory
}

// New makes a model that has seen nothing.
func New(o Options) *Model {
	if o.Tool == nil {
		o.Tool = func(string) Tool { return Tool{} }
	}
	if o.ShadowLabels == 0 {
		o.ShadowLabels = 5
	}
	if o.Turns == 0 {
		o.Turns = maxTurns
	}
	return &Model{opt: o, learned: newState()}
}

// maxAge is how long an answer of a tool may stand in for a later call.
func (m *Model) maxAge(tool string) time.Duration {
	if t := m.opt.Tool(tool).Model; t != nil && t.Cost.Freshness > 0 && m.opt.MaxAge > 0 {
		return t.Cost.Freshness
	}
	return m.opt.MaxAge
}
