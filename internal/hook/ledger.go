// Package hook tracks the file changes that clients' hooks report, and whether changes may go
// unreported.
//
// Each client with a hook that reports has an [activity], which its reports change. A reported
// write is pending in the cache from its report on, as a call's is. A directory is exclusive, so
// that reads of its files may be prefetched, while all clients in it or below report, at least one
// in it is in a turn, and none in it, below or above may be changing anything unreported:
//
//	ledger := hook.New(effects)
//	exclusive := ledger.Exclusive("/home/me/project") // may be called at any time
//	ledger.Enter(&hook.Client{Folder: "/home/me/project", Session: id, Prompted: learn})
//	ledger.Hear(report)
//
// Package daemon transports the reports. What is allowed in an exclusive directory is decided
// elsewhere.
package hook

import (
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/classify"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/paths"
)

// Effects are the program's reactions to reports. They must not block or call the ledger.
type Effects struct {
	Begin   func() Write // starts a write of any local file, which ends by itself after a while
	Changed func()       // any local file may have changed before now
}

// Write is a pending write.
type Write interface{ End() }

// Client is a connected client, with the identifiers that its hook's reports may contain.
type Client struct {
	Folder       string             // working directory
	Session      string             // its name for its session; "" if unknown
	Parent       int                // process that started its connect; 0 if unknown
	ServedBefore bool               // whether another daemon served it before, so that its background commands are unknown
	Prompted     func(words string) // called with each prompt of its user; must not block
}

// Limits of the ledger.
const (
	mostReporters = 256
	mostOpen      = 256 // unfinished tool uses of one client
)

// Ledger tracks the reports of all clients of a daemon. A report has taken effect when Hear
// returns. Effects are called with the mutex held, so that they occur in the order of reports.
type Ledger struct {
	effects Effects

	mu        sync.Mutex
	clients   map[*Client]struct{}
	reporters []*reporter             // in order of their last report
	exclusive map[string]*atomic.Bool // directory → whether it is exclusive
}

// reporter is a client that has reported, connected or not.
type reporter struct {
	activity
	session string // latest session name
	parent  int    // 0 if unknown
	folder  string
	open    map[string]*opened // tool use → its write
}

// activity is the state of a client. The zero value is a client between turns that may have been
// active before.
type activity struct {
	knowsBackground bool // its background commands are known, since its start or the end of a turn was reported
	active          bool // in a turn: from a prompt until its model stops
	failed          bool // a change in this turn may have gone unreported
	background      bool // a background command may be running, and the client reports its end
	detached        bool // a detached command may be running, and its end is not reported
}

// changing reports whether files may be changing without a report.
func (p *reporter) changing() bool {
	return p.failed || p.background || p.detached || len(p.open) > 0
}

// opened is the write of an unfinished tool use.
type opened struct {
	Write
	times int // reported starts less reported ends
}

// New returns an empty ledger.
func New(e Effects) *Ledger {
	return &Ledger{effects: e, clients: make(map[*Client]struct{}), exclusive: make(map[string]*atomic.Bool)}
}

// Exclusive returns a function that reports whether the files of a directory change only through
// calls and reported changes. The function takes no lock.
func (l *Ledger) Exclusive(folder string) func() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exclusive[folder] == nil {
		l.exclusive[folder] = new(atomic.Bool)
	}
	return l.exclusive[folder].Load
}

// Enter registers a client before it is served.
func (l *Ledger) Enter(c *Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients[c] = struct{}{}
	l.settleLocked()
}

// Leave unregisters a client.
func (l *Ledger) Leave(c *Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clients, c)
	l.settleLocked()
}

// Hear processes a report.
func (l *Ledger) Hear(r *daemon.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Session == "" && r.Parent == 0 && r.Folder == "" { // it may be from any client
		l.effects.Begin()
		for _, p := range l.reporters {
			p.failed, p.background = true, true
		}
	} else {
		l.hearLocked(l.reporterLocked(r), r)
	}
	l.settleLocked()
}

// hearLocked processes a report of a known reporter.
func (l *Ledger) hearLocked(p *reporter, r *daemon.Report) {
	if r.Unread != "" { // no later report can be matched to it, and it may be of a background command
		p.failed, p.background = true, true
		l.effects.Begin()
		return
	}
	late := time.Since(time.UnixMilli(r.Sent)).Abs() > daemon.HookTimeout
	p.failed = p.failed || late && p.active // between turns this client makes no directory exclusive, and the next prompt clears failed
	switch r.Event {
	case "PreToolUse":
		u := useOf(r)
		p.background, p.detached = p.background || u.background, p.detached || u.detaches
		if u.writes {
			l.beginLocked(p, r.Use)
		}
	case "PostToolUse", "PostToolUseFailure":
		u := useOf(r)
		p.background, p.detached = p.background || u.background, p.detached || u.detaches
		if p.open[r.Use] != nil {
			l.endLocked(p, r.Use)
		} else if u.writes { // it was not reported before it began
			p.failed = p.failed || p.active
			l.effects.Begin().End()
		}
	case "UserPromptSubmit":
		p.active, p.failed = true, late
		l.effects.Changed() // between turns the user may have changed files
		for c := range l.clients {
			if l.reporterOf(c) == p {
				c.Prompted(r.Prompt)
			}
		}
	case "Stop":
		p.active, p.failed = false, false
		if r.Tasks != nil {
			p.knowsBackground, p.background = true, *r.Tasks > 0
			if *r.Tasks == 0 {
				p.endAll()
			}
		}
	case "SessionStart":
		if r.Why == "startup" { // otherwise the process was there before
			p.activity = activity{knowsBackground: true}
			p.endAll()
		}
	case "SessionEnd":
		p.active = false
		if r.Why != "clear" && r.Why != "resume" && !p.detached { // otherwise the process, or its command, continues
			l.reporters = slices.DeleteFunc(l.reporters, func(other *reporter) bool { return other == p })
		}
	}
}

