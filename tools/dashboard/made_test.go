//go:build browser

package dashboard_test

// Made-up events of a busy proxy.

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"mcpschedd/internal/record"
)

// lively generates the events of sessions that call the tools of four upstreams in learnable
// chains, with prefetches of the next calls, as the proxy would record them.
type lively struct {
	rand *rand.Rand
	tell func(*record.Event)
	ends time.Time
}

// habit describes a tool, and the tools that follow it.
type habit struct {
	upstream, tool, class, host string
	ms                          float64
	bytes                       int64
	next                        []step
}

type step struct {
	to int // index in habits
	p  float64
}

var habits = []habit{
	{"github", "list_issues", "read_only", "api.github.com", 420, 9000, []step{{1, .62}, {2, .14}, {4, .1}}},
	{"github", "get_issue", "read_only", "api.github.com", 310, 3200, []step{{2, .71}, {1, .12}, {4, .09}}},
	{"github", "list_comments", "read_only", "api.github.com", 280, 5100, []step{{4, .38}, {1, .24}, {3, .18}}},
	{"github", "create_comment", "mutates_external", "api.github.com", 520, 700, []step{{0, .55}, {8, .2}}},
	{"github", "search_code", "read_only", "api.github.com", 860, 14000, []step{{5, .64}, {4, .12}, {0, .08}}},
	{"files", "read_file", "read_only", "local", 6, 6400, []step{{5, .34}, {7, .22}, {6, .18}, {8, .09}}},
	{"files", "list_directory", "read_only", "local", 4, 1200, []step{{5, .7}, {6, .1}}},
	{"files", "edit_file", "mutates_local", "local", 11, 300, []step{{5, .47}, {3, .16}, {0, .09}}},
	{"db", "query", "read_only", "db.internal", 145, 2600, []step{{8, .3}, {9, .26}, {0, .11}}},
	{"db", "describe_table", "read_only", "db.internal", 60, 1800, []step{{8, .82}}},
	{"wiki", "search", "read_only", "wiki.example", 640, 7200, []step{{11, .77}, {10, .1}}},
	{"wiki", "get_page", "read_only", "wiki.example", 510, 15000, []step{{10, .2}, {11, .18}, {0, .25}}},
}

// busy returns a tally of the half hour before now.
func busy(now time.Time) *record.Tally {
	t := record.NewTally()
	playSessions(1, now.Add(-34*time.Minute), now, 14, t.Add)
	return t
}

// oneTool returns a tally of a session with calls of one tool only.
func oneTool(now time.Time) *record.Tally {
	t := record.NewTally()
	begin := now.Add(-9 * time.Minute)
	tell := func(e record.Event) { e.Process, e.Session = "p", "1f00c2"; t.Add(&e) }
	t.Add(&record.Event{Kind: record.Begin, At: begin, Process: "p", V: record.Version, Transport: "stdio", Dir: "/home/ada/work/api"})
	tell(record.Event{Kind: record.Session, At: begin, Client: "claude-code 2.1"})
	for i := range 24 {
		at := begin.Add(time.Duration(i)*4*time.Second + time.Duration(i/8)*2*time.Minute)
		seq := int64(2*i + 1)
		e := record.Event{
			Kind: record.Call, At: at, Seq: seq, Upstream: "git", Tool: "git_show", Class: "read_only", Host: "local", Turn: i + 1,
			Disposition: record.Fetched, LatencyMS: 180, UpstreamMS: 180, Sent: 1, Bytes: 4000, Tokens: 1000,
		}
		if i%2 == 1 {
			e.Disposition, e.LatencyMS, e.UpstreamMS, e.Sent, e.HiddenMS, e.Prefetched, e.UseOf = record.Hit, .3, 0, 0, 180, true, seq-1
			tell(record.Event{Kind: record.Prefetch, At: at.Add(-3 * time.Second), Seq: seq - 1, Upstream: "git", Tool: "git_show", LatencyMS: 180, Sent: 1, After: seq - 2, PredictedP: .6, Fate: record.Used, UsedBy: seq})
		}
		tell(e)
		c := record.Event{Kind: record.Decision, At: at.Add(time.Second), After: seq, Upstream: "git", Candidates: 4, Issued: 1 - i%2, Declined: map[string]int{"low_probability": 3 + i%2}}
		for j := range 4 {
			d := record.Candidate{Tool: "git/git_show", P: .6 / float64(j+1), ValueMS: 180, Tokens: 1000, Differs: "revision", Reason: "low_probability"}
			if j == 0 && i%2 == 0 {
				d.Reason, d.Called = "", true
			}
			c.Top = append(c.Top, d)
		}
		tell(c)
	}
	return t
}

