package tune

import "mcpschedd/internal/record"

// AddEvent adds one event of the log. Only this file depends on the format of events.
func (t *Tuner) AddEvent(e *record.Event) {
	if e.Kind != record.Call && e.Kind != record.Prefetch {
		return
	}
	if e.Upstream == "" { // one of the proxy's own tools
		return
	}
	name := e.Upstream + "/" + e.Tool
	stats := t.tool(name)
	switch {
	case stats == nil:
		return
	case e.Kind == record.Prefetch:
		stats.addPrefetch(e)
	case e.Disposition == record.Fetched:
		stats.addCall(e.At, e.IsError, e.UpstreamMS, float64(e.Bytes))
	default: // answered without a fetch of its own
		stats.calls++
		return
	}
	switch {
	case !t.model(name).Class.Reads():
		t.lastWrite[e.Upstream] = e.At
	case !e.IsError:
		t.compare(name, e.Upstream, e.ArgsHash, e.ResultHash, e.At)
	}
}

// addPrefetch counts the outcome of a prefetch. If its answer was an error, the prediction may
// still have been right, so only the error counts.
func (t *toolStats) addPrefetch(e *record.Event) {
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
