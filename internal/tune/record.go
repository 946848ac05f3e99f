package tune

import "mcpschedd/internal/record"

// Event adds one line of an event log. This file is all that depends on its form.
func (t *Tuner) Event(e *record.Event) {
	if e.Kind != record.Call && e.Kind != record.Prefetch {
		return
	}
	if e.Upstream == "" { // a tool of the proxy's own
		return
	}
	name := e.Upstream + "/" + e.Tool
	one := t.tool(name)
	switch {
	case one == nil:
		return
	case e.Kind == record.Prefetch:
		one.prefetched(e)
	case e.Disposition == record.Fetched:
		one.answered(e.At, e.IsError, e.UpstreamMS, float64(e.Bytes))
	default: // it cost nothing, or what the call cost that it shared
		one.calls++
		return
	}
	switch {
	case !t.model(name).Class.Reads():
		t.wrote[e.Upstream] = e.At
	case !e.IsError:
		t.again(name, e.Upstream, e.ArgsHash, e.ResultHash, e.At)
	}
}

// prefetched counts what became of a prefetch. One whose answer was an error may have
// been right.
func (t *tool) prefetched(e *record.Event) {
	switch {
	case e.IsError || e.Cause == "error":
		t.errors++
	case e.Fate == record.Wasted:
		t.answers++
		t.prefetches++
	case e.Fate == record.Used || e.Fate == record.Late || e.Fate == record.Compared:
		t.answers++
		t.prefetches++
		t.right++
	}
}