// playSessions generates the events of n sessions from begin to end. Equal seeds give equal
// events.
func playSessions(seed uint64, begin, end time.Time, n int, tell func(*record.Event)) {
	newLively(seed, end, tell).play(begin, n)
}

// oneSession generates the events of one open session from begin to end.
func oneSession(seed uint64, name string, begin, end time.Time, tell func(*record.Event)) {
	newLively(seed, end, tell).session(name, begin, true)
}

func newLively(seed uint64, ends time.Time, tell func(*record.Event)) *lively {
	return &lively{rand: rand.New(rand.NewPCG(seed, 7)), tell: tell, ends: ends}
}

// play generates the events of n sessions since begin.
func (l *lively) play(begin time.Time, n int) {
	l.tell(&record.Event{Kind: record.Begin, At: begin, Process: "20260102T080000-4711-beef", V: record.Version, PID: 4711, Program: "dev", Mode: "on", Transport: "stdio", Dir: "/home/ada/work/api", Config: "/home/ada/.config/mcpschedd/pipeline_config.toml", Upstreams: []string{"github", "files", "db", "wiki"}})
	for i := range n {
		at := begin.Add(time.Duration(i) * l.ends.Sub(begin) / time.Duration(n+1))
		l.session(fmt.Sprintf("%06x", 0x1f00c2+i*0x3107), at, i >= n-3)
	}
	l.limits()
}

// limits generates two changes of level, and harm.
func (l *lively) limits() {
	at := func(s int) time.Time { return l.ends.Add(time.Duration(-s) * time.Second) }
	for _, e := range []record.Event{
		{Kind: record.Level, At: at(900), Host: "wiki.example", From: 3, To: 2, Why: "accuracy below 0.3"},
		{Kind: record.Level, At: at(620), Host: "api.github.com", From: 3, To: 4, Why: "accuracy above 0.6, asked for early"},
		{Kind: record.Level, At: at(240), Host: "wiki.example", From: 2, To: 1, Why: "harm: rate_limited"},
		{Kind: record.Harm, At: at(240), Host: "wiki.example", Why: "rate_limited"},
		{Kind: record.Harm, At: at(230), Host: "wiki.example", Why: "foreground_wait", LatencyMS: 184},
	} {
		e.Process = "20260102T080000-4711-beef"
		l.tell(&e)
	}
}

// session generates the events of one session: chains of calls with pauses.
func (l *lively) session(name string, at time.Time, open bool) {
	s := &agent{l: l, name: name, at: at}
	s.tell(record.Event{Kind: record.Session, At: at, Client: "claude-code 2.1"})
	tool := []int{0, 0, 10, 8, 6}[l.rand.IntN(5)]
	calls := 40 + l.rand.IntN(40)
	for turn := 1; turn <= calls || open && s.at.Before(l.ends.Add(-4*time.Second)); turn++ {
		s.turn = turn
		tool = s.call(tool)
		s.at = s.at.Add(time.Duration(900+l.rand.IntN(4200)) * time.Millisecond)
		if !s.at.Before(l.ends) {
			return
		}
	}
	s.tell(record.Event{Kind: record.Plan, At: s.at, Plan: 1, Steps: 7, Depth: 4, LatencyMS: 1300, BytesIn: 61_000, BytesOut: 9_000})
	if !open {
		s.tell(record.Event{Kind: record.End, At: s.at})
	}
}

