package hook_test

import (
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/hook"
)

// files counts the effects of the ledger: pending writes, and how often files may have changed.
type files struct{ open, changed int }

type write struct {
	f     *files
	ended bool
}

func (w *write) End() {
	if !w.ended {
		w.ended = true
		w.f.open--
		w.f.changed++
	}
}

// desk is a ledger with one client in a folder.
type desk struct {
	*hook.Ledger
	*files
	t         *testing.T
	exclusive func() bool
	prompts   []string
}

const folder = "/project"

func newDesk(t *testing.T) *desk {
	f := new(files)
	d := &desk{files: f, t: t, Ledger: hook.New(hook.Effects{
		Begin:   func() hook.Write { f.open++; f.changed++; return &write{f: f} },
		Changed: func() { f.changed++ },
	})}
	d.exclusive = d.Exclusive(folder)
	d.Enter(d.client("a", 0))
	return d
}

func (d *desk) client(session string, parent int) *hook.Client {
	return &hook.Client{Folder: folder, Session: session, Parent: parent, Prompted: func(words string) { d.prompts = append(d.prompts, session+": "+words) }}
}

// hear passes reports to the ledger. Those without a session are of session a.
func (d *desk) hear(reports ...daemon.Report) {
	for _, r := range reports {
		if r.Session == "" && r.Unread == "" {
			r.Session = "a"
		}
		if r.Sent == 0 {
			r.Sent = time.Now().UnixMilli()
		}
		d.Hear(&r)
	}
}

func (d *desk) want(exclusive bool, open int, when string) {
	d.t.Helper()
	if got := d.exclusive(); got != exclusive || d.open != open {
		d.t.Errorf("%s: got exclusive %v and %d writes, want %v and %d", when, got, d.open, exclusive, open)
	}
}

var (
	begins  = daemon.Report{Event: "SessionStart", Why: "startup"}
	resumes = daemon.Report{Event: "SessionStart", Why: "resume"}
	prompt  = daemon.Report{Event: "UserPromptSubmit", Prompt: "mend it"}
	stop    = daemon.Report{Event: "Stop", Tasks: new(0)}
)

func pre(tool, use string) daemon.Report {
	return daemon.Report{Event: "PreToolUse", Tool: tool, Use: use}
}

func post(tool, use string) daemon.Report {
	return daemon.Report{Event: "PostToolUse", Tool: tool, Use: use}
}

func shell(r daemon.Report, command string, background bool) daemon.Report {
	r.Command, r.Background = command, background
	return r
}

