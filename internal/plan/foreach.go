package plan

import (
	"context"
	"fmt"

	"mcpschedd/internal/jsonrpc"
)

// items is how far a step with ForEach is. A call is made of an item when there is
// a slot for it, so what is under way never grows with the array.
type items struct {
	all    [][]byte         // what of the array is called for, as written in it
	of     int              // length of the array
	in     inputs           // of the arguments
	next   int              // first of all that has not begun
	parts  [][]byte         // result of each; nil where it is missing
	tokens int              // of parts
	blocks map[int][][]byte // item → what it has that is no text
	done   int              // items
	failed int              // items
	first  int              // item that failed, the first in the array
	err    string           // why
	full   string           // why no more results are kept
	stop   bool             // no further one begins, and the step fails
}

// beginItems finds the array of a step with ForEach. Its slot is for the first call.
func (x *execution) beginItems(g *stage) {
	v, err := resolveRef(g.ForEach, x.look)
	if err != nil {
		x.end(g, Failed, "for_each: "+err.Error())
		return
	}
	if v.JSON[0] != '[' {
		x.end(g, Failed, "for_each: want an array, have "+kindOf(v.JSON))
		return
	}
	it := &items{in: x.inputs(g), blocks: make(map[int][][]byte)}
	for e := range jsonrpc.Elements(v.JSON) {
		if it.of++; g.MaxItems <= 0 || it.of <= g.MaxItems {
			it.all = append(it.all, e)
		}
	}
	if g.needed() {
		it.parts = make([][]byte, len(it.all))
	}
	g.items = it
	if len(it.all) == 0 {
		x.endItems(g)
	}
}

// continueItems begins the calls of items that there are slots for.
func (x *execution) continueItems(ctx context.Context) {
	for _, g := range x.stages {
		for g.items != nil && g.items.more() && ctx.Err() == nil && x.slot(g) {
			x.beginItem(ctx, g)
		}
	}
}

func (it *items) more() bool { return !it.stop && it.next < len(it.all) }

// slot takes a slot for one more call of a step. The first one is there.
func (x *execution) slot(g *stage) bool {
	if g.open == 0 {
		return true
	}
	if g.Writes || g.MaxParallel > 0 && g.open >= g.MaxParallel {
		return false
	}
	return x.queue.More(g.Index)
}

// beginItem makes the call of the next item.
func (x *execution) beginItem(ctx context.Context, g *stage) {
	it := g.items
	i := it.next
	it.next++
	x.call(ctx, g, i, it.in.look(it.all[i], i), false)
}

// itemAnswered takes in the answer of an item.
func (x *execution) itemAnswered(ctx context.Context, g *stage, a answer) {
	if g.open > 0 {
		x.queue.Less(g.Index)
	}
	it := g.items
	it.done++
	switch {
	case a.Err != "":
		g.status.Doubt = g.status.Doubt || a.Doubt && g.Writes
		x.itemFailed(g, a.Item, a.Err)
	default:
		x.keepItem(g, a.Item, a.JSON, a.tokens, a.Blocks)
	}
	if ctx.Err() != nil && it.more() {
		x.cutItems(ctx, g)
	}
	if x.Item != nil {
		x.Item(g.Step, it.done, len(it.all))
	}
	if g.open == 0 && !it.more() {
		x.endItems(g)
	}
}

// keepItem puts a value in the place of an item's result, if anybody will read it.
func (x *execution) keepItem(g *stage, i int, value []byte, tokens int, blocks [][]byte) {
	it := g.items
	if it.parts == nil {
		return
	}
	size := len(value)
	if g.output {
		size += blocksSize(blocks)
	}
	if err := x.hold(g, size); err != nil {
		g.status.Doubt = g.status.Doubt || g.Writes
		it.full = fmt.Sprintf("item %d: %s", i, err)
		it.stop = true
		return
	}
	it.parts[i] = value
	it.tokens += tokens + 1 // its comma
	if g.output && len(blocks) > 0 {
		it.blocks[i] = blocks
	}
}

// itemFailed puts into the place of an item's result what the step says.
func (x *execution) itemFailed(g *stage, i int, err string) {
	it := g.items
	it.fail(i, err)
	if g.Writes || g.OnError == Fail || g.OnError == "" {
		it.stop = true
		return
	}
	switch g.OnError {
	case Default:
		x.keepItem(g, i, g.Default, len(g.Default), nil)
	case Continue:
		x.keepItem(g, i, []byte("null"), 1, nil)
	}
}

func (it *items) fail(i int, err string) {
	if it.failed++; it.failed == 1 || i < it.first {
		it.first, it.err = i, err
	}
}

// endItems ends a step with ForEach. Failed items may be missing, but not all of them.
func (x *execution) endItems(g *stage) {
	it := g.items
	reason := it.reason()
	if it.stop || g.OnError == Skip && it.failed > 0 && it.failed == it.done {
		x.end(g, Failed, reason)
		return
	}
	if it.parts != nil {
		res := Result{JSON: array(it.parts)}
		for i := range it.all {
			res.Blocks = append(res.Blocks, it.blocks[i]...)
		}
		g.result = newSource(Value{JSON: res.JSON})
		if g.output {
			g.status.Result = res
			g.status.Tokens = it.tokens + 1 // no less than counted as one text
		}
	}
	x.end(g, OK, reason)
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
	counts := ""
	if it.next < it.of {
		counts = fmt.Sprintf("%d of %d items", it.next, it.of)
	}
	if text == "" || counts == "" {
		return text + counts
	}
	return counts + "; " + text
}

// cutItems begins no further item: the plan has ended.
func (x *execution) cutItems(ctx context.Context, g *stage) {
	it := g.items
	x.why = ending(ctx)
	it.stop = true
	if it.failed == 0 && it.full == "" {
		it.full = "cut short: " + x.why
	}
}
