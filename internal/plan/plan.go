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
//	p, err := plan.Read(arguments, nil, plan.Options{Limits: limits, Find: tools})
//	report, err := runner.Serve(ctx, p)
//
// The way of a plan, with the files in parentheses:
//
//	Read            fills in the parameters of a configured plan (named), and parses the plan:
//	  Parse         reads the steps (parse, template, condition), orders them (graph) and checks
//	                them against their tools (check)
//	Runner.Serve    asks the user to confirm the plan (confirm), runs it and answers (serve):
//	  Runner.Run    selects the optional steps (forecast), schedules the steps (run, step), fills
//	                in the references (fill), makes the calls (call, result) and stores the results
//	                that a step or the client needs
//	  Report.Answer cuts the results to the budget (report); Kept stores the complete ones (kept)
//	Runner.Forecast is the answer of a dry run instead (forecast)
//
// The package knows neither servers nor tool classes: the properties of a tool, the function that
// makes calls and the user's confirmation are passed in.
package plan

import (
	"encoding/json"
	"time"

	"mcpschedd/internal/schema"
)

// Plan is a parsed and checked plan.
type Plan struct {
	Steps   []*Step // in the order of the plan
	Outputs []*Step // in the requested order
	Budget  int     // maximum tokens of the outputs, including the reserve; never above the limit
	DryRun  bool    // return a forecast instead of running the plan
	Params  []byte  // a JSON object; nil if it has none
}

// Step is one call of a plan, or one call per item of an array. It has more fields than most
// types because it has one for almost every member of a step. The indexes of other steps are
// sorted.
type Step struct {
	ID         string
	Index      int           // position in the plan
	Tool       *Tool         // the tool to call
	Needs      []int         // steps that it refers to
	Waits      []int         // steps that it requires: Needs, and those in depends_on
	OrderAfter []int         // other steps that it follows only to keep the order within a domain: it runs even if these fail or are skipped
	Writes     bool          // it may have side effects, as far as known before the run
	When       *condition    // nil if it always runs
	ForEach    *Ref          // reference to the array of items; nil for one call
	MaxItems   int           // the report mentions further ones
	Parallel   int           // maximum concurrent calls of items; 0 means no limit
	Timeout    time.Duration // of each call; zero means none
	Retry      int           // retries after a failure; reads only
	OnError    OnError       // with ForEach also of each item
	Default    []byte        // if OnError is Default: replaces the result, or with ForEach that of an item, and the whole result only if the step fails as a whole
	Optional   bool          // it only reads, and runs only if the budget has room or a step that runs refers to it
	MaxTokens  int           // maximum tokens of its output; 0 means what the budget allows

	arguments   any     // a template
	constant    []byte  // the arguments, if they have no references
	worth       float64 // of its result, relative to other steps; the member "value"
	probability float64 // that the result is of use
	dependsOn   []string
	refs        []*Ref                     // in its arguments, condition and items
	written     map[string]json.RawMessage // its members
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
	Writes       func(args []byte) bool // whether a call may have side effects; args is nil if not all are known; required
	Domains      []string               // domains that its calls read or write
	Host         string                 // host with the limits of its calls
	Capacity     int                    // maximum concurrent calls of the host; 0 means no limit
	Mean         time.Duration          // duration of a call; 0 if not known
	Tokens       int                    // tokens of a typical result
	Worth        float64                // worth of a result, relative to other tools; a step may override it
	Discloses    func() bool            // whether it sends its arguments to third parties named in them; nil means no
	OnlyRead     bool                   // its calls may only read, as it is not listed ([server].search_reach)
	Searched     bool                   // it is not listed, so that a call of it that may write needs the user too
	Unclassified bool                   // it is not known whether it may have side effects
	Replaced     func() bool            // whether the name belongs to another server now; nil means no
}

// discloses reports whether third parties see the tool's calls.
func (t *Tool) discloses() bool { return t.Discloses != nil && t.Discloses() }

// Limits are the limits of a plan. The tags are keys of [plan] in the configuration.
type Limits struct {
	Steps    int           `toml:"max_steps" default:"100" min:"1"`                          // maximum number of steps
	Parallel int           `toml:"max_parallel" default:"8" min:"1"`                         // maximum concurrent calls
	Depth    int           `toml:"max_depth" default:"32" min:"1"`                           // maximum length of a dependency chain
	Bytes    int           `toml:"max_result_bytes" unit:"bytes" default:"16MiB" min:"1024"` // bytes of all stored results together, and of the arguments of one call
	Budget   int           `toml:"budget_tokens" default:"10000" min:"1"`                    // tokens of the outputs, including the reserve
	Reserve  float64       `toml:"reserve" default:"0.25" min:"0" max:"1"`                   // share of the budget reserved for the model's answer
	Timeout  time.Duration `toml:"timeout"`                                                  // duration of a plan; zero means no limit
}

// ResultTokens returns the part of a budget that outputs may use: the budget less the reserve, but at
// least one token, as zero would mean no limit.
func (l *Limits) ResultTokens(budget int) int {
	return max(int(float64(budget)*(1-l.Reserve)), 1)
}

// Options are the options of [Parse].
type Options struct {
	Limits
	ReadOnly bool                    // refuse plans with a step that may write
	Find     func(name string) *Tool // returns nil for an unknown tool
	Names    func() []string         // returns all tool names, for suggestions; may be nil
	Params   []byte                  // parameters of a named plan, a JSON object; nil if the plan has none
}