func TestLedger(t *testing.T) {
	twice := func(r daemon.Report) []daemon.Report { return []daemon.Report{r, r} }
	for name, c := range map[string]struct {
		reports   []daemon.Report
		exclusive bool
		open      int
	}{
		"the start was not reported":     {[]daemon.Report{prompt}, false, 0},
		"nothing reported":               {nil, false, 0},
		"a session begins":               {[]daemon.Report{{Event: "SessionStart", Why: "startup"}}, false, 0},
		"a turn":                         {[]daemon.Report{prompt}, true, 0},
		"a turn has ended":               {[]daemon.Report{prompt, stop}, false, 0},
		"an edit":                        {[]daemon.Report{prompt, pre("Edit", "1")}, false, 1},
		"an edit has ended":              {[]daemon.Report{prompt, pre("Edit", "1"), post("Edit", "1")}, true, 0},
		"an edit has failed":             {[]daemon.Report{prompt, pre("Edit", "1"), {Event: "PostToolUseFailure", Tool: "Edit", Use: "1"}}, true, 0},
		"one of two has ended":           {[]daemon.Report{prompt, pre("Edit", "1"), pre("Write", "2"), post("Edit", "1")}, false, 1},
		"a tool that is not known":       {[]daemon.Report{prompt, pre("mcp__other__write", "1")}, false, 1},
		"a command that reads":           {[]daemon.Report{prompt, shell(pre("Bash", "1"), "ls -l | head", false), shell(post("Bash", "1"), "ls -l | head", false)}, true, 0},
		"one that reads elsewhere":       {[]daemon.Report{prompt, shell(pre("Bash", "1"), `cd "/a b" && ls -l | head`, false)}, true, 0},
		"git elsewhere":                  {[]daemon.Report{prompt, shell(pre("Bash", "1"), "cd b && git log", false)}, false, 1},
		"elsewhere, by a command":        {[]daemon.Report{prompt, shell(pre("Bash", "1"), `cd "$(make)" && ls`, false)}, false, 1},
		"one that may write":             {[]daemon.Report{prompt, shell(pre("Bash", "1"), "make", false)}, false, 1},
		"one that is not known":          {[]daemon.Report{prompt, shell(pre("Bash", "1"), "", false)}, false, 1},
		"and may leave something":        {[]daemon.Report{prompt, shell(pre("Bash", "1"), "", false), shell(post("Bash", "1"), "", false), stop, prompt}, false, 0},
		"one in the background":          {[]daemon.Report{prompt, shell(pre("Bash", "1"), "make", true), shell(post("Bash", "1"), "make", true)}, false, 0},
		"and in the next turn":           {[]daemon.Report{prompt, shell(pre("Bash", "1"), "make", true), shell(post("Bash", "1"), "make", true), {Event: "Stop", Tasks: new(1)}, prompt}, false, 0},
		"it has ended":                   {[]daemon.Report{prompt, shell(pre("Bash", "1"), "make", true), shell(post("Bash", "1"), "make", true), stop, prompt}, true, 0},
		"moved into the background":      {[]daemon.Report{prompt, shell(pre("Bash", "1"), "make", false), shell(post("Bash", "1"), "make", true)}, false, 0},
		"it leaves something running":    {[]daemon.Report{prompt, shell(pre("Bash", "1"), "serve &", false), shell(post("Bash", "1"), "serve &", false), stop, prompt}, false, 0},
		"it leaves that unannounced":     {[]daemon.Report{prompt, shell(post("Bash", "1"), "serve &", false), stop, prompt}, false, 0},
		"an end without a beginning":     {[]daemon.Report{prompt, post("Edit", "1")}, false, 0},
		"and in the next turn again":     {[]daemon.Report{prompt, post("Edit", "1"), prompt}, true, 0},
		"another process took over":      {[]daemon.Report{pre("Edit", "1"), post("Edit", "1"), {Event: "PostToolUse", Tool: "Edit", Use: "0"}}, false, 0},
		"no end":                         {[]daemon.Report{prompt, pre("Edit", "1"), prompt}, false, 1},
		"no end when the turn has one":   {[]daemon.Report{prompt, pre("Edit", "1"), stop, prompt}, true, 0},
		"a hook that was set up twice":   {append(append(twice(prompt), twice(pre("Edit", "1"))...), post("Edit", "1")), false, 1},
		"and its other report":           {append(append(twice(prompt), twice(pre("Edit", "1"))...), twice(post("Edit", "1"))...), true, 0},
		"a report that cannot be read":   {[]daemon.Report{prompt, {Unread: "no JSON", Session: "a"}}, false, 1},
		"it may go on in the background": {[]daemon.Report{prompt, {Unread: "no JSON", Session: "a"}, {Event: "Stop"}, prompt}, false, 1},
		"until the client reports none":  {[]daemon.Report{prompt, {Unread: "no JSON", Session: "a"}, {Event: "Stop"}, stop, prompt}, true, 1},
		"of which it is not known whose": {[]daemon.Report{prompt, {Unread: "no JSON"}}, false, 1},
		"and in the turn after that":     {[]daemon.Report{prompt, {Unread: "no JSON"}, {Event: "Stop"}, prompt}, false, 1},
		"a report that came too late":    {[]daemon.Report{prompt, {Event: "PreToolUse", Tool: "Edit", Use: "1", Sent: 1}, post("Edit", "1")}, false, 0},
		"one with a later time":          {[]daemon.Report{prompt, {Event: "PreToolUse", Tool: "Edit", Use: "1", Sent: 1 << 42}, post("Edit", "1")}, false, 0},
		"a prompt that came too late":    {[]daemon.Report{{Event: "UserPromptSubmit", Sent: 1}}, false, 0},
		"unread, of another process":     {[]daemon.Report{prompt, {Unread: "no JSON", Parent: 9}}, true, 1},
		"unread, of another folder":      {[]daemon.Report{prompt, {Unread: "no JSON", Folder: "/else"}}, true, 1},
		"unread, of this and another":    {[]daemon.Report{prompt, {Unread: "no JSON", Folder: folder}, {Unread: "no JSON", Folder: "/else"}}, false, 2},
		"a tool that goes on":            {[]daemon.Report{prompt, pre("Monitor", "1"), post("Monitor", "1")}, false, 0},
		"an unknown one that goes on":    {[]daemon.Report{prompt, shell(pre("Task", "1"), "", true), shell(post("Task", "1"), "", true)}, false, 0},
		"a task besides an edit":         {[]daemon.Report{prompt, pre("Edit", "1"), {Event: "Stop", Tasks: new(1)}}, false, 1},
		"the process was there before":   {[]daemon.Report{resumes, prompt}, false, 0},
		"it has ended a turn since":      {[]daemon.Report{resumes, stop, prompt}, true, 0},
		"with tasks that are not known":  {[]daemon.Report{resumes, {Event: "Stop"}, prompt}, false, 0},
		"another session is resumed":     {[]daemon.Report{prompt, {Event: "SessionEnd", Why: "resume"}, resumes, prompt}, true, 0},
		"a new process":                  {[]daemon.Report{prompt, shell(pre("Bash", "1"), "make", true), shell(post("Bash", "1"), "make", true), pre("Edit", "2"), begins, prompt}, true, 0},
		"an event that is not known":     {[]daemon.Report{prompt, {Event: "PreCompact"}}, true, 0},
		"the session is cleared":         {[]daemon.Report{prompt, {Event: "SessionEnd", Why: "clear"}}, false, 0},
		"the session has ended":          {[]daemon.Report{prompt, {Event: "SessionEnd", Why: "other"}}, false, 0},
		"another client's":               {[]daemon.Report{{Event: "UserPromptSubmit", Session: "b"}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d := newDesk(t)
				if name != "the start was not reported" && (len(c.reports) == 0 || c.reports[0].Event != "SessionStart") {
					d.hear(begins)
				}
				d.hear(c.reports...)
				d.want(c.exclusive, c.open, "then")
			})
		})
	}
}

