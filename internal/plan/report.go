package plan

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// Keeper keeps a value for reading later, and tells by what handle; "": it does not.
type Keeper func(value []byte) (handle string)

// Failed reports whether no result came back because of failures: each step whose
// result was to come back failed, was skipped for one that did, or never began.
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

// Answer is what the client gets: what became of each step, and the results of the
// output steps, as one JSON object:
//
//	{"steps": [{"id", "status", "reason", "ms", "tokens", "source", "calls"}],
//	 "outputs": {"ID": value},
//	 "handle": "to all results",
//	 "left_out": [{"pointer": "/ID/items", "what", "offset", "count", "bytes"}],
//	 "ended": "why the plan ended before its end"}
//
// A step without a source was fetched.
//
// It fits its limit. The outputs are one object, and what of it does not fit is left out
// as package excerpt does it and named by pointers into it; the whole is kept by keep,
// unless nil, once and only if anything is left out. A step that failed has no result
// here, whatever stands in for it in other steps. Of very many steps some may go untold;
// steps_left_out is how many did. Only where not even that fits is the answer longer.
//
// Blocks are the images and other content that is no text of the output steps, in
// the order asked for, each step's behind a text that names it. They are not
// counted.
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
	a.given = object(a.parts)
	return a.fit(limit), blocks
}

// reply is an answer that is made to fit.
type reply struct {
	report *Report
	parts  []part             // the results, each cut to the max_tokens of its step
	given  []byte             // object of these
	left   []excerpt.Omission // what that leaves out
	tokens int                // of given, each result counted alone
	keep   Keeper
	handle *string // to all results; nil: they were not kept yet
}

// part is a result as far as it may come back.
type part struct {
	*Status
	value []byte
}

// object is a JSON object of results.
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

// keepAll keeps all results whole.
func (a *reply) keepAll() (handle string) {
	if a.keep == nil {
		return ""
	}
	all := a.given
	if len(a.left) > 0 {
		whole := slices.Clone(a.parts)
		for i := range whole {
			whole[i].value = whole[i].Result.JSON
		}
		all = object(whole)
	}
	return a.keep(all)
}

// add adds the result of a step.
func (a *reply) add(st *Status, count func([]byte) int) {
	value, tokens := st.Result.JSON, st.Tokens
	if most := st.Step.MaxTokens; most > 0 && most < tokens {
		var left []excerpt.Omission
		value = excerpt.Limit{Tokens: most, Count: count}.Fit(len(value), func(chars int) (out []byte) {
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

// fit says all of each step if everything fits then, else less, in a third of the room or
// what the results leave of it.
func (a *reply) fit(limit excerpt.Limit) []byte {
	if text := a.whole(limit); text != nil {
		return text
	}
	size := utf8.RuneCount(a.given)
	rows := a.rows(limit, size)
	build := func(chars int) []byte {
		out, left := excerpt.Cut(a.given, chars)
		return a.assemble(rows, out, slices.Concat(left, a.left))
	}
	if text := limit.Fit(size, build); text != nil {
		return text
	}
	rows = a.report.rows(details[len(details)-1], 0)
	return build(0)
}

// whole is the answer with all that is to be said of the steps; nil if that does not fit.
func (a *reply) whole(limit excerpt.Limit) []byte {
	rows := a.report.rows(details[0], len(a.report.Steps))
	beside := a.assemble(rows, []byte("{}"), a.left)
	if limit.Chars > 0 && utf8.RuneCount(a.given)+utf8.RuneCount(beside) > limit.Chars {
		return nil
	}
	// A token has a byte at least. To count those of a plan of a hundred short calls takes as
	// long as a fifth of all else it does.
	if limit.Tokens > 0 && a.tokens+len(beside) > limit.Tokens && a.tokens+limit.CountTokens(beside) > limit.Tokens {
		return nil
	}
	return a.assemble(rows, a.given, a.left)
}

// rows are what is said of the steps beside results of so many characters that do not fit
// as they are.
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

// assemble puts the answer together.
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
	maxLeft    = 12  // parts left out that are named one by one
	maxPointer = 200 // bytes of the pointer to one
)

// summary bounds what is said of what is left out: the first parts, and the rest as one.
func summary(all []excerpt.Omission) (told []excerpt.Omission) {
	rest := excerpt.Omission{What: "more"}
	for _, l := range all {
		if len(told) < maxLeft && len(l.Pointer) <= maxPointer {
			told = append(told, l)
			continue
		}
		rest.Count += l.Count
		rest.Bytes += l.Bytes
	}
	if rest.Bytes > 0 {
		told = append(told, rest)
	}
	return told
}

// detail is how much is said of a step.
type detail struct {
	reason  int  // characters
	figures bool // time, tokens, source and calls
	ok      bool // of those that are ok too
}

var details = []detail{{maxReason, true, true}, {100, false, true}, {40, false, false}}

// row is what is said of a step.
type row struct {
	ID     string `json:"id"`
	Status State  `json:"status"`
	Reason string `json:"reason,omitempty"`
	MS     *int64 `json:"ms,omitempty"`
	Tokens int    `json:"tokens,omitempty"`
	Source string `json:"source,omitempty"`
	Calls  int    `json:"calls,omitempty"`
}

// rows is the beginning of the answer: what became of the steps, of so many at most.
func (r *Report) rows(d detail, most int) []byte {
	told := []row{}
	for _, st := range r.Steps {
		if len(told) == most || st.State == OK && st.Reason == "" && !d.ok {
			continue
		}
		one := row{ID: st.Step.ID, Status: st.State, Reason: excerpt.Shorten(st.Reason, d.reason)}
		if d.figures && st.Calls > 0 {
			ms := st.Took.Milliseconds()
			one.MS, one.Tokens = &ms, st.Tokens
			if st.Source != "fetched" { // which most are: it is not worth its tokens
				one.Source = st.Source
			}
			if st.Calls > 1 {
				one.Calls = st.Calls
			}
		}
		told = append(told, one)
	}
	head := jsonrpc.Marshal(struct {
		Steps []row `json:"steps"`
		Left  int   `json:"steps_left_out,omitempty"`
	}{told, len(r.Steps) - len(told)})
	return head[:len(head)-1]
}
