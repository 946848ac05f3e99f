package plan

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
)

// input is what one reference reads. It may be called on any goroutine.
type input func() (Value, error)

// target is a place that references lead to, of those that ask for it alike.
type target struct {
	step, pointer string
	lenient       bool // something stands in for what is missing
}

func (r *Ref) target() target {
	return target{r.Step, r.Pointer, r.Null || r.Default != nil}
}

// source is a result as references read it. A place in it is looked for once,
// however many calls refer to it: what is found there is kept without the rest, as
// reading a large result to its middle for each of thousands of items takes seconds.
type source struct {
	json          []byte
	read          bool             // it was read off a text
	text          string           // that text; "": it is the JSON and white space around it,
	before, after string           // which is this
	parts         map[target]input // belongs to the goroutine of Run
	room          atomic.Int64     // bytes that the parts may still take
}

const leastSource = 4 << 10 // bytes of a result that is worth looking for a place in it once only

// newSource takes in a result. The text that it was read off is as a rule the same
// bytes, and then it is not kept a second time.
func newSource(v Value) *source {
	s := &source{json: v.JSON, read: v.Text != ""}
	s.room.Store(int64(len(v.JSON)))
	before, rest := len(v.Text)-len(strings.TrimLeft(v.Text, space)), len(v.JSON)
	after := len(strings.TrimRight(v.Text, space))
	if after-before == rest && v.Text[before:after] == string(v.JSON) {
		s.before, s.after = strings.Clone(v.Text[:before]), strings.Clone(v.Text[after:])
	} else {
		s.text = v.Text
	}
	return s
}

const space = " \t\r\n" // of JSON

// size is the bytes that are held.
func (s *source) size() int { return len(s.json) + len(s.before) + len(s.after) + len(s.text) }

// whole is the result as it came.
func (s *source) whole() (Value, error) {
	text := s.text
	if s.read && text == "" {
		text = s.before + string(s.json) + s.after
	}
	return Value{JSON: s.json, Text: text}, nil
}

// input is what a reference reads: the whole, or what stands for it as far as the
// reference's pointer leads.
func (s *source) input(r *Ref) input {
	if r.Pointer == "" || len(s.json) < leastSource {
		return s.whole
	}
	if s.parts == nil {
		s.parts = make(map[target]input)
	}
	part := s.parts[r.target()]
	if part == nil {
		part = sync.OnceValues(func() (Value, error) { return s.part(r) })
		s.parts[r.target()] = part
	}
	return part
}

// part is the result without all that a reference does not lead to: the same
// pointer leads to the same value in it. Where it leads to nothing, and nobody is told
// what there is instead, it is empty.
func (s *source) part(r *Ref) (Value, error) {
	strict := &Ref{Step: r.Step, Pointer: r.Pointer, At: r.At}
	all := Value{JSON: s.json}
	found, err := resolveRef(strict, func(*Ref) (Value, error) { return all, nil })
	if _, missing := errors.AsType[*Missing](err); missing && r.target().lenient && !strings.Contains(r.Pointer, "*") {
		return Value{JSON: []byte("{}")}, nil
	}
	if err != nil {
		return all, nil
	}
	if n := int64(len(found.JSON)); s.room.Add(-n) < 0 {
		s.room.Add(n)
		return all, nil
	}
	return Value{JSON: alone(r.Pointer, found.JSON)}, nil
}

// alone is a value that has a pointer to it and nothing beside it.
func alone(pointer string, value []byte) []byte {
	out := make([]byte, 0, len(value)+8*len(pointer))
	depth := 0
	for token := range jsonrpc.PointerTokens(pointer) {
		out = append(jsonrpc.AppendString(append(out, '{'), token), ':')
		depth++
	}
	return append(append(out, value...), bytes.Repeat([]byte{'}'}, depth)...)
}

// input is what a reference to a step that has ended, or to the parameters, reads.
// Where there is no result, the default of the reference counts.
func (x *execution) input(r *Ref) input {
	if x.params != nil && r.Step == params {
		return x.params.input(r)
	}
	d := x.named[r.Step]
	if d == nil {
		return given(Value{}, fmt.Errorf("unknown step %q", r.Step))
	}
	failed := d.status.State != OK && !d.status.Void
	switch {
	case d.status.State == OK:
		return d.result.input(r)
	case failed && d.OnError == Default:
		return given(Value{JSON: d.Default}, nil)
	case failed && d.OnError == Continue:
		return given(Value{}, nil) // null, wherever the reference points
	}
	return given(Value{}, fmt.Errorf("step %q has no result", d.ID))
}

func given(v Value, err error) input { return func() (Value, error) { return v, err } }

// look is what references read on the goroutine of Run.
func (x *execution) look(r *Ref) (Value, error) { return x.input(r)() }

// inputs are what the arguments of a step refer to. They are there for the calls'
// goroutines, whatever becomes of the results meanwhile.
type inputs map[target]input

func (x *execution) inputs(g *stage) inputs {
	in := make(inputs)
	if g.Arguments == nil {
		return in
	}
	for _, r := range g.Arguments.Refs() {
		if g.ForEach != nil && (r.Step == item || r.Step == index) {
			continue
		}
		in[r.target()] = x.input(r)
	}
	return in
}

// smallInputs are so few bytes that it need not be known for how long they are held.
const smallInputs = 64 << 10

// inputBytes is the size of the results that the arguments of a step refer to.
func (x *execution) inputBytes(g *stage) int {
	n := 0
	for _, i := range g.Needs {
		if d := x.stages[i]; d.status.State == OK {
			n += d.result.size()
		}
	}
	return n
}

// look finds what references lead to, for the call of one item or, where it is nil,
// the only one.
func (in inputs) look(of []byte, place int) Lookup {
	return func(r *Ref) (Value, error) {
		switch {
		case of != nil && r.Step == item:
			return Value{JSON: of}, nil
		case of != nil && r.Step == index:
			return Value{JSON: strconv.AppendInt(nil, int64(place), 10)}, nil
		}
		return in[r.target()]()
	}
}
