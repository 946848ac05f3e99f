// Package plan checks and runs a DAG of tool calls that a client sends as one.
//
// The one idea: a plan is data. References are found in its parsed tree before
// anything runs, so every mistake is told at once and before the first call; what
// they resolve to is never looked at again. Then each call starts when its last
// input has arrived.
//
//	{"steps": [
//	  {"id": "issues", "tool": "search_issues", "arguments": {"query": "is:open"}},
//	  {"id": "first", "tool": "get_issue", "arguments": {"number": {"$ref": "issues#/items/0/number"}}}
//	], "output_steps": ["first"]}
//
//	p, defects := plan.Parse(raw, plan.Options{Limits: limits, Find: tools})
//	report := runner.Run(ctx, p)
//
// The way of a plan through the package:
//
//	Parse          the steps as they are written (parse, steps, template), what they wait
//	               for (graph), what their tools say (check): a Plan, which never changes
//	Plan           before it runs: what has to be confirmed (confirm), what is to be
//	               expected (forecast), which optional steps run (choose)
//	Runner.Run     which step begins, and whether it may (run, rules); its calls (call,
//	               foreach); what they gave, as long as it is needed (results)
//	Report.Answer  what of it comes back (report)
//
// It knows no servers, and not what a call may change: what it must know of a tool is
// told, calls are made by a function it is given, and so is the word of a user that
// confirms. It leaves out keeping results for later reading.
package plan

import (
	"time"

	"mcpschedd/internal/schema"
)

// Plan is a plan that has been checked.
type Plan struct {
	Steps   []*Step  // in the order of the plan
	Outputs []string // ids of the steps whose results come back, in the order asked for
	Budget  int      // tokens of what comes back; never above the limit
	DryRun  bool     // it is only to be looked at
	Params  []byte   // a JSON object; nil: it has none
	byID    map[string]int
}

// index is the place of the step with an id; -1: there is none.
func (p *Plan) index(id string) int {
	if i, ok := p.byID[id]; ok {
		return i
	}
	return -1
}

// Step is one call of a plan, or one for each item of an array. It has more fields than
// most types, as it has one for almost each member that a plan may give it.
type Step struct {
	ID        string
	Index     int   // in the plan
	Tool      *Tool // what it calls
	Arguments *Template
	After     []int // steps it waits for, rising: what it refers to, depends_on, writes of its domain
	Needs     []int // of those: the steps whose results it refers to, rising
	Order     []int // of those: the ones it only follows as both touch a domain that one may change; that they fail or are skipped is no reason to skip it
	Writes    bool  // it may change something, as far as can be told before it runs

	When      *Condition    // nil: always
	ForEach   *ForEach      // nil: one call
	Timeout   time.Duration // of each call; 0: none
	Retry     int           // further tries after a failure; a step that may write has none
	OnError   OnError
	Default   []byte // JSON that stands in for the result where OnError is Default
	Optional  bool   // it reads, and runs only if the budget has room for it
	Worth     Worth
	MaxTokens int    // of its result in what comes back; 0: what the budget leaves
	written   []byte // as in the plan
	refs      []*Ref // of its arguments, condition and items
}

// ForEach says that a step is called once for each item of an array.
type ForEach struct {
	Items    *Ref // to the array
	MaxItems int  // items of it; the rest is left out, and said so
	Parallel int  // calls of the step at once; 0: any number
}

// Worth is what the result of a step is worth.
type Worth struct {
	Value       float64
	Probability float64 // that the result is of use
}

// OnError is what becomes of the steps that wait for one that failed.
type OnError string

// What a plan may say.
const (
	Fail     OnError = "fail"     // they are skipped (the guide's rule; the default)
	Skip     OnError = "skip"     // only those that refer to its result are skipped
	Default  OnError = "default"  // a value given with the step stands in for the result
	Continue OnError = "continue" // they run: what refers to its result reads null; later writes run too
)

// Tool is what is known of a tool before a call of it.
type Tool struct {
	Name         string                 // as the client calls it
	Configured   string                 // as the configuration names it
	Input        *schema.Schema         // of its arguments; nil: any object
	Output       []byte                 // JSON Schema of its structured result; nil: it has none
	Writes       func(args []byte) bool // whether a call may change something; args nil: not all of them are known
	Domains      []string               // that its calls read or write
	Host         string                 // whose limits count
	Capacity     int                    // calls that host takes at once; 0: any number
	Mean, P90    time.Duration          // of a call; 0: not known
	Tokens       int                    // of a usual answer
	Value        float64                // of an answer
	Probability  float64                // that an answer is of use; 0: not known
	Discloses    func() bool            // whether it sends its arguments to third parties that they name; nil: it does not
	Unclassified bool                   // nothing says whether its calls change something
}

// discloses reports whether third parties see the tool's calls.
func (t *Tool) discloses() bool { return t != nil && t.Discloses != nil && t.Discloses() }

// Limits bound plans.
type Limits struct {
	Steps    int           // of a plan
	Parallel int           // calls under way at once
	Depth    int           // steps that wait for each other in a row
	Bytes    int           // results held at once, and arguments of one call
	Budget   int           // tokens of what comes back, the answer's reserve included
	Reserve  float64       // share of the budget kept for the model's answer
	Timeout  time.Duration // of a plan; 0: none
	ReadOnly bool          // a plan with a step that may write is refused

	NoOptional bool // optional steps are not run: what their client may be given is used up
}

// ResultTokens is how many tokens of a budget may come back: what the model's answer does
// not need.
func (l *Limits) ResultTokens(budget int) int {
	return int(float64(budget) * (1 - min(max(l.Reserve, 0), 1)))
}

// Options are what a plan is checked against.
type Options struct {
	Limits
	Find   func(name string) *Tool // nil: there is none of that name
	Names  func() []string         // all of them, to name the nearest to one that is unknown; nil: none
	Params []byte                  // of a named plan: a JSON object; nil: the plan has no parameters
}

// Result is what came of one call.
type Result struct {
	JSON    []byte   // the value that references read; nil: the call failed
	Text    string   // the text that JSON was read off; "": it was none
	Blocks  [][]byte // content that is no text, each as JSON: handed on, never looked at
	Bytes   int      // of the whole answer
	Err     string   // why the call failed; "": it did not
	InDoubt bool     // of a call that failed: it may have been run
	Source  string   // where the answer came from: fetched, hit, joined; "": not known
}

// State is how a step ended.
type State string

// A step that has not begun when its plan ends is cancelled.
const (
	OK        State = "ok"
	Failed    State = "failed"
	Skipped   State = "skipped"
	Cancelled State = "cancelled"
)

// Status is what became of a step.
type Status struct {
	Step    *Step
	State   State
	Reason  string        // why it is not ok, or what was left out; "": nothing to say
	Took    time.Duration // from its first call to its last answer
	Tokens  int           // of its result if that comes back; of items: of each, and one between them
	Bytes   int           // of its answers
	Calls   int           // made for it
	Source  string        // of its answer; of several: the one they have in common, else ""
	InDoubt bool          // it may have changed something unseen
	Result  Result        // kept as long as a step or the client needs it; JSON of a step with ForEach: an array
	Benign  bool          // skipped though nothing failed: a condition or the budget kept it, or one whose result it needs, from running
	Output  bool          // its result comes back
}

// Report is what became of a plan.
type Report struct {
	Steps    []*Status // as in the plan
	Makespan time.Duration
	Ended    string // why it ended before its end; "": it did not
}
