package plan

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

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
	Step   *Step
	State  State
	Reason string        // why it is not ok or what was omitted; may be empty
	Took   time.Duration // from the start of its first call to its last answer
	Tokens int           // tokens of its output; with ForEach, of each item plus one separator each
	Bytes  int           // bytes of its responses
	Calls  int           // number of calls
	Source string        // source of its last result
	Result Result        // stored if a step or the client needs it; with ForEach a JSON array
	Benign bool          // skipped without a failure: because of a condition, the budget or another benign skip
	Output bool          // its result is an output
	chain  int           // calls of the longest chain of steps up to this one
}

// Report is the outcome of a plan.
type Report struct {
	Steps    []*Status // as in the plan
	Makespan time.Duration
	Ended    string // why the plan ended early; empty if it completed

	// Set by Runner.Serve.
	Structured []byte   // the answer
	Blocks     [][]byte // see Answer
	Cancelled  bool     // by the client
}

// ChainLength returns the length of the longest chain of calls that needed each other: the
// minimum number of turns for a client without plans. Steps that only keep the order within a
// domain do not need each other, and all items of a step count as one call.
func (r *Report) ChainLength() (longest int) {
	for _, st := range r.Steps {
		longest = max(longest, st.chain)
	}
	return longest
}

// defaulted reports whether the default of a step is its result, as it failed or was skipped
// because of a failure.
func (st *Status) defaulted() bool {
	return st.Step.OnError == Default && !st.Benign && (st.State == Failed || st.State == Skipped)
}

// Failed reports whether the plan has no output because of failures: each output step failed, was
// skipped because of a failure, or never started.
func (r *Report) Failed() bool {
	outputs := 0
	for _, st := range r.Steps {
		if !st.Output {
			continue
		}
		if st.State == OK || st.Benign || st.defaulted() {
			return false
		}
		outputs++
	}
	return outputs > 0
}

// Answer returns the result of the plan, with the status of each step and the outputs, as one
// JSON object:
//
//	{"steps": [{"id", "status", "reason", "ms", "tokens", "source", "calls"}],
//	 "outputs": {"ID": value},
//	 "handle": "to all results",
//	 "left_out": [{"pointer": "/ID/items", "what", "offset", "count", "bytes"}],
//	 "ended": "why the plan ended early"}
//
// The source "fetched" is omitted.
//
// The answer fits the limit. The outputs form one object, which package excerpt cuts if
// necessary; pointers of omissions are relative to it. If anything is omitted, the complete
// outputs and the statuses, as "$steps", are stored once with keep. A failed step has no output but
// its default. If the outputs do not fit, the status of the steps is shortened, first that of reads
// that are ok, and steps_left_out is the number of omitted ones. "$steps" is then an omission if
// anything is missing about failures and writes. The answer exceeds the limit only if even that
// does not fit.
//
// Blocks are the images and other non-text content of the output steps, in the requested order,
// each step's after a text with its id. They do not count against the limit.
func (r *Report) Answer(p *Plan, limit excerpt.Limit, keep func(value []byte) (handle string)) (structured []byte, blocks [][]byte) {
	var all, outputs object
	var left []excerpt.Omission
	tokens := 0
	for _, s := range p.Outputs {
		st := r.Steps[s.Index]
		one := member{s.ID, st.Result.JSON}
		if st.defaulted() {
			one.value = s.Default
			tokens += len(s.Default) // a token has at least one byte
		} else if st.State != OK {
			continue
		}
		all = append(all, one)
		if st.State == OK && s.MaxTokens > 0 && s.MaxTokens < st.Tokens {
			var omitted []excerpt.Omission
			one.value, omitted = excerpt.Limit{Tokens: s.MaxTokens, Count: limit.Count}.Cut(st.Result.JSON)
			for _, l := range omitted {
				l.Pointer = "/" + s.ID + l.Pointer
				left = append(left, l)
			}
			tokens -= st.Tokens - s.MaxTokens
		}
		tokens += st.Tokens + len(s.ID)
		outputs = append(outputs, one)
		if len(st.Result.Blocks) > 0 {
			blocks = append(append(blocks, fmt.Appendf(nil, `{"type":"text","text":"step %s:"}`, s.ID)), st.Result.Blocks...)
		}
	}
	full, _ := r.rows(form{full: true, reason: maxReason})
	statuses := jsonrpc.Get(append(slices.Clone(full), '}'), "steps")
	all = append(all, member{allSteps, statuses})
	a := &reply{r, full, statuses, render(outputs), left, sync.OnceValue(func() string { return keep(render(all)) })}
	return a.fit(limit, tokens), blocks
}

// reply builds an answer within a limit.
type reply struct {
	report   *Report
	full     []byte                 // beginning of the answer, with the full status of each step
	statuses []byte                 // the JSON array of these
	outputs  []byte                 // JSON object of the outputs, each cut to the max_tokens of its step
	left     []excerpt.Omission     // omissions in outputs
	keep     func() (handle string) // stores the outputs and the statuses when it is first called
}

