package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
)

// recorder writes to the event log: every tools/call once, when it has been answered or has
// failed; every prefetch once, when its fate is known; and changes of prefetch levels and harm.
// All figures are sums over these events.
type recorder struct {
	srv          *Server
	log          *record.Log
	lastRecorded atomic.Int64 // Unix time in ns of the last check for changes

	mu         sync.Mutex
	open       []*openPrefetch     // in the order in which they began
	lastStatus time.Time           // when a call last triggered a new status
	harm       speculate.HarmStats // totals that have been recorded
}

// Minimum intervals between records that calls trigger.
const (
	recordInterval = time.Second
	statusInterval = 10 * time.Second // the status contains the state of hosts
)

// recordSent counts requests that were sent upstream. They are recorded with their call, or on
// their own if the call has been recorded already or is a prefetch, which is recorded late.
func (r *recorder) recordSent(c *upstreamCall, requests int) {
	o := c.observed
	o.requests.Add(int32(requests))
	switch {
	case o.call.Prefetch:
	case o.recorded.Load():
		requests = int(o.requests.Swap(0))
	default:
		return
	}
	if requests > 0 {
		r.log.Add(record.Event{
			Kind: record.Sent, At: time.Now(), Session: o.number.Session, Seq: o.number.Seq,
			Upstream: c.lease.Name(), Tool: clipName(c.tool), Sent: requests, Prefetched: o.call.Prefetch,
		})
	}
}

// recordCall records the end of a call. cancelled reports whether its request was cancelled.
func (r *recorder) recordCall(c *upstreamCall, now time.Time, o outcome, cancelled bool) {
	s, arrival, answer := c.observed, c.observed.call, &c.observed.answer
	e := record.Event{
		Kind: record.Call, At: arrival.At, Session: s.number.Session, Seq: s.number.Seq,
		Upstream: arrival.Upstream.Name, Tool: clipName(arrival.Tool), Class: string(c.class.kind), Turn: arrival.Turn + 1, Host: arrival.Host,
		LatencyMS: ms(now.Sub(arrival.At)), UpstreamMS: ms(s.timing.Took()), Sent: int(s.requests.Swap(0)),
		Disposition: record.Fetched, Bytes: int64(answer.size), Tokens: estimateTokens(answer.size), ResultSum: answer.hash,
		Inlined: answer.inlined, RawArguments: arrival.Arguments,
	}
	if p := c.step; p != nil {
		e.Plan, e.Step, e.Needs = p.plan, p.id, p.needs
	}
	if answer.source.How != "" {
		answer.describe(&e, s.number)
	}
	if cancelled || o.err != nil {
		e.Disposition, e.Error = record.Failed, failureReason(o.err, cancelled)
		e.HiddenMS, e.NotResent = 0, 0
	} else {
		e.IsError = o.verdict.Failed
	}
	r.log.Add(e)
	r.recordSoon(now)
	if s.span.end != nil {
		ended := e // capturing e itself would move every event to the heap
		s.span.end(&ended)
	}
	if first := answer.source.FirstUseOf; first != nil {
		first.Report(s.number) // so that the event and span of the prefetch follow those of the call
	}
}

// describe adds to a call's event where its answer came from.
func (a *answerFacts) describe(e *record.Event, number call.Number) {
	from := &a.source
	e.Disposition = record.Disposition(from.How)
	e.Prefetched, e.BackedOff, e.AgeMS = from.Prefetched, from.BackedOff, ms(from.Age)
	e.HiddenMS = max(0, ms(from.Took)-e.LatencyMS)
	e.Reference, e.NotResent = a.saved > 0, int64(a.saved)
	if from.FirstUseOf != nil {
		e.UseOf = from.FirstUseOf.Number().Seq
		e.UseOfSession = otherSession(from.FirstUseOf.Number(), number)
	}
}

// recordRefusal records a message that was refused without asking an upstream, if it is a
// tools/call: its tool does not exist, or its params are not valid.
func recordRefusal(s *session, m *front.Message) {
	if m.Method != "tools/call" {
		return
	}
	n := s.observed.next()
	s.srv.recorder.log.Add(record.Event{
		Kind: record.Call, At: time.Now(), Session: n.Session, Seq: n.Seq,
		Tool: clipName(toolName(&m.Index)), Disposition: record.Failed, Error: "refused",
	})
}

// openPrefetch is a prefetch that has not been recorded yet.
type openPrefetch struct {
	observed *observation
	event    record.Event // fields known so far
	prefetch *dedup.Prefetch
	ended    atomic.Bool // its fetch has ended, and failed is set
	failed   bool
}

// prefetchEnded records the end of a prefetch's fetch in p.
func (r *recorder) prefetchEnded(p *openPrefetch, o outcome) {
	p.failed, p.observed.answer.size, p.observed.answer.hash = !o.cacheable, len(o.answer.Result), r.resultHash(o)
	p.ended.Store(true)
}

// complete fills in the event and returns true if the prefetch's fate is known and its fetch
// has ended.
func (p *openPrefetch) complete() bool {
	e, s, fate := &p.event, p.observed, p.prefetch.Fate()
	if fate == call.Pending || !p.ended.Load() {
		return false
	}
	e.Fate = map[call.Fate]record.Fate{call.Ready: record.Used, call.Late: record.Late, call.Compared: record.Compared, call.Wasted: record.Wasted}[fate]
	if e.Fate == record.Wasted {
		e.Cause = p.prefetch.Why()
	} else {
		by, ok := p.prefetch.By()
		if !ok {
			return false // recorded later, after its call
		}
		e.UsedBy, e.BySession = by.Seq, otherSession(by, s.number)
	}
	if at := s.timing.SentAt(); !at.IsZero() {
		e.At = at
	}
	e.LatencyMS, e.Sent = ms(s.timing.Took()), int(s.requests.Swap(0))
	e.IsError, e.Bytes, e.Tokens, e.ResultSum = p.failed, int64(s.answer.size), estimateTokens(s.answer.size), s.answer.hash
	return true
}

