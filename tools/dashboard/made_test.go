//go:build browser

package dashboard_test

// Made-up events of a busy proxy.

import (
	"time"

	"mcpschedd/internal/record"
)

const madeProcess = "20260102T080000-4711-beef"

// habits are the tools that sessions call.
var habits = []struct {
	upstream, tool, class, host string
	ms                          float64
	bytes                       int64
}{
	{"github", "list_issues", "read_only", "api.github.com", 420, 9000},
	{"github", "get_issue", "read_only", "api.github.com", 310, 3200},
	{"github", "list_comments", "read_only", "api.github.com", 280, 5100},
	{"github", "create_comment", "mutates_external", "api.github.com", 520, 700},
	{"github", "search_code", "read_only", "api.github.com", 860, 14000},
	{"files", "read_file", "read_only", "local", 6, 6400},
	{"files", "list_directory", "read_only", "local", 4, 1200},
	{"files", "edit_file", "mutates_local", "local", 11, 300},
	{"db", "query", "read_only", "db.internal", 145, 2600},
	{"db", "describe_table", "read_only", "db.internal", 60, 1800},
	{"wiki", "search", "read_only", "wiki.example", 640, 7200},
	{"wiki", "get_page", "read_only", "wiki.example", 510, 15000},
}

// busy returns a tally of the half hour before now.
func busy(now time.Time) *record.Tally {
	t := record.NewTally()
	made(now.Add(-34*time.Minute), now, 14, t.Add)
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

// made tells the events of sessions between two times, as the proxy would record them. The last
// three sessions are open.
func made(begin, end time.Time, sessions int, tell func(*record.Event)) {
	tell(&record.Event{Kind: record.Begin, At: begin, Process: madeProcess, V: record.Version, PID: 4711, Program: "dev", Mode: "on", Transport: "stdio", Dir: "/home/ada/work/api", Config: "/home/ada/.config/mcpschedd/pipeline_config.toml"})
	for i := range sessions {
		at := begin.Add(time.Duration(i) * end.Sub(begin) / time.Duration(sessions+1))
		madeSession(at, end, i >= sessions-3, tell)
	}
	limits(end, tell)
}

// nth returns the tool of a session's nth call. Each tool is followed by several others.
func nth(n int64) int64 { return (n + n/3*4 + n/7*3) % int64(len(habits)) }

// madeSession tells the events of one session: sixty calls, each with a decision. Every third call
// uses a prefetch, if it is a read, and every fifth is followed by a useless prefetch.
func madeSession(begin, end time.Time, open bool, tell func(*record.Event)) {
	of := func(e record.Event) { e.Process, e.Session = madeProcess, begin.Format("150405"); tell(&e) }
	pause := 3 * time.Second
	if open {
		pause = end.Sub(begin) / 61
	}
	of(record.Event{Kind: record.Session, At: begin, Client: "claude-code 2.1"})
	for n := range int64(60) {
		at := begin.Add(time.Duration(n) * pause)
		h, next, other := habits[nth(n)], habits[nth(n+1)], habits[8+n%4]
		took := h.ms * (.6 + .1*float64(n*7%10))
		call := record.Event{
			Kind: record.Call, At: at, Seq: 3*n + 1, Upstream: h.upstream, Tool: h.tool, Class: h.class, Host: h.host, Turn: int(n) + 1, ArgsHash: "00aa11bb22cc33dd",
			Disposition: record.Fetched, LatencyMS: took, UpstreamMS: took, Sent: 1, Bytes: h.bytes, Tokens: h.bytes / 4,
		}
		prefetch := record.Event{
			Kind: record.Prefetch, At: at.Add(-pause / 2), Seq: call.Seq - 2, Upstream: h.upstream, Tool: h.tool, Class: h.class, Host: h.host,
			LatencyMS: took, Bytes: h.bytes, Tokens: h.bytes / 4, PredictedTokens: h.bytes / 5, Sent: 1, After: call.Seq - 3, PredictedP: .7, Edge: "learned", Fate: record.Used, UsedBy: call.Seq,
		}
		ahead := n%3 == 2 && h.class == "read_only"
		switch {
		case ahead:
			call.Disposition, call.LatencyMS, call.UpstreamMS, call.Sent, call.HiddenMS = record.Hit, .3, 0, 0, took
			call.Prefetched, call.UseOf, call.PredictedP = true, prefetch.Seq, .7
			if n%4 == 0 {
				call.Disposition, call.LatencyMS, call.HiddenMS, prefetch.Fate = record.Joined, took*.3, took*.7, record.Late
			}
		case n%16 == 15:
			call.Disposition, call.LatencyMS, call.UpstreamMS, call.Sent, call.HiddenMS = record.Hit, .2, 0, 0, took
		case n%17 == 16:
			call.Disposition, call.LatencyMS, call.UpstreamMS, call.Sent, call.HiddenMS = record.Joined, took*.4, 0, 0, took*.6
		case n%19 == 18:
			call.Disposition, call.Error, call.UpstreamMS = record.Failed, "timeout", 0
		case n%23 == 22:
			call.IsError = true
		}
		of(call)
		if ahead {
			of(prefetch)
		}
		if n%5 == 2 {
			cause := []string{"never_asked", "expired", "invalidated", "dropped", "never_asked"}[n/5%5]
			of(record.Event{
				Kind: record.Prefetch, At: at, Seq: call.Seq + 2, Upstream: other.upstream, Tool: other.tool, Class: other.class, Host: other.host,
				LatencyMS: other.ms, Bytes: other.bytes, Tokens: other.bytes / 4, Sent: 1, After: call.Seq, PredictedP: .4, Edge: "learned", Fate: record.Wasted, Cause: cause,
			})
		}
		d := record.Event{Kind: record.Decision, At: at, After: call.Seq, Upstream: h.upstream, Tool: h.tool, Declined: make(map[string]int)}
		why := []string{"gate", "", "throttled", "budget", "", "low_probability"}[n%6]
		if next.class != "read_only" {
			why = "not_speculatable"
		}
		d.Top = []record.Candidate{
			{Tool: next.upstream + "/" + next.tool, P: .7, ValueMS: .7 * next.ms, Tokens: next.bytes / 4, Called: true, Reason: why},
			{Tool: other.upstream + "/" + other.tool, P: .4, ValueMS: .4 * other.ms, Tokens: other.bytes / 4, Reason: []string{"stored", "cap", "", "shadow", "origin"}[n%5]},
			{Tool: "github/get_issue", P: .2, ValueMS: 62, Tokens: 800, Differs: "issue_number", Reason: "low_probability"},
			{Tool: "wiki/get_page", P: .1, ValueMS: 51, Tokens: 3750, Differs: "path", Reason: "low_probability"},
		}
		for _, c := range d.Top {
			d.Candidates++
			if c.Reason == "" {
				d.Issued++
				continue
			}
			d.Declined[c.Reason]++
			if c.Called {
				d.LateCalled++
			}
		}
		of(d)
	}
	of(record.Event{Kind: record.Plan, At: begin.Add(60 * pause), Plan: 1, Steps: 7, Depth: 4, LatencyMS: 1300, BytesIn: 61_000, BytesOut: 9_000})
	if !open {
		of(record.Event{Kind: record.End, At: begin.Add(60 * pause)})
	}
}

// limits tells two changes of level, and harm.
func limits(end time.Time, tell func(*record.Event)) {
	at := func(s int) time.Time { return end.Add(time.Duration(-s) * time.Second) }
	for _, e := range []record.Event{
		{Kind: record.Level, At: at(900), Host: "wiki.example", From: 3, To: 2, Why: "accuracy below 0.3"},
		{Kind: record.Level, At: at(620), Host: "api.github.com", From: 3, To: 4, Why: "accuracy above 0.6, asked for early"},
		{Kind: record.Level, At: at(240), Host: "wiki.example", From: 2, To: 1, Why: "harm: rate_limited"},
		{Kind: record.Harm, At: at(240), Host: "wiki.example", Why: "rate_limited"},
		{Kind: record.Harm, At: at(230), Host: "wiki.example", Why: "foreground_wait", LatencyMS: 184},
	} {
		e.Process = madeProcess
		tell(&e)
	}
}

// running returns the statuses of the processes of [busy]: two clients in two folders, and servers
// in every state, of which down is unavailable.
func running(now time.Time) []record.Status {
	at := func(minutes int) time.Time { return now.Add(time.Duration(-minutes) * time.Minute) }
	return []record.Status{{
		Process: madeProcess, PID: 4711, Since: at(34), Transport: "stdio", Dir: "/home/ada/work/api", MemoryKB: 24 << 10,
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