// A client that does not report, or that may be changing something unreported, makes the folder
// non-exclusive for all clients.
func TestLedgerOthers(t *testing.T) {
	d := newDesk(t)
	d.hear(begins, prompt)
	d.want(true, 0, "one client in a turn")
	changed := d.changed
	d.Enter(&hook.Client{Folder: "/else"})
	d.want(true, 0, "beside one in another folder")
	other := d.client("b", 0)
	d.Enter(other)
	d.want(false, 0, "beside one that does not report")
	d.Leave(other)
	d.want(true, 0, "when that has left")
	d.Enter(other)
	if d.changed == changed {
		t.Error("earlier prefetches were not invalidated")
	}
	d.hear(daemon.Report{Event: "SessionStart", Why: "startup", Session: "b", Folder: folder})
	d.want(true, 0, "beside one that reports and waits")
	d.hear(daemon.Report{Event: "UserPromptSubmit", Session: "b"}, daemon.Report{Event: "PostToolUse", Tool: "Edit", Use: "0", Session: "b"})
	d.want(false, 0, "beside one that did not report a change in time")
	d.hear(daemon.Report{Event: "Stop", Session: "b"})
	d.want(true, 0, "whose turn has ended")
	changed = d.changed
	d.hear(daemon.Report{Event: "PostToolUse", Tool: "Edit", Use: "0", Session: "b"})
	if d.want(true, 0, "and which reports another"); d.changed == changed {
		t.Error("an edit between turns has invalidated nothing")
	}
	background := shell(pre("Bash", "1"), "make", true)
	background.Session = "b"
	d.hear(background)
	background.Event = "PostToolUse"
	d.hear(background)
	d.want(false, 0, "beside a background command of another")
	d.Leave(other)
	d.want(false, 0, "which goes on without its client")
	d.hear(daemon.Report{Event: "SessionEnd", Session: "b", Why: "other"})
	d.want(true, 0, "and has ended")
	detached := shell(pre("Bash", "2"), "make watch &", false)
	detached.Session, detached.Folder = "b", folder
	d.hear(detached)
	detached.Event = "PostToolUse"
	d.hear(detached, daemon.Report{Event: "SessionEnd", Session: "b", Why: "other"})
	d.want(false, 0, "beside a detached command, which no client ends")
}

