package hook

import (
	"mcpschedd/internal/classify"
	"mcpschedd/internal/daemon"
)

// turn is the state of one client, derived from its reports. The zero value is a client between
// turns that may have been active before.
type turn struct {
	known      bool // its background commands are known, since its start or the end of a turn was reported
	active     bool // in a turn: from a prompt until its model stops
	failed     bool // a change in this turn may have gone unreported
	background bool // a background command may be running whose end the client reports
	detached   bool // a detached command may be running whose end is not reported
}

// changes reports whether files may be changing without a report, given the number of unfinished
// tool uses.
func (t turn) changes(open int) bool { return t.failed || t.background || t.detached || open > 0 }

// action is what the ledger must do after a report.
type action struct {
	begins bool // start a write
	ends   bool // end the write of this use
	endAll bool // end the writes of all uses
	missed bool // a change was made without a report before it
	prompt bool // a turn starts; earlier results may be stale
	gone   bool // the client's process has exited
}

// after returns the turn after a report, and the action. open is whether the same use has been
// reported as started and not as ended; late is whether the report took longer than its client
// waits.
func (t turn) after(r *daemon.Report, open, late bool) (turn, action) {
	var d action
	if r.Unread != "" {
		t.failed, d.begins = true, true // unreadable: no later report can be matched to it
		return t, d
	}
	t.failed = t.failed || late && t.active // between turns no directory is exclusive because of this client
	switch r.Event {
	case "PreToolUse":
		u := useOf(r)
		t.background, t.detached = t.background || u.background, t.detached || u.detaches
		d.begins = u.writes
	case "PostToolUse", "PostToolUseFailure":
		u := useOf(r)
		t.background = t.background || u.background
		d.ends, d.missed = open, !open && u.writes
		t.failed = t.failed || d.missed && t.active
	case "UserPromptSubmit":
		t.active, t.failed, d.prompt = true, late, true
	case "Stop":
		t.active, t.failed = false, false
		if r.Tasks != nil {
			t.known, t.background, d.endAll = true, *r.Tasks > 0, *r.Tasks == 0
		}
	case "SessionStart":
		if r.Why == "startup" { // otherwise the process is already active
			t, d.endAll = turn{known: true}, true
		}
	case "SessionEnd":
		t.active = false
		d.gone = r.Why != "clear" && r.Why != "resume" // otherwise the process continues with another session
	}
	return t, d
}

// use is the effect that a client's own tool may have on local files.
type use struct{ writes, background, detaches bool }

// useOf classifies a reported tool use. An unknown tool may write while it runs.
func useOf(r *daemon.Report) use {
	switch r.Tool {
	case "Edit", "Write", "MultiEdit", "NotebookEdit":
		return use{writes: true}
	case "Bash":
		if classify.ShellLine(r.Command).Level == classify.Reads {
			return use{}
		}
		return use{writes: true, background: r.Background, detaches: classify.Detaches(r.Command)}
	case "Monitor": // it continues in the background
		return use{writes: true, background: true}
	}
	return use{writes: true, background: r.Background}
}
