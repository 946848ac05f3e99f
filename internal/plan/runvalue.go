package plan

import (
	"fmt"
	"slices"
	"strconv"
)

// look finds what references lead to. item is nil but for a call of ForEach.
func (x *execution) look(item []byte, index int) Lookup {
	return func(r *Ref) (Value, error) {
		switch {
		case item != nil && r.Step == "item":
			return Value{JSON: item}, nil
		case item != nil && r.Step == "index":
			return Value{JSON: strconv.AppendInt(nil, int64(index), 10)}, nil
		case x.plan.Params != nil && r.Step == "params":
			return Value{JSON: x.plan.Params}, nil
		}
		d := x.named[r.Step]
		if d == nil {
			return Value{}, fmt.Errorf("unknown step %q", r.Step)
		}
		return d.read()
	}
}

// read is what a reference to a step that has ended reads. Where there is no
// result, the default of the reference counts.
func (g *stage) read() (Value, error) {
	failed := g.status.State != OK && !g.status.Void
	switch {
	case g.status.State == OK:
		return g.value, nil
	case failed && g.OnError == Default:
		return Value{JSON: g.Default}, nil
	case failed && g.OnError == Continue:
		return Value{}, nil // null, wherever the reference points
	}
	return Value{}, fmt.Errorf("step %q has no result", g.ID)
}

// needed reports whether anybody will read a step's result.
func (g *stage) needed() bool { return g.output || g.users > 0 }

// keep keeps the result of a step for those who need it.
func (x *execution) keep(g *stage, res Result, tokens int) error {
	if !g.needed() {
		return nil
	}
	size := len(res.JSON) + len(res.Text)
	if g.output {
		size += blocksSize(res.Blocks)
	}
	if err := x.hold(g, size); err != nil {
		return err
	}
	g.value = Value{JSON: res.JSON, Text: res.Text}
	if g.output {
		g.status.Result = res
		g.status.Tokens = tokens
	}
	return nil
}

func blocksSize(blocks [][]byte) int {
	n := 0
	for _, b := range blocks {
		n += len(b)
	}
	return n
}

// hold counts bytes of a step's result. What is on its way to us is not counted,
// nor are arguments: of these there is one for each call at most.
func (x *execution) hold(g *stage, size int) error {
	if x.Bytes > 0 && size > x.Bytes-x.held {
		return fmt.Errorf("answer of %d bytes: all results of a plan may have %d (max_result_bytes)", size, x.Bytes)
	}
	g.held += size
	x.held += size
	return nil
}

// spend notes that a step no longer needs what it refers to.
func (x *execution) spend(g *stage) {
	if g.spent {
		return
	}
	g.spent = true
	for _, i := range g.Needs {
		d := x.stages[i]
		if d.users--; !d.needed() {
			x.release(d)
		}
	}
}

// release forgets a step's result.
func (x *execution) release(g *stage) {
	x.held -= g.held
	g.held, g.value, g.status.Result = 0, Value{}, Result{}
}

// array is a JSON array of values, without those that are nil.
func array(values [][]byte) []byte {
	size := 2
	for _, v := range values {
		size += len(v) + 1
	}
	out := append(make([]byte, 0, size), '[')
	for _, v := range slices.DeleteFunc(values, func(v []byte) bool { return v == nil }) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}