// agent is a session that is being generated.
type agent struct {
	l     *lively
	name  string
	at    time.Time
	seq   int64
	turn  int
	early map[int]*record.Event // tool → the prefetch in flight for it
	was   int64                 // the last call
}

func (s *agent) tell(e record.Event) {
	e.Session, e.Process = s.name, "20260102T080000-4711-beef"
	s.l.tell(&e)
}

// call makes one call, makes prefetches, and returns the tool of the next call.
func (s *agent) call(tool int) (next int) {
	h, r := habits[tool], s.l.rand
	s.seq++
	seq := s.seq
	took := h.ms * (.6 + .9*r.Float64())
	e := record.Event{
		Kind: record.Call, At: s.at, Seq: seq, Upstream: h.upstream, Tool: h.tool, Class: h.class, Host: h.host, Turn: s.turn,
		ArgsHash:    "00aa11bb22cc33dd",
		Disposition: record.Fetched, LatencyMS: took, UpstreamMS: took, Sent: 1, Bytes: h.bytes, Tokens: h.bytes / 4,
	}
	early := s.early[tool]
	switch repeat := r.Float64(); {
	case early != nil:
		s.use(&e, early)
	case h.class != "read_only":
	case repeat < .06:
		e.Disposition, e.LatencyMS, e.UpstreamMS, e.Sent, e.HiddenMS = record.Hit, .2, 0, 0, took
	case repeat < .08:
		e.Disposition, e.LatencyMS, e.UpstreamMS, e.Sent, e.HiddenMS = record.Joined, took*.4, 0, 0, took*.6
	case repeat < .09:
		e.Disposition, e.Error, e.UpstreamMS = record.Failed, "timeout", 0
	case repeat < .11:
		e.IsError = true
	}
	s.tell(e)
	s.waste(tool)
	s.at = s.at.Add(time.Duration(e.LatencyMS * float64(time.Millisecond)))
	s.was = seq
	next = s.follows(h)
	s.think(h, next)
	return next
}

// use answers a call with its prefetch.
func (s *agent) use(e, early *record.Event) {
	have := float64(s.at.Sub(early.At)) / 1e6
	e.Disposition, e.Prefetched, e.UseOf, e.Sent, e.UpstreamMS = record.Hit, true, early.Seq, 0, 0
	e.LatencyMS, e.HiddenMS, e.PredictedP = .3, early.LatencyMS, early.PredictedP
	early.Fate = record.Used
	if have < early.LatencyMS {
		e.Disposition, e.LatencyMS, e.HiddenMS, early.Fate = record.Joined, early.LatencyMS-have, have, record.Late
	}
	early.UsedBy = e.Seq
}

// waste ends the prefetches after the call before this one.
func (s *agent) waste(called int) {
	causes := []string{"never_asked", "never_asked", "expired", "invalidated", "dropped"}
	for tool := range len(habits) {
		if g := s.early[tool]; g != nil {
			if tool != called {
				g.Fate, g.Cause = record.Wasted, causes[s.l.rand.IntN(len(causes))]
				if s.l.rand.Float64() < .05 {
					g.Fate, g.Cause = record.Compared, ""
				}
			}
			s.tell(*g)
		}
	}
	s.early = make(map[int]*record.Event)
}

func (s *agent) follows(h habit) int {
	x := s.l.rand.Float64()
	for _, n := range h.next {
		if x -= n.p; x < 0 {
			return n.to
		}
	}
	return s.l.rand.IntN(len(habits))
}