// fit returns the answer with the full status of each step if it fits. Otherwise it shortens the
// status, to at most a third of the limit, and the outputs. tokens is the size of the outputs.
func (a *reply) fit(limit excerpt.Limit, tokens int) []byte {
	steps := len(a.report.Steps)
	if limit.Tokens <= 0 || tokens <= limit.Tokens {
		text := a.assemble(a.full, a.outputs, a.left)
		// Counting the tokens of the text is slow: for a hundred short calls it takes a fifth as long
		// as all other work of the plan. The tokens of the outputs are known, and the rest has at most
		// one for each of its bytes; if that fits, only the characters are left to check.
		unchecked := limit
		if tokens+len(text)-len(a.outputs) <= limit.Tokens {
			unchecked.Tokens = 0
		}
		if unchecked.Allows(text) {
			return text
		}
	}
	third := excerpt.Limit{Tokens: limit.Tokens / 3, Chars: limit.Chars / 3, Count: limit.Count}
	forms := []form{
		{full: true, reason: maxReason}, {limit: steps, writes: true, reason: maxReason}, {limit: steps, reason: maxReason}, {limit: steps, reason: mediumReason},
	}
	for n := steps; n > 0; n /= 2 {
		forms = append(forms, form{limit: n, reason: shortReason})
	}
	var rows []byte
	var lost bool
	for _, f := range forms {
		if rows, lost = a.report.rows(f); third.Allows(rows) {
			break
		}
	}
	build := func(chars int) []byte {
		out, left := excerpt.Cut(a.outputs, chars)
		if left = slices.Concat(left, a.left); lost {
			left = slices.Insert(left, 0, excerpt.Omission{Pointer: "/" + allSteps, What: "items", Count: steps, Bytes: len(a.statuses)})
		}
		return a.assemble(rows, out, left)
	}
	if text := limit.Fit(len(a.outputs), build); text != nil {
		return text
	}
	rows, lost = a.report.rows(form{limit: 1}) // which build uses: the shortest answer, with one failure and no outputs, may exceed the limit
	return build(0)
}

// assemble returns the complete answer.
func (a *reply) assemble(rows, outputs []byte, left []excerpt.Omission) []byte {
	text := append(append(slices.Clone(rows), `,"outputs":`...), outputs...)
	if len(left) > 0 {
		if handle := a.keep(); handle != "" {
			text = jsonrpc.AppendString(append(text, `,"handle":`...), handle)
		}
		text = append(append(text, `,"left_out":`...), jsonrpc.Marshal(summary(left))...)
	}
	if a.report.Ended != "" {
		text = jsonrpc.AppendString(append(text, `,"ended":`...), a.report.Ended)
	}
	return append(text, '}')
}

// maxLeft is the number of omissions listed individually.
const maxLeft = 12

// summary returns the first omissions, and the others as one.
func summary(all []excerpt.Omission) []excerpt.Omission {
	if len(all) <= maxLeft {
		return all
	}
	rest := excerpt.Omission{What: "more"}
	for _, l := range all[maxLeft:] {
		rest.Count += l.Count
		rest.Bytes += l.Bytes
	}
	return append(slices.Clone(all[:maxLeft]), rest)
}

// row is the status of a step.
type row struct {
	ID     string `json:"id"`
	Status State  `json:"status"`
	Reason string `json:"reason,omitempty"`
	MS     *int64 `json:"ms,omitempty"`
	Tokens int    `json:"tokens,omitempty"`
	Source string `json:"source,omitempty"`
	Calls  int    `json:"calls,omitempty"`
}

// allSteps is the stored member with the full status of each step, which is no step's id.
const allSteps = "$steps"

// Maximum bytes of a reason if the answer must be shortened.
const (
	mediumReason = 150
	shortReason  = 40
)

// form says how much of the statuses an answer has.
type form struct {
	full   bool // all of each step; otherwise only of steps that are not ok, failed ones first
	writes bool // also of those that are ok and wrote
	limit  int  // maximum number of steps, unless full
	reason int  // maximum bytes of a reason
}

// rows returns the beginning of the answer: the statuses in a form. lost means that these do not
// tell all failures and writes.
func (r *Report) rows(f form) (head []byte, lost bool) {
	rows, steps := []row{}, slices.Clone(r.Steps)
	if !f.full {
		failed := func(st *Status) bool { return st.State == Failed }
		notFailed := func(st *Status) bool { return !failed(st) }
		steps = append(slices.DeleteFunc(slices.Clone(steps), notFailed), slices.DeleteFunc(steps, failed)...)
	}
	for _, st := range steps {
		one := row{ID: st.Step.ID, Status: st.State, Reason: excerpt.Shorten(st.Reason, f.reason)}
		plain, wrote := st.State == OK && st.Reason == "", st.Step.Writes && st.Calls > 0
		switch {
		case !f.full && (len(rows) == f.limit || plain && !(f.writes && wrote)):
			lost = lost || !plain || wrote
			continue
		case f.full && st.Calls > 0:
			ms := st.Took.Milliseconds()
			one.MS, one.Tokens, one.Source, one.Calls = &ms, st.Tokens, st.Source, st.Calls
			if st.Source == "fetched" { // the usual values are omitted to save tokens
				one.Source = ""
			}
			if st.Calls == 1 {
				one.Calls = 0
			}
		}
		lost = lost || one.Reason != st.Reason
		rows = append(rows, one)
	}
	head = jsonrpc.Marshal(struct {
		Steps []row `json:"steps"`
		Left  int   `json:"steps_left_out,omitempty"`
	}{rows, len(r.Steps) - len(rows)})
	return head[:len(head)-1], lost
}
