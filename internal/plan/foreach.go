package plan

import (
	"context"
	"fmt"

	"mcpschedd/internal/jsonrpc"
)

// items is the progress of a step with ForEach. Arguments are built when a slot is free, so
// memory does not grow with the array.
type items struct {
	all        [][]byte // elements to call for, as written in the array
	length     int      // length of the array
	resolve    Resolver // resolves references in the arguments
	next       int      // index of the next item to start
	parts      [][]byte // result of each item; nil if missing
	tokens     int      // tokens of parts
	blocks     [][][]byte
	ended      int    // items
	failed     int    // items
	first      int    // lowest index of a failed item
	err        string // error of that item
	stopReason string // why no further results are stored
	stop       bool   // start no further items; the step fails
}

// openItems resolves the array of a step with ForEach. The step's slot serves its first call.
func (x *execution) openItems(g *stage) {
	v, err := resolveRef(g.step.ForEach.Items, x.look)
	if err == nil && v.JSON[0] != '[' {
		err = fmt.Errorf("want an array, have %s", kindOf(v.JSON))
	}
	if err != nil {
		x.end(g, Failed, "for_each: "+err.Error())
		return
	}
	it := &items{resolve: x.inputs(g.step)}
	for e := range jsonrpc.Elements(v.JSON) {
		if it.length++; it.length <= g.step.ForEach.MaxItems {
			it.all = append(it.all, e)
		}
	}
	it.parts, it.blocks = make([][]byte, len(it.all)), make([][][]byte, len(it.all))
	g.items = it
	if len(it.all) == 0 {
		x.endItems(g)
	}
}

// startItems starts the calls of items while there are free slots.
func (x *execution) startItems(ctx context.Context) {
	for _, g := range x.stages {
		for it := g.items; it != nil && it.more() && ctx.Err() == nil && x.acquireSlot(g); {
			i := it.next
			it.next++
			x.start(ctx, g, i, it.resolve.forItem(it.all[i], i))
		}
	}
}

func (it *items) more() bool { return !it.stop && it.next < len(it.all) }

// acquireSlot acquires a slot for another call of a step. The step already has the first one.
func (x *execution) acquireSlot(g *stage) bool {
	if g.inFlight == 0 {
		return true
	}
	if limit := g.step.ForEach.Parallel; g.step.Writes || limit > 0 && g.inFlight >= limit {
		return false
	}
	return x.queue.AcquireExtra(g.step.Index)
}

// itemAnswered handles the answer of an item.
func (x *execution) itemAnswered(ctx context.Context, g *stage, a answer) {
	if g.inFlight > 0 {
		x.queue.ReleaseExtra(g.step.Index)
	}
	it := g.items
	it.ended++
	if a.Err == "" {
		x.keepItem(g, a.Item, a.JSON, a.tokens, a.Blocks)
	} else {
		g.status.InDoubt = g.status.InDoubt || a.InDoubt && g.step.Writes
		x.itemFailed(g, a.Item, a.Err)
	}
	if ctx.Err() != nil && it.more() {
		x.interruptItems(ctx, g)
	}
	x.progress.itemEnded(g.step, it.ended, len(it.all))
	if g.inFlight == 0 && !it.more() {
		x.endItems(g)
	}
}

// keepItem stores the result of an item, if a step or the client needs it.
func (x *execution) keepItem(g *stage, i int, value []byte, tokens int, blocks [][]byte) {
	it := g.items
	if !x.results.needed(g.step) {
		return
	}
	if err := x.results.hold(g.step, len(value), blocks); err != nil {
		g.status.InDoubt = g.status.InDoubt || g.step.Writes
		it.stopReason = fmt.Sprintf("item %d: %s", i, err)
		it.stop = true
		return
	}
	it.parts[i] = value
	it.tokens += tokens + 1 // the comma
	if g.status.Output {
		it.blocks[i] = blocks
	}
}

// itemFailed applies the step's on_error to a failed item.
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

// endItems ends a step with ForEach. With on_error "skip" it succeeds unless all items failed.
func (x *execution) endItems(g *stage) {
	it := g.items
	if it.stop || g.step.OnError == Skip && it.failed > 0 && it.failed == it.ended {
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
			g.status.Tokens = it.tokens + 1 // at least the count of the whole text
		}
	}
	x.end(g, OK, it.reason())
}

// reason describes the failed items and those that were not called.
func (it *items) reason() string {
	var text string
	switch {
	case it.stopReason != "":
		text = it.stopReason
	case it.failed == 1:
		text = fmt.Sprintf("item %d: %s", it.first, it.err)
	case it.failed > 1:
		text = fmt.Sprintf("%d items failed; item %d: %s", it.failed, it.first, it.err)
	}
	if it.next == it.length {
		return text
	}
	counts := fmt.Sprintf("%d of %d items", it.next, it.length)
	if text == "" {
		return counts
	}
	return counts + "; " + text
}

// interruptItems stops starting items, because the plan has ended.
func (x *execution) interruptItems(ctx context.Context, g *stage) {
	it := g.items
	x.report.Ended = endReason(ctx)
	it.stop = true
	if it.failed == 0 && it.stopReason == "" {
		it.stopReason = "cut short: " + x.report.Ended
	}
}

// array returns a JSON array of the values that are not nil.
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
