// Package plan parses, checks and runs a DAG of tool calls that a client sends in one request.
//
// A plan is data. References are found in the parsed tree before anything runs, so all mistakes
// are reported before the first call, and the values they resolve to are never scanned for
// references. Each call starts as soon as its last input is available.
//
//	{"steps": [
//	  {"id": "issues", "tool": "search_issues", "arguments": {"query": "is:open"}},
//	  {"id": "first", "tool": "get_issue", "arguments": {"number": {"$ref": "issues#/items/0/number"}}}
//	], "output_steps": ["first"]}
//
//	p, defects := plan.Parse(raw, plan.Options{Limits: limits, Find: tools})
//	report := runner.Run(ctx, p)
//
// The stages of a plan:
//
//	Parse          parses the steps (parse, steps, template), their dependencies (graph) and
//	               checks them against their tools (check): an immutable Plan
//	Plan           before the run: confirmation (confirm), dry run (forecast), selection of
//	               optional steps (choose)
//	Runner.Run     schedules the steps (run, rules), makes the calls (call, foreach) and stores
//	               results while they are needed (results)
//	Report.Answer  the result of the plan within its budget (report)
//
// The package knows neither servers nor tool classes: the properties of a tool, the function that
// makes calls and the user's confirmation are passed in. It does not store results for later
// reading.
package plan

import (
	"time"

	"mcpschedd/internal/schema"
)

// Plan is a parsed and checked plan.
type Plan struct {
	Steps   []*Step  // in the order of the plan
	Outputs []string // ids of the output steps, in the requested order
	Budget  int      // maximum tokens of the outputs; never above the limit
	DryRun  bool     // return a forecast instead of running the plan
	Params  []byte   // a JSON object; nil if it has none
	byID    map[string]int
}

// index returns the index of the step with an id, or -1.
func (p *Plan) index(id string) int {
	if i, ok := p.byID[id]; ok {
		return i
	}
	return -1
}

// Step is one call of a plan, or one call per item of an array. It has more fields than most
// types because it has one for almost every member of a step.
type Step struct {
	ID        string
	Index     int   // position in the plan
	Tool      *Tool // the tool to call
	Arguments *Template
	After     []int // all dependencies: references, depends_on and writes of its domains; sorted
	Needs     []int // the subset of After that it refers to; sorted
	Order     []int // the subset of After that only keeps the order within a domain: it runs even if these fail or are skipped
	Writes    bool  // it may have side effects, as far as known before the run

	When      *Condition    // nil means always
	ForEach   *ForEach      // nil means one call
	Timeout   time.Duration // of each call; zero means none
	Retry     int           // retries after a failure; 0 if it may write
	OnError   OnError
	Default   []byte // replaces the result if OnError is Default
	Optional  bool   // it only reads, and runs only if the budget has room for it
	Worth     Worth
	MaxTokens int    // maximum tokens of its output; 0 means what the budget allows
	written   []byte // the step as written
	refs      []*Ref // references in its arguments, condition and items
}

// ForEach means that a step is called once for each item of an array.
type ForEach struct {
	Items    *Ref // reference to the array
	MaxItems int  // maximum number of items; the report mentions further ones
	Parallel int  // maximum concurrent calls; 0 means no limit
}

// Worth is the expected value of a step's result.
type Worth struct {
	Value       float64
	Probability float64 // that the result is useful
}

// OnError is the handling of a failed step.
type OnError string

// The values of on_error.
const (
	Fail     OnError = "fail"     // skip all dependent steps (the default)
	Skip     OnError = "skip"     // skip only the steps that refer to the result
	Default  OnError = "default"  // use the step's default value as its result
	Continue OnError = "continue" // run all dependent steps: references to the result are null; later writes run too
)

// Tool has the properties of a tool.
type Tool struct {
	Name         string                 // the name at the client
	Configured   string                 // the name in the configuration
	Input        *schema.Schema         // schema of the arguments; nil accepts any object
	Output       []byte                 // JSON Schema of structuredContent; nil if none
	Writes       func(args []byte) bool // whether a call may have side effects; args is nil if not all are known
	Domains      []string               // domains that its calls read or write
	Host         string                 // host with the limits of its calls
	Capacity     int                    // maximum concurrent calls of the host; 0 means no limit
	Mean, P90    time.Duration          // duration of a call; 0 if not known
	Tokens       int                    // tokens of a typical result
	Value        float64                // value of a result
	Probability  float64                // that a result is useful; 0 if not known
	Discloses    func() bool            // whether it sends its arguments to third parties named in them; nil means no
	Unclassified bool                   // it is not known whether it may have side effects
}

// discloses reports whether third parties see the tool's calls.
func (t *Tool) discloses() bool { return t != nil && t.Discloses != nil && t.Discloses() }

// Limits are the limits of a plan. Zero means no limit.
type Limits struct {
	Steps    int           // maximum number of steps
	Parallel int           // maximum concurrent calls
	Depth    int           // maximum length of a dependency chain
	Bytes    int           // bytes of results stored at a time, and of the arguments of one call
	Budget   int           // tokens of the outputs, including the reserve
	Reserve  float64       // share of the budget reserved for the model's answer
	Timeout  time.Duration // duration of a plan
	ReadOnly bool          // reject plans with a step that may write

	NoOptional bool // run no optional steps, because the client's budget is used up
}

// ResultTokens returns the part of a budget that outputs may use: the budget less the reserve.
func (l *Limits) ResultTokens(budget int) int {
	return int(float64(budget) * (1 - min(max(l.Reserve, 0), 1)))
}

// Options are the options of [Parse].
type Options struct {
	Limits
	Find   func(name string) *Tool // returns nil for an unknown tool
	Names  func() []string         // returns all tool names, for suggestions; may be nil
	Params []byte                  // parameters of a named plan, a JSON object; nil if the plan has none
}

// Result is the result of one call.
type Result struct {
	JSON    []byte   // the value for references; nil if the call failed
	Text    string   // the text that JSON was parsed from; empty if none
	Blocks  [][]byte // content blocks that are not text, as JSON; passed through
	Bytes   int      // bytes of the whole response
	Err     string   // why the call failed; empty if it succeeded
	InDoubt bool     // a failed call may have run
	Source  string   // fetched, hit or joined; empty if not known
}

// State is the final state of a step.
type State string

// A step that has not started when its plan ends is cancelled.
const (
	OK        State = "ok"
	Failed    State = "failed"
	Skipped   State = "skipped"
	Cancelled State = "cancelled"
)

// Status is the outcome of a step.
type Status struct {
	Step    *Step
	State   State
	Reason  string        // why it is not ok or what was omitted; may be empty
	Took    time.Duration // from the start of its first call to its last answer
	Tokens  int           // tokens of its output; with ForEach, of each item plus one separator each
	Bytes   int           // bytes of its responses
	Calls   int           // number of calls
	Source  string        // source of its results; empty if they differ
	InDoubt bool          // its writes may or may not have been made
	Result  Result        // stored while a step or the client needs it; with ForEach a JSON array
	Benign  bool          // skipped without a failure: because of a condition, the budget or another benign skip
	Output  bool          // its result is an output
}

// Report is the outcome of a plan.
type Report struct {
	Steps    []*Status // as in the plan
	Makespan time.Duration
	Ended    string // why the plan ended early; empty if it completed
}
