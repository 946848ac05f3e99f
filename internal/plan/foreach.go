package plan

import (
	"context"
	"fmt"

	"mcpschedd/internal/jsonrpc"
)

// items is how far a step with ForEach is. A call is made of an item when there is
// a slot for it, so what is under way never grows with the array.
type items struct {
	all    [][]byte // what of the array is called for, as written in it
	of     int      // length of the array
	in     Resolver // of the arguments
	next   int      // first of all that has not begun
	parts  [][]byte // result of each; nil where it is missing
	tokens int      // of parts
	blocks [][][]byte
	done   int    // items
	failed int    // items
	first  int    // item that failed, the first in the array
	err    string // why
	full   string // why no more results are kept
	stop   bool   // no further one begins, and the step fails
}

// openItems finds the array of a step with ForEach. Its slot is for the first call.
func (x *execution) openItems(g *stage) {
	v, err := resolveRef(g.step.ForEach.Items, x.look)
	if err == nil && v.JSON[0] != '[' {
		err = fmt.Errorf("want an array, have %s", kindOf(v.JSON))
	}
	if err != nil {
		x.end(g, Failed, "for_each: "+err.Error())
		return
	}
	it := &items{in: x.inputs(g.step)}
	for e := range jsonrpc.Elements(v.JSON) {
		if it.of++; it.of <= g.step.ForEach.MaxItems {
			it.all = append(it.all, e)
		}
	}
	it.parts, it.blocks = make([][]byte, len(it.all)), make([][][]byte, len(it.all))
	g.items = it
	if len(it.all) == 0 {
		x.endItems(g)
	}
}

// startItems makes the calls of items that there are slots for.
func (x *execution) startItems(ctx context.Context) {
	for _, g := range x.stages {
		for it := g.items; it != nil && it.more() && ctx.Err() == nil && x.slot(g); {
			i := it.next
			it.next++
			x.start(ctx, g, i, it.in.forItem(it.all[i], i))
		}
	}
}

func (it *items) more() bool { return !it.stop && it.next < len(it.all) }

// slot takes a slot for one more call of a step. The first one is there.
func (x *execution) slot(g *stage) bool {
	if g.open == 0 {
		return true
	}
	if most := g.step.ForEach.Parallel; g.step.Writes || most > 0 && g.open >= most {
		return false
	}
	return x.queue.AcquireExtra(g.step.Index)
}

// itemAnswered takes in the answer of an item.
func (x *execution) itemAnswered(ctx context.Context, g *stage, a answer) {
	if g.open > 0 {
		x.queue.ReleaseExtra(g.step.Index)
	}
	it := g.items
	it.done++
	if a.Err == "" {
		x.keepItem(g, a.Item, a.JSON, a.tokens, a.Blocks)
	} else {
		g.status.InDoubt = g.status.InDoubt || a.InDoubt && g.step.Writes
		x.itemFailed(g, a.Item, a.Err)
	}
	if ctx.Err() != nil && it.more() {
		x.cutItems(ctx, g)
	}
	x.told.itemEnded(g.step, it.done, len(it.all))
	if g.open == 0 && !it.more() {
		x.endItems(g)
	}
}

// keepItem puts a value in the place of an item's result, if it will be read.
func (x *execution) keepItem(g *stage, i int, value []byte, tokens int, blocks [][]byte) {
	it := g.items
	if !x.results.needed(g.step) {
		return
	}
	if err := x.results.hold(g.step, len(value), blocks); err != nil {
		g.status.InDoubt = g.status.InDoubt || g.step.Writes
		it.full = fmt.Sprintf("item %d: %s", i, err)
		it.stop = true
		return
	}
	it.parts[i] = value
	it.tokens += tokens + 1 // its comma
	if g.status.Output {
		it.blocks[i] = blocks
	}
}

// itemFailed puts into the place of an item's result what the step says.
func (x *execution) itemFailed(g *stage, i int, err string) {
	it := g.items
	if it.failed++; it.failed == 1 || i < it.first {
		it.first, it.err = i, err
	}
	switch {
	case g.step.Writes || g.step.OnError == Fail || g.step.OnError == "":
		it.stop = true
	case g.step.OnError == Default:
		x.keepItem(g, i, g.step.Default, len(g.step.Default), nil)
	case g.step.OnError == Continue:
		x.keepItem(g, i, []byte("null"), 1, nil)
	}
}

// endItems ends a step with ForEach. Failed items may be missing, but not all of them.
func (x *execution) endItems(g *stage) {
	it := g.items
	if it.stop || g.step.OnError == Skip && it.failed > 0 && it.failed == it.done {
		x.end(g, Failed, it.reason())
		return
	}
	if x.results.needed(g.step) {
		res := Result{JSON: array(it.parts)}
		for _, blocks := range it.blocks {
			res.Blocks = append(res.Blocks, blocks...)
		}
		g.status.Result = res
		if g.status.Output {
			g.status.Tokens = it.tokens + 1 // no less than counted as one text
		}
	}
	x.end(g, OK, it.reason())
}

// reason is what is to be said of the items: what failed, and what was left out.
func (it *items) reason() string {
	var text string
	switch {
	case it.full != "":
		text = it.full
	case it.failed == 1:
		text = fmt.Sprintf("item %d: %s", it.first, it.err)
	case it.failed > 1:
		text = fmt.Sprintf("%d items failed; item %d: %s", it.failed, it.first, it.err)
	}
	if it.next == it.of {
		return text
	}
	counts := fmt.Sprintf("%d of %d items", it.next, it.of)
	if text == "" {
		return counts
	}
	return counts + "; " + text
}

// cutItems begins no further item: the plan has ended.
func (x *execution) cutItems(ctx context.Context, g *stage) {
	it := g.items
	x.report.Ended = ending(ctx)
	it.stop = true
	if it.failed == 0 && it.full == "" {
		it.full = "cut short: " + x.report.Ended
	}
}

// array is a JSON array of values, without those that are nil.
func array(values [][]byte) []byte {
	size := 2
	for _, v := range values {
		size += len(v) + 1
	}
	out := append(make([]byte, 0, size), '[')
	for _, v := range values {
		if v == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}
