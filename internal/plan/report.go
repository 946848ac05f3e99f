package plan

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// Keeper stores a value for later reading and returns its handle, or "" if it does not store it.
type Keeper func(value []byte) (handle string)

// Failed reports whether the plan has no output because of failures: each output step failed, was
// skipped because of a failure, or never started.
func (r *Report) Failed() bool {
	outputs := 0
	for _, st := range r.Steps {
		if !st.Output {
			continue
		}
		if st.State == OK || st.Benign {
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
// outputs are stored once with keep, unless it is nil. A failed step has no output, even if it
// has a default. If there are very many steps, some are omitted and steps_left_out is their
// number. The answer exceeds the limit only if even that does not fit.
//
// Blocks are the images and other non-text content of the output steps, in the requested order,
// each step's after a text with its id. They do not count against the limit.
func (r *Report) Answer(p *Plan, limit excerpt.Limit, keep Keeper) (structured []byte, blocks [][]byte) {
	a := &reply{report: r, keep: keep}
	for _, id := range p.Outputs {
		st := r.Steps[p.index(id)]
		if st.State != OK {
			continue
		}
		a.add(st, limit.CountTokens)
		if len(st.Result.Blocks) > 0 {
			owner := append(jsonrpc.AppendString([]byte(`{"type":"text","text":`), "step "+id+":"), '}')
			blocks = append(append(blocks, owner), st.Result.Blocks...)
		}
	}
	a.outputs = object(a.parts)
	return a.fit(limit), blocks
}

// reply builds an answer within a limit.
type reply struct {
	report  *Report
	parts   []part             // the outputs, each cut to the max_tokens of its step
	outputs []byte             // JSON object of the parts
	left    []excerpt.Omission // omissions in outputs
	tokens  int                // tokens of outputs, counted per part
	keep    Keeper
	handle  *string // handle of the stored outputs; nil if not stored yet
}

// part is an output, cut to the max_tokens of its step.
type part struct {
	*Status
	value []byte
}

// object returns a JSON object of the parts.
func object(parts []part) []byte {
	size := 2
	for _, one := range parts {
		size += len(one.Step.ID) + len(one.value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, one := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, one.Step.ID), ':'), one.value...)
	}
	return append(out, '}')
}

// keepAll stores all complete outputs.
func (a *reply) keepAll() (handle string) {
	if a.keep == nil {
		return ""
	}
	all := a.outputs
	if len(a.left) > 0 {
		whole := slices.Clone(a.parts)
		for i := range whole {
			whole[i].value = whole[i].Result.JSON
		}
		all = object(whole)
	}
	return a.keep(all)
}

// add adds the output of a step.
func (a *reply) add(st *Status, count func([]byte) int) {
	value, tokens := st.Result.JSON, st.Tokens
	if limit := st.Step.MaxTokens; limit > 0 && limit < tokens {
		var left []excerpt.Omission
		value = excerpt.Limit{Tokens: limit, Count: count}.Fit(len(value), func(chars int) (out []byte) {
			out, left = excerpt.Cut(st.Result.JSON, chars)
			return out
		})
		if value == nil {
			value, left = excerpt.Cut(st.Result.JSON, 0)
		}
		for _, l := range left {
			l.Pointer = "/" + st.Step.ID + l.Pointer
			a.left = append(a.left, l)
		}
		tokens = count(value)
	}
	a.parts = append(a.parts, part{st, value})
	a.tokens += tokens + len(st.Step.ID) + 4
}

// fit returns the full answer if it fits. Otherwise the status of the steps is shortened to a
// third of the limit, or to the space that the outputs leave.
func (a *reply) fit(limit excerpt.Limit) []byte {
	if text := a.full(limit); text != nil {
		return text
	}
	size := utf8.RuneCount(a.outputs)
	rows := a.rows(limit, size)
	build := func(chars int) []byte {
		out, left := excerpt.Cut(a.outputs, chars)
		return a.assemble(rows, out, slices.Concat(left, a.left))
	}
	if text := limit.Fit(size, build); text != nil {
		return text
	}
	rows = a.report.rows(details[len(details)-1], 0)
	return build(0)
}

// full returns the answer with the full status of each step, or nil if it does not fit.
func (a *reply) full(limit excerpt.Limit) []byte {
	rows := a.report.rows(details[0], len(a.report.Steps))
	beside := a.assemble(rows, []byte("{}"), a.left)
	if limit.Chars > 0 && utf8.RuneCount(a.outputs)+utf8.RuneCount(beside) > limit.Chars {
		return nil
	}
	// A token has at least one byte. Counting the tokens of a plan of a hundred short calls takes
	// a fifth as long as the rest of its work.
	if limit.Tokens > 0 && a.tokens+len(beside) > limit.Tokens && a.tokens+limit.CountTokens(beside) > limit.Tokens {
		return nil
	}
	return a.assemble(rows, a.outputs, a.left)
}

// rows returns the status of the steps beside outputs of size characters that do not fit.
func (a *reply) rows(limit excerpt.Limit, size int) (rows []byte) {
	const unlimited = math.MaxInt32
	mostTokens, mostChars := cmp.Or(max(limit.Tokens, 0), unlimited), cmp.Or(max(limit.Chars, 0), unlimited)
	steps, tokens, chars := len(a.report.Steps), 0, 0
	for _, d := range details {
		rows = a.report.rows(d, steps)
		tokens, chars = limit.CountTokens(rows), utf8.RuneCount(rows)
		if tokens <= max(mostTokens/3, mostTokens-a.tokens) && chars <= max(mostChars/3, mostChars-size) {
			return rows
		}
	}
	fits := min(mostTokens/3*steps/tokens, mostChars/3*steps/chars)
	return a.report.rows(details[len(details)-1], fits)
}

// assemble returns the complete answer.
func (a *reply) assemble(rows, outputs []byte, left []excerpt.Omission) []byte {
	text := append(append(slices.Clone(rows), `,"outputs":`...), outputs...)
	if len(left) > 0 {
		if a.handle == nil {
			handle := a.keepAll()
			a.handle = &handle
		}
		if *a.handle != "" {
			text = jsonrpc.AppendString(append(text, `,"handle":`...), *a.handle)
		}
		text = append(append(text, `,"left_out":`...), jsonrpc.Marshal(summary(left))...)
	}
	if a.report.Ended != "" {
		text = jsonrpc.AppendString(append(text, `,"ended":`...), a.report.Ended)
	}
	return append(text, '}')
}

const (
	maxLeft    = 12  // omissions listed individually
	maxPointer = 200 // bytes of the pointer of a listed omission
)

// summary returns the first omissions, and the others as one.
func summary(all []excerpt.Omission) (shown []excerpt.Omission) {
	rest := excerpt.Omission{What: "more"}
	for _, l := range all {
		if len(shown) < maxLeft && len(l.Pointer) <= maxPointer {
			shown = append(shown, l)
			continue
		}
		rest.Count += l.Count
		rest.Bytes += l.Bytes
	}
	if rest.Bytes > 0 {
		shown = append(shown, rest)
	}
	return shown
}

// detail is the amount of detail about a step.
type detail struct {
	reason  int  // characters of the reason
	figures bool // include time, tokens, source and calls
	ok      bool // include steps that are ok
}

var details = []detail{{maxReason, true, true}, {100, false, true}, {40, false, false}}

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

// rows returns the beginning of the answer: the status of at most limit steps.
func (r *Report) rows(d detail, limit int) []byte {
	rows := []row{}
	for _, st := range r.Steps {
		if len(rows) == limit || st.State == OK && st.Reason == "" && !d.ok {
			continue
		}
		one := row{ID: st.Step.ID, Status: st.State, Reason: excerpt.Shorten(st.Reason, d.reason)}
		if d.figures && st.Calls > 0 {
			ms := st.Took.Milliseconds()
			one.MS, one.Tokens = &ms, st.Tokens
			if st.Source != "fetched" { // the usual case is omitted to save tokens
				one.Source = st.Source
			}
			if st.Calls > 1 {
				one.Calls = st.Calls
			}
		}
		rows = append(rows, one)
	}
	head := jsonrpc.Marshal(struct {
		Steps []row `json:"steps"`
		Left  int   `json:"steps_left_out,omitempty"`
	}{rows, len(r.Steps) - len(rows)})
	return head[:len(head)-1]
}
