package plan

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

// Keeper keeps a whole result for reading later, and tells by what handle.
type Keeper func(id string, v Value) (handle string)

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
//	 "left_out": [{"step", "pointer", "what", "offset", "count", "bytes", "handle"}],
//	 "ended": "why the plan ended before its end"}
//
// A step without a source was fetched.
//
// It has at most so many tokens by count (nil: bytes/4) and Unicode characters, 0
// and less: any number. Small results are whole before a large one gets more than
// they; what of one is left out is named, and the whole is kept by keep, unless
// nil, once for each step. A step that failed has no result here, whatever stands
// in for it in other steps. Of very many steps those that are ok may go untold;
// steps_left_out is how many did. Only where not even that fits is the answer
// longer.
//
// Blocks are the images and other content that is no text of the output steps, in
// the order asked for. They are not counted.
func (r *Report) Answer(p *Plan, tokens, chars int, count func([]byte) int, keep Keeper) (structured []byte, blocks [][]byte) {
	if count == nil {
		count = func(text []byte) int { return len(text) / 4 }
	}
	a := &answering{report: r, room: room{tokens, chars}.bounded(), count: count, keep: keep}
	for _, id := range p.Outputs {
		i := slices.IndexFunc(r.Steps, func(st *Status) bool { return st.Step.ID == id })
		if st := r.Steps[i]; st.State == OK {
			a.outputs = append(a.outputs, &output{Status: st, chars: utf8.RuneCount(st.Result.JSON)})
			blocks = append(blocks, st.Result.Blocks...)
		}
	}
	return a.answer(), blocks
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
}

func (a *answering) size(text []byte) room { return room{a.count(text), utf8.RuneCount(text)} }

// answer cuts the results to what the rest leaves. How much they may have is known
// when what is left out has been named, so it is found in rounds.
func (a *answering) answer() []byte {
	if text := a.whole(); text != nil {
		return text
	}
	steps := a.steps()
	left := a.room.less(a.size(a.assemble(steps)))
	for range maxRounds {
		if left.tokens <= 0 || left.chars <= 0 {
			break
		}
		a.share(left)
		text := a.assemble(steps)
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
	if text := a.assemble(a.describe(details[0], math.MaxInt)); utf8.RuneCount(text) <= a.room.chars {
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

const (
	maxRounds  = 8
	maxLeft    = 6   // parts of one result that are named one by one
	maxPointer = 200 // bytes of the pointer to one
)

// bare leaves all results out, and names as many of them as fit.
func (a *answering) bare(steps []byte) []byte {
	for named := len(a.outputs); ; named /= 2 {
		for i, o := range a.outputs {
			o.omit(i < named)
		}
		if text := a.assemble(steps); named == 0 || a.size(text).within(a.room) {
			return text
		}
	}
}

// assemble puts the answer together.
func (a *answering) assemble(steps []byte) []byte {
	text := append([]byte(nil), steps...)
	before := `,"outputs":{`
	for _, o := range a.outputs {
		if o.text == nil {
			continue
		}
		text = append(jsonrpc.AppendString(append(text, before...), o.Step.ID), ':')
		text = append(text, o.text...)
		before = ","
	}
	if before != "," {
		text = append(text, before...)
	}
	text = append(text, '}')
	before = `,"left_out":[`
	for _, o := range a.outputs {
		for _, l := range o.left {
			text = a.appendLeft(append(text, before...), o, l)
			before = ","
		}
	}
	if before == "," {
		text = append(text, ']')
	}
	if a.report.Ended != "" {
		text = jsonrpc.AppendString(append(text, `,"ended":`...), a.report.Ended)
	}
	return append(text, '}')
}

// steps is what became of the steps, in no more than a third of the room if it can
// be: first less is said of each, then nothing of those that are ok.
func (a *answering) steps() []byte {
	most := room{a.room.tokens / 3, a.room.chars / 3}
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
		text = jsonrpc.AppendString(append(text, `,"reason":`...), shorten(st.Reason, d.reason))
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
