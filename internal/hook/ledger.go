// Package hook keeps what clients' hooks report: what is being changed without mcpschedd, and
// whether anything may be that is not reported.
//
// The idea: each client whose hook reports has a [turn], which each report moves on by a pure
// function. A write that is reported is pending in the store from the report on, as a call's
// is. A folder counts as exclusive, so that reads of its files may be made early, while all
// clients that work in it report, one of them is at work, and none may be changing anything
// unseen:
//
//	ledger := hook.New(effects)
//	exclusive := ledger.Exclusive("/home/me/project") // to be asked at any time
//	ledger.Enter(&hook.Client{Folder: "/home/me/project", Session: id})
//	ledger.Hear(report)
//
// It leaves out how reports come here, which is package daemon, and what may be done in an exclusive folder.
package hook

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/daemon"
)

// Effects are what reports have the program do. They wait for nothing, and do not call the
// ledger.
type Effects struct {
	Begin   func() Write // begins a write of whatever is on this machine, which ends by itself after a while
	Changed func()       // whatever is on this machine may have changed before now
}

// Write is a write that has begun.
type Write interface{ End() }

// Client is one that is served, as its hook's reports may name it.
type Client struct {
	Folder   string             // in which it works
	Session  string             // its name for its session; "": not known
	Parent   int                // its process, unless another one stands between; 0: not known
	Again    bool               // another daemon served it before: what it had left running then is not known
	Prompted func(words string) // is told what its user asks; it waits for nothing
}

// Bounds of what is kept.
const (
	mostReporters = 256
	mostOpen      = 256 // uses of one client
)

// Ledger is the reports of all clients of a daemon. Each report has taken effect when Hear
// returns: its effects are under the ledger's mutex, so that they come in the order of reports.
type Ledger struct {
	effects Effects

	mu        sync.Mutex
	clients   map[*Client]struct{}
	reporters []*reporter             // the one that reported last at the end
	exclusive map[string]*atomic.Bool // folder → whether it is
}

// reporter is a client whose hook has reported.
type reporter struct {
	session string // the latest name
	parent  int    // 0: not known
	folder  string
	turn    turn
	open    map[string]*opened // use → its write
}

// opened is the write of a use that has not ended.
type opened struct {
	Write
	times int // that its beginning was reported more often than its end
}

// New makes a ledger without reports.
func New(e Effects) *Ledger {
	return &Ledger{effects: e, clients: make(map[*Client]struct{}), exclusive: make(map[string]*atomic.Bool)}
}

// Exclusive is what says whether files of a folder are changed only by what is reported and by
// calls. It takes no lock.
func (l *Ledger) Exclusive(folder string) func() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flagLocked(folder).Load
}

func (l *Ledger) flagLocked(folder string) *atomic.Bool {
	if l.exclusive[folder] == nil {
		l.exclusive[folder] = new(atomic.Bool)
	}
	return l.exclusive[folder]
}

// Enter notes a client, before it is served.
func (l *Ledger) Enter(c *Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients[c] = struct{}{}
	l.settleLocked()
}

// Leave notes that a client has gone.
func (l *Ledger) Leave(c *Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clients, c)
	l.settleLocked()
}

// Hear takes note of a report.
func (l *Ledger) Hear(r *daemon.Report) {
	late := time.Since(time.UnixMilli(r.Sent)).Abs() > daemon.HookTimeout
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Session == "" && r.Parent == 0 && r.Folder == "" { // any client's
		l.hearUnnamedLocked(r, late)
	} else {
		l.hearLocked(l.reporterLocked(r), r, late)
	}
	l.settleLocked()
}

// hearLocked is Hear for a report of which it is known whose it is.
func (l *Ledger) hearLocked(p *reporter, r *daemon.Report, late bool) {
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
		p.endAll()
	case d.gone:
		l.reporters = slices.DeleteFunc(l.reporters, func(other *reporter) bool { return other == p })
	case d.prompt:
		l.promptLocked(p, r)
	}
}

// beginLocked begins the write of a use.
func (l *Ledger) beginLocked(p *reporter, r *daemon.Report) {
	write, o := l.effects.Begin(), p.open[r.Use]
	switch {
	case r.Unread != "": // its end will not be known
	case o != nil: // two that have no number, or a hook that was set up twice
		o.End()
		o.Write = write
		o.times++
	case len(p.open) >= mostOpen:
		p.turn.failed = true
	default:
		p.open[r.Use] = &opened{write, 1}
	}
}

// endLocked ends it.
func (l *Ledger) endLocked(p *reporter, use string) {
	o := p.open[use]
	if o.times--; o.times == 0 {
		delete(p.open, use)
		o.End()
	}
	l.effects.Changed() // the write may have ended before by itself
}

// endAll ends the writes of all uses: none is under way any more.
func (p *reporter) endAll() {
	for use, o := range p.open {
		delete(p.open, use)
		o.End()
	}
}

// promptLocked has a turn begin: between turns people change files.
func (l *Ledger) promptLocked(p *reporter, r *daemon.Report) {
	l.effects.Changed()
	for c := range l.clients {
		if l.reporterOf(c) == p {
			c.Prompted(r.Prompt)
		}
	}
}

// hearUnnamedLocked is Hear for a report of which it is not known whose it is: what it may mean
// for any client counts.
func (l *Ledger) hearUnnamedLocked(r *daemon.Report, late bool) {
	_, d := turn{}.after(r, false, late)
	if d.begins || d.missed {
		l.effects.Begin()
	}
	if d.begins || d.missed || late {
		for _, p := range l.reporters {
			p.turn.failed = true
		}
	}
}

// reporterLocked is the client that a report is of.
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

// same reports whether a report is the client's. A process keeps its client through sessions
// that it begins and leaves; where it is not known, the session tells, and without that the
// folder.
func (p *reporter) same(r *daemon.Report) bool {
	switch {
	case p.parent != 0 && r.Parent != 0:
		return p.parent == r.Parent
	case p.session != "" || r.Session != "":
		return p.session == r.Session
	}
	return p.parent == r.Parent && p.folder == r.Folder
}

// reporterOf is what a client that is served has reported; nil: nothing. Of two that bear its
// session's name the one counts that is its process, else the one that reported last.
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

// settleLocked says anew which folders are exclusive. What was fetched early in one that is no more
// is void: it is not known when that began.
func (l *Ledger) settleLocked() {
	for folder, flag := range l.exclusive {
		is := l.isExclusiveLocked(folder)
		if was := flag.Swap(is); was && !is {
			l.effects.Changed() // after the flag: what is begun early meanwhile looks at it again
		}
	}
}

// isExclusiveLocked is the rule for one folder.
func (l *Ledger) isExclusiveLocked(folder string) bool {
	active := false
	for c := range l.clients {
		if c.Folder != folder {
			continue
		}
		p := l.reporterOf(c)
		if p == nil || !p.turn.known || c.Again || p.turn.changes(len(p.open)) { // one that does not report may change anything
			return false
		}
		active = active || p.turn.active
	}
	return active && !slices.ContainsFunc(l.reporters, func(p *reporter) bool { return p.folder == folder && p.turn.changes(len(p.open)) })
}