// maxOpenPrefetches bounds the prefetches that have not been recorded. The oldest ones beyond it
// are recorded as wasted.
const maxOpenPrefetches = 1 << 14

// prefetchBegan adds a prefetch, to be recorded when its fate is known.
func (r *recorder) prefetchBegan(p *openPrefetch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open = append(r.open, p); len(r.open) > maxOpenPrefetches {
		r.recordPrefetchesLocked(false)
	}
}

// recordPrefetchesLocked records the prefetches whose fate is known. If last is set, it records
// all others as wasted.
func (r *recorder) recordPrefetchesLocked(last bool) {
	beyond := len(r.open) - maxOpenPrefetches
	r.open = slices.DeleteFunc(r.open, func(p *openPrefetch) bool {
		over := last || beyond > 0
		beyond--
		if !p.complete() {
			if !over {
				return false
			}
			p.event.Fate, p.event.Cause = record.Wasted, "never_asked"
		}
		r.log.Add(p.event)
		return true
	})
}

// recordSoon starts record in the background, at most once per recordInterval. Every call
// triggers it; it does not block.
func (r *recorder) recordSoon(now time.Time) {
	last := r.lastRecorded.Load()
	if now.UnixNano()-last >= int64(recordInterval) && r.lastRecorded.CompareAndSwap(last, now.UnixNano()) {
		r.srv.running.Go(r.record)
	}
}

// record records prefetches, levels and harm since it was last called.
func (r *recorder) record() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, scheduler := time.Now(), r.srv.prefetch.Scheduler
	r.recordPrefetchesLocked(false)
	for _, c := range scheduler.Changes() {
		if c.At.IsZero() {
			c.At = now
		}
		r.log.Add(record.Event{Kind: record.Level, At: c.At, Host: c.Host, Session: c.Session, From: c.From, To: c.To, Why: c.Why})
	}
	harm := scheduler.Stats().Harm
	r.recordHarm("foreground_wait", now, 0, harm.ForegroundWaitMS-r.harm.ForegroundWaitMS)
	r.recordHarm("rate_limited", now, harm.RateLimited-r.harm.RateLimited, 0)
	r.recordHarm("eviction", now, harm.Evictions-r.harm.Evictions, 0)
	r.recordHarm("question", now, harm.Questions-r.harm.Questions, 0)
	r.harm = harm
	if now.Sub(r.lastStatus) >= statusInterval {
		r.lastStatus = now
		r.log.Changed()
	}
}

// recordHarm records n instances of harm, or waitMS milliseconds that calls waited because of it.
func (r *recorder) recordHarm(why string, at time.Time, n int64, waitMS float64) {
	if n > 0 || waitMS > 0 {
		r.log.Add(record.Event{Kind: record.Harm, At: at, Why: why, LatencyMS: waitMS, Count: max(n, 1)})
	}
}

// recordDecision records a prefetch decision once its value is known.
func (r *recorder) recordDecision(d speculate.Decision) {
	e := record.Event{
		Kind: record.Choice, At: d.At, Session: d.Session, Upstream: d.Upstream, After: d.After,
		Candidates: d.Candidates, Issued: d.Issued, Reasons: d.Declined, Unresolved: d.Open, LateCalled: d.LateCalled,
		BestMS: d.BestMS, AchievedMS: d.AchievedMS,
	}
	for _, o := range d.Top {
		e.Top = append(e.Top, record.Decision{
			Tool: clipName(o.Tool), P: o.P, Reason: o.Reason, ValueMS: o.ValueMS, Tokens: int64(o.Tokens), Called: o.Called, RawArguments: []byte(o.Arguments),
		})
	}
	r.log.Add(e)
}

// close records all open prefetches and closes the log.
func (r *recorder) close() {
	r.mu.Lock()
	r.recordPrefetchesLocked(true)
	r.mu.Unlock()
	r.log.Close()
}

// otherSession returns the session of n, or "" if it is the session of here.
func otherSession(n, here call.Number) string {
	if n.Session == here.Session {
		return ""
	}
	return n.Session
}

// recordID returns a random id for a session in the event log.
func recordID() string {
	var id [6]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// clientName returns a client's name and version.
func clientName(info []byte) string {
	name, _ := jsonrpc.String(jsonrpc.Get(info, "name"))
	version, _ := jsonrpc.String(jsonrpc.Get(info, "version"))
	return clipName(strings.TrimSpace(name + " " + version))
}

// maxRecordedName is how many bytes of a name are recorded. Clients and servers choose names.
const maxRecordedName = 128

// clipName truncates a name for the event log.
func clipName(name string) string {
	if len(name) <= maxRecordedName {
		return name
	}
	end := maxRecordedName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return strings.Clone(name[:end]) // do not retain the whole name
}

// resultHash returns a hash of an answer, which the log keys, or 0 if none is recorded.
func (r *recorder) resultHash(o outcome) uint64 {
	if !o.cacheable || !r.log.Writes() {
		return 0
	}
	return xxhash.Sum64(o.answer.Result) | 1
}

// estimateTokens estimates the number of tokens in size bytes.
func estimateTokens(size int) int64 { return int64((size + bytesPerToken - 1) / bytesPerToken) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
