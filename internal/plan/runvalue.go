package plan

import (
	"fmt"
	"slices"
)

// needed reports whether anybody will read a step's result.
func (g *stage) needed() bool { return g.output || g.users > 0 }

// keep keeps the result of a step for those who need it.
func (x *execution) keep(g *stage, res Result, tokens int) error {
	if !g.needed() {
		return nil
	}
	result := newSource(Value{JSON: res.JSON, Text: res.Text})
	size := result.size()
	if g.output {
		size += blocksSize(res.Blocks)
	}
	if err := x.hold(g, size); err != nil {
		return err
	}
	g.result = result
	if g.output {
		res.Text = "" // references alone read it
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
// nor are arguments, of which there is one for each call at most, nor what places
// references to the result have been found at: no more than once its bytes.
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
	g.held, g.result, g.status.Result = 0, nil, Result{}
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
