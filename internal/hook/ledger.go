// Package hook tracks the file changes that clients' hooks report, and whether changes may go
// unreported.
//
// Each client whose hook reports has a [turn], a state that each report advances by a pure
// function. A reported write is pending in the cache from its report on, as a call's is. A
// directory is exclusive, so that reads of its files may be prefetched, while all clients in it
// report, at least one is in a turn, and none may be changing anything unreported:
//
//	ledger := hook.New(effects)
//	exclusive := ledger.Exclusive("/home/me/project") // may be called at any time
//	ledger.Enter(&hook.Client{Folder: "/home/me/project", Session: id})
//	ledger.Hear(report)
//
// Package daemon transports the reports. What is allowed in an exclusive directory is decided
// elsewhere.
package hook

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/daemon"
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
	Folder   string             // working directory
	Session  string             // its name for its session; "" if unknown
	Parent   int                // process that started its connect; 0 if unknown
	Again    bool               // whether another daemon served it before, so that its background commands are unknown
	Prompted func(words string) // called with each prompt of its user; must not block
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

// reporter is a client whose hook has reported, connected or not.
type reporter struct {
	session string // latest session name
	parent  int    // 0 if unknown
	folder  string
	turn    turn
	open    map[string]*opened // tool use → its write
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
			p.turn.failed = true
		}
	} else {
		l.hearLocked(l.reporterLocked(r), r)
	}
	l.settleLocked()
}

// hearLocked processes a report of a known reporter.
func (l *Ledger) hearLocked(p *reporter, r *daemon.Report) {
	late := time.Since(time.UnixMilli(r.Sent)).Abs() > daemon.HookTimeout
	next, d := p.turn.after(r, p.open[r.Use] != nil, late)
	p.turn = next
	switch {
	case d.begins:
		l.beginLocked(p, r)
	case d.ends:
		l.endLocked(p, r.Use)
	case d.missed:
		l.effects.Begin().End()
	case d.endAll:
		for use, o := range p.open {
			delete(p.open, use)
			o.End()
		}
	case d.gone:
		l.reporters = slices.DeleteFunc(l.reporters, func(other *reporter) bool { return other == p })
	case d.prompt:
		l.effects.Changed() // between turns the user may have changed files
		for c := range l.clients {
			if l.reporterOf(c) == p {
				c.Prompted(r.Prompt)
			}
		}
	}
}

// beginLocked starts the write of a tool use.
func (l *Ledger) beginLocked(p *reporter, r *daemon.Report) {
	write, o := l.effects.Begin(), p.open[r.Use]
	switch {
	case r.Unread != "": // no report will end it
	case o != nil: // two uses without an id, or a hook configured twice
		o.End()
		o.Write = write
		o.times++
	case len(p.open) >= mostOpen:
		p.turn.failed = true
	default:
		p.open[r.Use] = &opened{write, 1}
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

// isExclusiveLocked decides whether a directory is exclusive.
func (l *Ledger) isExclusiveLocked(folder string) bool {
	active := false
	for c := range l.clients {
		if c.Folder != folder {
			continue
		}
		p := l.reporterOf(c)
		if p == nil || !p.turn.known || c.Again || p.turn.changes(len(p.open)) { // a client that does not report may change anything
			return false
		}
		active = active || p.turn.active
	}
	return active && !slices.ContainsFunc(l.reporters, func(p *reporter) bool { return p.folder == folder && p.turn.changes(len(p.open)) })
}
