// Package predict learns, from the calls that are really made to one upstream,
// which exact calls come next and how likely each is.
//
// The one idea: explain every call by the calls before it, and try every
// explanation on the next ones. After list_issues {owner: a} came get_issue
// {owner: a, number: 7}, and 7 stood at $.items[*].number: this template, tried on
// the next result of list_issues, makes candidates get_issue 11, 12, 13. Whether
// or not they are issued, what the session does next says which were right, and
// each label moves the weights of the template, the rank in the list, the tool, what
// came before and the like: an online logistic regression over hashed features.
//
//	m := predict.New(predict.Options{Target: readOnly})
//	s := m.Begin(rand.Uint64(), false)
//	s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list_issues", Arguments: `{"owner":"a"}`, At: now})
//	s.Result(predict.Result{ID: 1, Values: predict.Extract(body, nil), At: now})
//	for _, c := range s.Candidates(now) { … }
//
// Follow-ups that somebody configured come in from outside ([Session.Propose]); they
// are candidates at the probability they were given until labels say otherwise.
//
// It leaves out what a call may do, whether a candidate is worth its cost, and
// everything that waits: times come in, bytes go out.
package predict

import "time"

// Bounds on a model.
const (
	maxTools    = 2048
	maxTriggers = 4096
)

// Options say what is predicted. The zero value predicts nothing, as no tool is a
// target.
type LearnerOptions struct {
	Target       func(tool string) bool          // whether calls of the tool may be run early; nil: none
	Turns        int                             // a candidate not asked for within as many turns was wrong, where no age is known; 0: 10
	MaxAge       func(tool string) time.Duration // or after as long: how long an answer of the tool may be served; 0, nil: turns count
	ShadowLabels int                             // labels before an edge issues; 0: 5
	Static       bool                            // candidates are proposals alone, at their prior; only sizes, latencies and leads are learned
}

// Model is what was learned about one upstream. It is not safe for use by several
// goroutines: one worker owns it and its sessions. [Extract] may run anywhere.
type Learner struct {
	opt       LearnerOptions
	weights   weights
	templates map[string][]*template // symbol of the trigger → templates
	kept      int                    // templates in all
	withheld  map[hash]withheld      // template that is private and not among those → what is kept of it
	constants map[hash]*few          // tool and argument → its values
	outcomes  map[hash]*outcome      // of proposals: follow-up, and rank or age → what came of them
	tools     map[string]*toolStats
	edges     map[edgeName]*trust
	bars      map[string]string // tool → why it is never run early again
	changes   []Change
	matches   []match // what Candidates works on, kept for its memory
	sessions  int
	stats     LearnerStats
}

// Stats are counts of what a model did.
type LearnerStats struct {
	Calls     int // observed
	Cut       int // results of which something was left out
	Templates int
	Weights   int
	Dropped   int // weights that were forgotten
	Changes   int // of edges
}

// Stats copies the counts out.
func (m *Learner) Stats() LearnerStats {
	s := m.stats
	s.Templates, s.Weights, s.Dropped = m.kept, len(m.weights.of), m.weights.dropped
	return s
}

// New makes a model that knows nothing.
func NewLearner(opt LearnerOptions) *Learner {
	if opt.Target == nil {
		opt.Target = func(string) bool { return false }
	}
	if opt.MaxAge == nil {
		opt.MaxAge = func(string) time.Duration { return 0 }
	}
	if opt.Turns == 0 {
		opt.Turns = maxTurns
	}
	if opt.ShadowLabels == 0 {
		opt.ShadowLabels = 5
	}
	return &Learner{
		opt: opt, weights: weights{of: map[hash]weight{}}, templates: map[string][]*template{}, withheld: map[hash]withheld{},
		constants: map[hash]*few{}, outcomes: map[hash]*outcome{}, tools: map[string]*toolStats{},
		edges: map[edgeName]*trust{}, bars: map[string]string{},
	}
}

// callHash tells exact calls apart.
func callHash(tool, arguments string) hash { return seed.str(tool).str(arguments) }
