package proxy_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// op is one step of a session.
type op struct {
	tool          string
	up            string
	register      int
	spelling      int           // form of the register argument: a number, a string, a number with a fraction
	before, after time.Duration // the server's delays before and after it reads or acts
	fate          fate          // outcome of a write
	cancel        time.Duration // time from sending a write to cancelling it
	wait          bool          // first wait for all earlier requests
	again         bool          // a read repeats the previous one
}

func (o op) reads() bool { return slices.Contains(readTools, o.tool) }

// GoString formats a step of a failed history.
func (o op) GoString() string {
	text := fmt.Sprintf("%s__%s(%d) %v/%v", o.up, o.tool, o.register, o.before, o.after)
	if !o.reads() {
		text += " " + string(o.fate)
	}
	if o.fate == withdrawn {
		text += fmt.Sprintf(" after %v", o.cancel)
	}
	if o.again && o.reads() {
		text = "again, else " + text
	}
	if o.wait {
		text = "wait, " + text
	}
	return text
}

// register returns the argument. All spellings name the same register but make different calls.
func (o op) argument() string {
	switch o.spelling {
	case 1:
		return fmt.Sprintf(`"%d"`, o.register)
	case 2:
		return fmt.Sprintf(`%d.0`, o.register)
	}
	return fmt.Sprint(o.register)
}

// event is something that happens independently of the sessions' steps.
type event struct {
	what  string
	nth   int // selects the session, process or rules
	op    op  // of a prefetch: the read
	pause time.Duration
}

func (e event) GoString() string {
	if e.what == "prefetch" {
		return fmt.Sprintf("%v, session %d prefetches %#v", e.pause, e.nth, e.op)
	}
	return fmt.Sprintf("%v, %s %d", e.pause, e.what, e.nth)
}

// history is a test case: the steps of all sessions, and the events.
type history struct {
	scripts [][][]op // bursts of each seat, in order; a burst is written at once
	events  []event
}

// incidents are the events that happen at most once in a history. Prefetches are not among them.
var incidents = []string{"kill", "forget", "announce", "reload", "abandon", "timeout", "roots"}

const millisecond = time.Millisecond

// beat is the unit of the random delays.
const beat = millisecond / 2

// Failing histories shrink towards zero values, so the first of each list is the simplest.
var (
	someUp     = rapid.SampledFrom([]string{"A", "A", "C", "B", "A", "C"})
	someRead   = rapid.SampledFrom([]string{"read", "look", "poll", "read", "look", "read_all", "read", "read"})
	someLater  = rapid.SampledFrom([]string{"look", "look", "read", "poll", "look", "read_all"})
	someWrite  = rapid.SampledFrom([]string{"write", "write_edge", "write_edge", "write_task", "write_edge", "write_unknown", "write_hinted", "write_task"})
	someLook   = rapid.SampledFrom([]time.Duration{0, 0, 1, 2, 0, 1})
	someDelay  = rapid.SampledFrom([]time.Duration{0, 1, 3, 0, 5, 1, 0, 2})
	someLand   = rapid.SampledFrom([]time.Duration{0, 0, 1, 0, 0, 3})
	someFate   = rapid.SampledFrom([]fate{lands, lands, withdrawn, breaks, lands, fails, withdrawn, lands})
	somePlace  = rapid.SampledFrom([]int{0, 0, 1, 2})
	someCancel = rapid.SampledFrom([]time.Duration{0, 1, 3})
	somePause  = rapid.SampledFrom([]time.Duration{0, 1, 2, 0, 4})
	someSeat   = rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6, 7})
	often      = rapid.SampledFrom([]bool{false, true})
	sometimes  = rapid.SampledFrom(append(times(4, false), true))
	seldom     = rapid.SampledFrom(append(times(15, false), true))
)

func times[T any](n int, v T) []T { return slices.Repeat([]T{v}, n) }

var someOp = rapid.Custom(func(t *rapid.T) op {
	some := someRead
	if seldom.Draw(t, "writes") {
		some = someWrite
	}
	o := op{
		tool: some.Draw(t, "tool"), up: someUp.Draw(t, "upstream"),
		register: somePlace.Draw(t, "register"), fate: lands,
		wait: sometimes.Draw(t, "wait"), again: often.Draw(t, "again"),
	}
	if o.reads() {
		o.before, o.after = someLook.Draw(t, "before")*beat, someDelay.Draw(t, "after")*beat
	} else {
		o.before, o.after = someLand.Draw(t, "before")*beat, someLand.Draw(t, "after")*beat
		o.fate = someFate.Draw(t, "fate")
	}
	if seldom.Draw(t, "spelled") {
		o.spelling = 1 + somePlace.Draw(t, "spelling")%2
	}
	switch {
	case o.tool == "write_task": // a task continues after its call was answered
		o.before += 4 * millisecond
		if o.fate == withdrawn {
			o.fate = lands
		}
	case o.fate == withdrawn && o.up != "A":
		o.fate = lands // there is no late reply; the event "abandon" tests that
	case o.fate == withdrawn:
		o.cancel = someCancel.Draw(t, "cancel") * beat
		o.before += o.cancel + 2*millisecond
	}
	return o
})

var somePrefetch = rapid.Custom(func(t *rapid.T) event {
	return event{
		what: "prefetch", nth: someSeat.Draw(t, "session"), pause: somePause.Draw(t, "pause") * beat,
		op: op{tool: someLater.Draw(t, "tool"), up: someUp.Draw(t, "upstream"), register: somePlace.Draw(t, "register")},
	}
})

// someHistory draws a history for some sessions that send bursts and others that send one request
// at a time.
func someHistory(t *rapid.T, bursts, single int) history {
	var h history
	for i := range bursts {
		script := rapid.SliceOf(rapid.SliceOfN(someOp, 1, 16))
		h.scripts = append(h.scripts, script.Draw(t, fmt.Sprintf("session %d", i)))
	}
	for i := range single {
		script := rapid.SliceOfN(rapid.SliceOfN(someOp, 1, 1), 0, 8)
		h.scripts = append(h.scripts, script.Draw(t, fmt.Sprintf("session %d", bursts+i)))
	}
	h.events = slices.Concat(rapid.SliceOfN(rapid.SliceOf(somePrefetch), 0, 8).Draw(t, "prefetches")...)
	if what := rapid.SampledFrom(append(times(17, ""), incidents...)).Draw(t, "event"); what != "" {
		e := event{what: what, nth: someSeat.Draw(t, "which"), pause: somePause.Draw(t, "pause") * beat}
		h.events = slices.Insert(h.events, len(h.events)/2, e)
	}
	return h
}