// beginLocked starts the write of a tool use.
func (l *Ledger) beginLocked(p *reporter, use string) {
	write, o := l.effects.Begin(), p.open[use]
	switch {
	case o != nil: // two equal uses without an id, or a hook configured twice
		o.End()
		o.Write = write
		o.times++
	case len(p.open) >= mostOpen: // the end of this write is not tracked; it ends by itself
		p.failed = true
	default:
		p.open[use] = &opened{write, 1}
	}
}

// endLocked ends the write of a tool use.
func (l *Ledger) endLocked(p *reporter, use string) {
	o := p.open[use]
	if o.times--; o.times == 0 {
		delete(p.open, use)
		o.End()
	}
	l.effects.Changed() // the write may already have ended by itself
}

// endAll ends the writes of all uses.
func (p *reporter) endAll() {
	for use, o := range p.open {
		delete(p.open, use)
		o.End()
	}
}

// reporterLocked returns the reporter of a report, and creates it if needed.
func (l *Ledger) reporterLocked(r *daemon.Report) *reporter {
	i := slices.IndexFunc(l.reporters, func(p *reporter) bool { return p.same(r) })
	if i < 0 {
		i = len(l.reporters)
		l.reporters = append(l.reporters, &reporter{open: make(map[string]*opened)})
	}
	p := l.reporters[i]
	l.reporters = append(slices.Delete(l.reporters, i, i+1), p)
	if len(l.reporters) > mostReporters {
		l.reporters = slices.Delete(l.reporters, 0, 1)
	}
	if r.Session != "" {
		p.session = r.Session
	}
	if r.Parent != 0 {
		p.parent = r.Parent
	}
	if r.Folder != "" {
		p.folder = r.Folder
	}
	return p
}

// same reports whether a report is from p. A client process keeps its identity across sessions. If
// a process is unknown, the sessions are compared, and without those the directories.
func (p *reporter) same(r *daemon.Report) bool {
	switch {
	case p.parent != 0 && r.Parent != 0:
		return p.parent == r.Parent
	case p.session != "" || r.Session != "":
		return p.session == r.Session
	}
	return p.parent == r.Parent && p.folder == r.Folder
}

// reporterOf returns the reporter of a connected client, or nil. A match of the process wins over
// one of the session's name; of several of the latter, the last reporter wins.
func (l *Ledger) reporterOf(c *Client) (found *reporter) {
	for _, p := range l.reporters {
		switch {
		case c.Parent != 0 && c.Parent == p.parent:
			return p
		case c.Session != "" && c.Session == p.session:
			found = p
		}
	}
	return found
}

// settleLocked updates which directories are exclusive. If one no longer is, its prefetched results
// are invalidated, since it is unknown when that began.
func (l *Ledger) settleLocked() {
	for folder, flag := range l.exclusive {
		is := l.isExclusiveLocked(folder)
		if was := flag.Swap(is); was && !is {
			l.effects.Changed() // after the flag, which a concurrent prefetch checks again
		}
	}
}

// isExclusiveLocked decides whether a directory is exclusive. A client below it works in it too. One
// above need not: many clients start in the home directory. But what it leaves running may write here.
func (l *Ledger) isExclusiveLocked(folder string) bool {
	active := false
	for c := range l.clients {
		if !paths.Within(c.Folder, folder) {
			continue
		}
		p := l.reporterOf(c)
		if p == nil || !p.knowsBackground || c.ServedBefore || p.changing() { // a client that does not report may change anything
			return false
		}
		active = active || p.active && c.Folder == folder
	}
	return active && !slices.ContainsFunc(l.reporters, func(p *reporter) bool {
		return p.changing() && (paths.Within(p.folder, folder) || paths.Within(folder, p.folder))
	})
}

// use is the effect that a client's own tool may have on local files.
type use struct{ writes, background, detaches bool }

// changesDir is how a model often begins a command: it changes the directory of the client's own shell.
var changesDir = regexp.MustCompile(`^cd (?:"[^"$\x60\\!]*"|'[^']*'|[\w./~-]+) && `)

// useOf classifies a reported tool use. An unknown tool may write while it runs.
func useOf(r *daemon.Report) use {
	switch r.Tool {
	case "Edit", "Write", "MultiEdit", "NotebookEdit":
		return use{writes: true}
	case "Bash":
		// git in another directory obeys the configuration there.
		command := changesDir.ReplaceAllString(r.Command, "")
		if e := classify.ShellLine(command); e.Level == classify.Reads && (command == r.Command || len(e.Folders) == 0) {
			return use{}
		}
		return use{writes: true, background: r.Background, detaches: r.Command == "" || classify.Detaches(r.Command)} // a long command is reported as ""
	case "Monitor": // it continues in the background
		return use{writes: true, background: true}
	}
	return use{writes: true, background: r.Background}
}