// A directory is not exclusive beside a client without a hook below it, nor beside what a client
// below or above it has left running.
func TestLedgerNested(t *testing.T) {
	for at, want := range map[string]struct{ silent, left bool }{
		folder:          {false, false},
		folder + "/web": {false, false},
		"/":             {true, false}, // where many clients start that work elsewhere
		folder + "-2":   {true, true},
	} {
		d := newDesk(t)
		d.hear(begins, prompt)
		silent := &hook.Client{Folder: at, Session: "b"}
		d.Enter(silent)
		d.want(want.silent, 0, "a client without a hook in "+at)
		d.Leave(silent)
		leaves := shell(post("Bash", "1"), "make watch &", false)
		leaves.Session, leaves.Folder = "b", at
		d.hear(leaves)
		d.want(want.left, 0, "a command left in "+at)
	}
}

// The reports of a process belong to its client, even under another session id. The same session
// id of another process belongs to another client.
func TestLedgerProcess(t *testing.T) {
	d := newDesk(t)
	d.Enter(d.client("b", 7))
	d.hear(begins, prompt, daemon.Report{Event: "SessionStart", Why: "startup", Session: "b", Parent: 7}, daemon.Report{Event: "SessionEnd", Session: "b", Parent: 7, Why: "clear"}, daemon.Report{Event: "UserPromptSubmit", Session: "c", Parent: 7, Prompt: "go"})
	d.want(true, 0, "a process with another session")
	if len(d.prompts) != 2 || d.prompts[1] != "b: go" {
		t.Errorf("got prompts %q, want the process's prompt with its client", d.prompts)
	}
	d.hear(daemon.Report{Event: "PreToolUse", Tool: "Bash", Command: "make", Background: true, Session: "c", Parent: 8})
	d.want(true, 1, "another process, in another folder")
	d.hear(daemon.Report{Event: "UserPromptSubmit", Session: "b", Parent: 8, Prompt: "not for b"})
	if len(d.prompts) != 2 {
		t.Errorf("got prompts %q, want none of another process", d.prompts)
	}
}

// The numbers of clients and of tool uses that are kept are bounded.
func TestLedgerBounds(t *testing.T) {
	d := newDesk(t)
	d.hear(begins, prompt)
	for i := range 1000 {
		r := pre("Edit", string(rune('a'+i)))
		d.hear(r)
	}
	for i := range 1000 {
		d.hear(post("Edit", string(rune('a'+i))))
		if d.exclusive() {
			t.Fatalf("got an exclusive folder after %d ends, although not all edits were tracked", i+1)
		}
	}
	d.hear(stop, prompt)
	if !d.exclusive() {
		t.Error("got no exclusive folder after a turn of many edits")
	}
	for i := range 1000 {
		d.hear(daemon.Report{Event: "UserPromptSubmit", Session: string(rune('a' + i + 1))}, prompt)
	}
	if !d.exclusive() {
		t.Error("got no exclusive folder, although its client went on reporting")
	}
	for i := range 1000 {
		d.hear(daemon.Report{Event: "UserPromptSubmit", Session: string(rune('a' + i + 1))})
	}
	if d.exclusive() {
		t.Error("got an exclusive folder, although the state of its client was dropped")
	}
}