// think makes a choice among the tools that may follow, and records it.
func (s *agent) think(h habit, next int) {
	r := s.l.rand
	c := record.Event{Kind: record.Decision, At: s.at, After: s.was, Upstream: h.upstream, Tool: h.tool, Declined: map[string]int{}}
	for _, n := range h.next {
		to := habits[n.to]
		p := min(.97, n.p*(.85+.5*r.Float64()))
		d := record.Candidate{Tool: to.upstream + "/" + to.tool, P: p, ValueMS: p * to.ms, Tokens: to.bytes / 4, Called: n.to == next}
		switch {
		case to.class != "read_only":
			d.Reason = "not_speculatable"
		case p < .3:
			d.Reason = "low_probability"
		case to.ms < 20 && r.Float64() < .5:
			d.Reason = "gate"
		case to.host == "wiki.example" && r.Float64() < .3:
			d.Reason = "throttled"
		case r.Float64() < .06:
			d.Reason = []string{"budget", "cap", "stored", "shadow", "origin"}[r.IntN(5)]
		}
		if to.tool == "get_issue" || to.tool == "get_page" { // one of several items of a list
			d.Differs = map[string]string{"get_issue": "issue_number", "get_page": "path"}[to.tool]
			for i := range 3 {
				other := d
				other.P, other.Called, other.Reason = p/float64(i+2), false, "low_probability"
				c.Candidates++
				c.Declined[other.Reason]++
				c.Top = append(c.Top, other)
			}
		}
		c.Candidates++
		c.Top = append(c.Top, d)
		if d.Reason != "" {
			c.Declined[d.Reason]++
			if d.Called {
				c.LateCalled++
			}
			continue
		}
		c.Issued++
		s.begin(n.to, p)
	}
	slices.SortStableFunc(c.Top, func(a, b record.Candidate) int { return cmp.Compare(b.P, a.P) })
	s.tell(c)
}

// begin begins a prefetch.
func (s *agent) begin(tool int, p float64) {
	h := habits[tool]
	s.seq++
	s.early[tool] = &record.Event{
		Kind: record.Prefetch, At: s.at.Add(2 * time.Millisecond), Seq: s.seq, Upstream: h.upstream, Tool: h.tool, Host: h.host, Class: h.class,
		LatencyMS: h.ms * (.7 + .9*s.l.rand.Float64()*2.2), Bytes: h.bytes, Tokens: h.bytes / 4, PredictedTokens: h.bytes / 5, Sent: 1, After: s.was, PredictedP: p,
		Edge: "learned",
	}
}

// running returns the statuses of the processes of [busy]: two clients in two folders, and servers
// in every state, of which down is unavailable.
func running(now time.Time) []record.Status {
	at := func(minutes int) time.Time { return now.Add(time.Duration(-minutes) * time.Minute) }
	return []record.Status{{
		Process: "20260102T080000-4711-beef", PID: 4711, Since: at(34), Transport: "stdio", Dir: "/home/ada/work/api", MemoryKB: 24 << 10,
		Config: "/home/ada/.config/mcpschedd/pipeline_config.toml",
		Upstreams: []record.UpstreamStatus{
			{Name: "github", State: "ready", Since: at(34), MemoryKB: 61 << 10, Tools: 41, Cacheable: 38, Prefetchable: 35},
			{Name: "files", State: "ready", Since: at(12), Restarts: 1, MemoryKB: 48 << 10, Tools: 14, Cacheable: 9, Prefetchable: 0, Why: record.Glossary().Reasons["unsteady"].Name, Change: "exclusive = true in [upstreams.files], if nothing else changes it"},
			{Name: "db", State: "ready", Since: at(34), MemoryKB: 30 << 10, Tools: 6, Why: "its tools are unclassified, so each call counts as a write", Change: "trust = true in [upstreams.db], if you believe what it says of itself"},
			{Name: "wiki", State: "idle"},
		},
		Clients: []record.ClientStatus{{Client: "claude-code 2.1", Dir: "/home/ada/work/api", Sessions: 3}},
		Hosts: map[string]record.Host{
			"api.github.com": {Level: 4, InFlight: 2, Rate: 10, Burst: 20, Concurrency: 4, Tokens: 16.4, Prefetches: 131},
			"wiki.example":   {Level: 1, InFlight: 1, Waiting: 1, Rate: 2, Burst: 5, Concurrency: 2, Tokens: 1.2, Limited: 1, CoolingMS: 41_000, Prefetches: 38, HarmMS: 184},
			"db.internal":    {Level: 3, Concurrency: 8, Prefetches: 44},
			"local":          {Level: 3, InFlight: 1},
		},
	}}
}
