package hook

import (
	"mcpschedd/internal/classify"
	"mcpschedd/internal/daemon"
)

// turn is what the reports of one client say of what it may be changing without mcpschedd. The
// zero value is between two turns of a client that may have been at work before.
type turn struct {
	known      bool // what it has running in the background is: its start was reported, or a turn's end, which says it
	active     bool // its model is at work, from a prompt on
	failed     bool // something may have been changed in it that was not reported
	background bool // a command may be running that the client will say has ended
	detached   bool // one may be running of which it says nothing
}

// changes reports whether something may be changing files unreported, of uses begun and not
// ended so many.
func (t turn) changes(open int) bool { return t.failed || t.background || t.detached || open > 0 }

// deed is what a report has to be followed by.
type deed struct {
	begins bool // a write has begun
	ends   bool // the write of that use has ended
	endAll bool // those of all uses have
	missed bool // something has been changed just now, and it was not said before
	prompt bool // a turn begins: what was fetched before may be too old for it
	gone   bool // the client's process has ended
}

// after is the turn when a report has been heard, and what follows from it. open says that the
// beginning of the same use was reported, and its end was not; late that the report was on its
// way for longer than its client waits.
func (t turn) after(r *daemon.Report, open, late bool) (turn, deed) {
	var d deed
	if r.Unread != "" {
		t.failed, d.begins = true, true // whatever it is, nothing will say when it has ended
		return t, d
	}
	t.failed = t.failed || late && t.active // between turns no folder is exclusive by this client
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
		if r.Why == "startup" { // else the process is at work already
			t, d.endAll = turn{known: true}, true
		}
	case "SessionEnd":
		t.active = false
		d.gone = r.Why != "clear" && r.Why != "resume" // else the process goes on with another session
	}
	return t, d
}

// use is what a client's own tool may do to the files of this machine.
type use struct{ writes, background, detaches bool }

// useOf says it of a reported use. A tool that is not known may do anything while it is used.
func useOf(r *daemon.Report) use {
	switch r.Tool {
	case "Edit", "Write", "MultiEdit", "NotebookEdit":
		return use{writes: true}
	case "Bash":
		if classify.ShellLine(r.Command).Level == classify.Reads {
			return use{}
		}
		return use{writes: true, background: r.Background, detaches: classify.Detaches(r.Command)}
	case "Monitor": // it goes on by itself
		return use{writes: true, background: true}
	}
	return use{writes: true, background: r.Background}
}
