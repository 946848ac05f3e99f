package plan

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// Keeper keeps a value for reading later, and tells by what handle; "": it does not.
type Keeper func(v Value) (handle string)

// Failed reports whether no result came back because of failures: each step whose
// result was to come back failed, was skipped for one that did, or never began.
func (r *Report) Failed() bool {
	outputs := 0
	for _, st := range r.Steps {
		if !st.Output {
			continue
		}
		if st.State == OK || st.Void {
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
// It has at most so many tokens by count (nil: bytes/4) and Unicode characters, 0
// and less: any number. Small results are whole before a large one gets more than
// they, and where there are too many for each to get a piece worth reading, the
// smallest get theirs. What is left out is named by a pointer into one object of
// all results, {"ID": value}, which is kept by keep, unless nil, once and only if
// anything is left out; results that not even a name has room for are counted, as
// "what": "outputs". A step that failed has no result here, whatever stands in for
// it in other steps. Of very many steps those that are ok may go untold;
// steps_left_out is how many did. Only where not even that fits is the answer
// longer.
//
// Blocks are the images and other content that is no text of the output steps, in
// the order asked for, each step's behind a text that names it. They are not
// counted.
func (r *Report) Answer(p *Plan, tokens, chars int, count func([]byte) int, keep Keeper) (structured []byte, blocks [][]byte) {
	if count == nil {
		count = func(text []byte) int { return len(text) / 4 }
	}
	a := &answering{report: r, room: room{tokens, chars}.bounded(), count: count, keep: keep}
	for _, id := range p.Outputs {
		i := slices.IndexFunc(r.Steps, func(st *Status) bool { return st.Step.ID == id })
		if st := r.Steps[i]; st.State == OK {
			a.outputs = append(a.outputs, &output{Status: st, chars: utf8.RuneCount(st.Result.JSON)})
			if len(st.Result.Blocks) > 0 {
				blocks = append(append(blocks, named(id)), st.Result.Blocks...)
			}
		}
	}
	return a.answer(), blocks
}

// named is the block before those of a step.
func named(id string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"type":"text","text":`), "step "+id+":"), '}')
}

// room is how much a text may be.
type room struct{ tokens, chars int }

func (r room) bounded() room {
	if r.tokens <= 0 {
		r.tokens = math.MaxInt / 4
	}
	if r.chars <= 0 {
		r.chars = math.MaxInt / 4
	}
	return r
}

func (r room) less(by room) room { return room{r.tokens - by.tokens, r.chars - by.chars} }

func (r room) within(most room) bool { return r.tokens <= most.tokens && r.chars <= most.chars }

// answering makes an answer that fits.
type answering struct {
	report  *Report
	room    room
	count   func([]byte) int
	keep    Keeper
	outputs []*output // in the order asked for
	handle  *string   // to all of them; nil: they were not kept yet
}

func (a *answering) size(text []byte) room { return room{a.count(text), utf8.RuneCount(text)} }

// answer cuts the results to what the rest leaves. How much they may have is known
// when what is left out has been named, so it is found in rounds.
func (a *answering) answer() []byte {
	if text := a.whole(); text != nil {
		return text
	}
	steps := a.steps()
	left := a.room.less(a.size(a.assemble(steps, nil)))
	for range maxRounds {
		if left.tokens <= 0 || left.chars <= 0 {
			break
		}
		if !a.share(left) {
			break
		}
		text := a.assemble(steps, a.outputs)
		over := a.size(text).less(a.room)
		if over.within(room{}) {
			return text
		}
		left = left.less(room{max(over.tokens, 0) * 5 / 4, max(over.chars, 0)})
	}
	return a.bare(steps)
}

// whole is the answer with every result and all that is said of the steps, if that
// fits for certain: no token is of less than a byte, so most of it need not be
// counted. nil: it has to be looked at closely.
func (a *answering) whole() []byte {
	tokens := 2 * a.count([]byte(fixed))
	for _, o := range a.outputs {
		if o.most() < o.Tokens {
			return nil
		}
		tokens += o.Tokens + len(o.Step.ID) + 4
	}
	row := a.count([]byte(fixedRow))
	for _, st := range a.report.Steps {
		tokens += row + len(st.Step.ID) + len(st.Reason) + len(st.Source) + mostDigits
	}
	if tokens+len(a.report.Ended) > a.room.tokens {
		return nil
	}
	for _, o := range a.outputs {
		o.text = o.Result.JSON
	}
	if text := a.assemble(a.describe(details[0], math.MaxInt), a.outputs); utf8.RuneCount(text) <= a.room.chars {
		return text
	}
	for _, o := range a.outputs {
		o.text = nil
	}
	return nil
}

// What an answer, and a row about a step, have besides names and numbers.
const (
	fixed      = `{"steps":[ ],"outputs":{ },"ended":" "}`
	fixedRow   = `,{"id":" ","status":"cancelled","reason":" ","ms": ,"tokens": ,"source":" ","calls": }`
	mostDigits = 16 // of a row's numbers, beyond the one each that is counted
)

const maxRounds = 8

// bare leaves all results out, and names as many of them as fit.
func (a *answering) bare(steps []byte) []byte {
	for named := len(a.outputs); named > 0; named /= 2 {
		for i, o := range a.outputs {
			o.omit(i < named)
		}
		if text := a.assemble(steps, a.outputs); a.size(text).within(a.room) {
			return text
		}
	}
	for _, o := range a.outputs {
		o.omit(false)
	}
	text := a.assemble(steps, a.outputs)
	if !a.size(text).within(a.room) {
		text = a.assemble(a.describe(details[0], 0), a.outputs)
	}
	return text
}

// assemble puts the answer together, with some of the results or all of them.
func (a *answering) assemble(steps []byte, outputs []*output) []byte {
	text := append(slices.Clone(steps), `,"outputs":`...)
	text = appendObject(text, outputs, func(o *output) []byte { return o.text })
	var left [][]byte
	unnamed := 0
	for _, o := range outputs {
		for _, l := range o.left {
			left = append(left, o.missing(l))
		}
		if o.text == nil && o.left == nil {
			unnamed++
		}
	}
	if unnamed > 0 {
		left = append(left, append(appendNumber([]byte(`{"what":"outputs"`), "count", int64(unnamed)), '}'))
	}
	if left != nil {
		if h := a.kept(); h != "" {
			text = jsonrpc.AppendString(append(text, `,"handle":`...), h)
		}
		text = append(append(text, `,"left_out":`...), array(left)...)
	}
	if a.report.Ended != "" {
		text = jsonrpc.AppendString(append(text, `,"ended":`...), a.report.Ended)
	}
	return append(text, '}')
}

// appendObject appends an object of what there is of each result.
func appendObject(text []byte, outputs []*output, of func(*output) []byte) []byte {
	before := byte('{')
	for _, o := range outputs {
		if value := of(o); value != nil {
			text = append(jsonrpc.AppendString(append(text, before), o.Step.ID), ':')
			text = append(text, value...)
			before = ','
		}
	}
	if before == '{' {
		text = append(text, '{')
	}
	return append(text, '}')
}

// kept keeps all results, the first time, and is the handle to them.
func (a *answering) kept() string {
	if a.handle == nil {
		a.handle = new(string)
		if a.keep != nil {
			*a.handle = a.keep(Value{JSON: appendObject(nil, a.outputs, func(o *output) []byte { return o.Result.JSON })})
		}
	}
	return *a.handle
}

// steps is what became of the steps, in no more than a third of the room, or what
// all results leave of it, if it can be: first less is said of each, then nothing of
// those that are ok.
func (a *answering) steps() []byte {
	most := a.room.less(a.size([]byte(fixed)))
	for _, o := range a.outputs {
		name := a.nameSize(o)
		most = most.less(room{o.most() + name.tokens + 1, o.chars + name.chars}) // a token may be on both sides of where they meet
	}
	most = room{max(most.tokens, a.room.tokens/3), max(most.chars, a.room.chars/3)}
	for _, d := range details {
		text := a.describe(d, math.MaxInt)
		if a.size(text).within(most) {
			return text
		}
	}
	told := len(a.report.Steps)
	for {
		told = told * 3 / 4
		text := a.describe(details[len(details)-1], told)
		if told == 0 || a.size(text).within(most) {
			return text
		}
	}
}

// detail is how much is said of a step.
type detail struct {
	reason  int  // characters
	figures bool // time, tokens, source and calls
	ok      bool // of those that are ok too
}

var details = []detail{{maxReason, true, true}, {160, true, true}, {60, false, true}, {60, false, false}, {24, false, false}}

func (a *answering) describe(d detail, most int) []byte {
	text := []byte(`{"steps":[`)
	told := 0
	for _, st := range a.report.Steps {
		if told == most || st.State == OK && st.Reason == "" && !d.ok {
			continue
		}
		if told++; told > 1 {
			text = append(text, ',')
		}
		text = st.describe(text, d)
	}
	text = append(text, ']')
	if untold := len(a.report.Steps) - told; untold > 0 {
		text = strconv.AppendInt(append(text, `,"steps_left_out":`...), int64(untold), 10)
	}
	return text
}

func (st *Status) describe(text []byte, d detail) []byte {
	text = jsonrpc.AppendString(append(text, `{"id":`...), st.Step.ID)
	text = jsonrpc.AppendString(append(text, `,"status":`...), string(st.State))
	if st.Reason != "" {
		text = jsonrpc.AppendString(append(text, `,"reason":`...), excerpt.Shorten(st.Reason, d.reason))
	}
	if d.figures && st.Calls > 0 {
		text = appendNumber(text, "ms", st.Took.Milliseconds())
		if st.Tokens > 0 {
			text = appendNumber(text, "tokens", int64(st.Tokens))
		}
		if st.Source != "" && st.Source != fetched {
			text = jsonrpc.AppendString(append(text, `,"source":`...), st.Source)
		}
		if st.Calls > 1 {
			text = appendNumber(text, "calls", int64(st.Calls))
		}
	}
	return append(text, '}')
}

// fetched is the source that most answers have; it is not worth its tokens.
const fetched = "fetched"

func appendNumber(text []byte, name string, n int64) []byte {
	text = append(append(append(text, `,"`...), name...), `":`...)
	return strconv.AppendInt(text, n, 10)
}
