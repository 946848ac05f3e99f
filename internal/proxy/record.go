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
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
)

// recorder tells the log of every tools/call, once, when it has been answered or will not
// be; of every prefetch, once, when it is known what became of it; and of what no single
// call shows: levels and harm. All figures are added up from that.
type recorder struct {
	srv          *Server
	log          *record.Log
	lastRecorded atomic.Int64 // when what has changed was last looked for, in Unix ns

	mu         sync.Mutex
	open       []*openPrefetch     // in the order in which they began
	lastStatus time.Time           // when the status was last written anew because of calls
	harm       speculate.HarmStats // as recorded
}

// How often what has changed is recorded, at most, while calls come.
const (
	recordInterval = time.Second
	statusInterval = 10 * time.Second // what hosts allow, which is part of the status
)

// sent counts requests that really went to an upstream. They are recorded with their
// call, or by themselves if that has been recorded, or will be long after: a prefetch.
func (r *recorder) recordSent(c *upstreamCall, requests int) {
	o := c.observed
	o.requests.Add(int32(requests))
	switch {
	case o.call.Early:
	case o.recorded.Load():
		requests = int(o.requests.Swap(0))
	default:
		return
	}
	if requests > 0 {
		r.log.Add(record.Event{
			Kind: record.Sent, At: time.Now(), Session: o.number.Session, Seq: o.number.Seq,
			Upstream: c.lease.Name(), Tool: clipName(c.tool), Sent: requests, Prefetched: o.call.Early,
		})
	}
}

// answered records how a call has ended. gone: its client does not want the answer any more.
func (r *recorder) recordCall(c *upstreamCall, now time.Time, o outcome, gone bool) {
	s, told, answer := c.observed, c.observed.call, &c.observed.answer
	e := record.Event{
		Kind: record.Call, At: told.At, Session: s.number.Session, Seq: s.number.Seq,
		Upstream: told.Upstream.Name, Tool: clipName(told.Tool), Class: string(c.class.kind), Turn: told.Turn + 1, Host: told.Host,
		LatencyMS: ms(now.Sub(told.At)), UpstreamMS: ms(s.timing.Took()), Sent: int(s.requests.Swap(0)),
		Disposition: record.Fetched, Bytes: int64(answer.size), Tokens: estimateTokens(answer.size), ResultSum: answer.hash,
		Inlined: answer.inlined, RawArguments: told.Arguments,
	}
	if p := c.part; p != nil {
		e.Plan, e.Step, e.Needs = p.plan, p.step, p.needs
	}
	if answer.from.How != "" {
		answer.describe(&e, s.number)
	}
	if gone || o.err != nil {
		e.Disposition, e.Error = record.Failed, failureReason(o.err, gone)
		e.HiddenMS, e.NotResent = 0, 0
	} else {
		e.IsError = o.verdict.Failed
	}
	r.log.Add(e)
	r.recordSoon(now)
	if s.span.end != nil {
		ended := e // else every event would be on the heap
		s.span.end(&ended)
	}
	if first := answer.from.FirstUseOf; first != nil {
		first.Report(s.number) // the line of the prefetch, and its span, come after those of its call
	}
}

// describe says in a call's event where its answer came from.
func (a *answerFacts) describe(e *record.Event, number call.Number) {
	from := &a.from
	e.Disposition = record.Disposition(from.How)
	e.Prefetched, e.BackedOff, e.AgeMS = from.Prefetched, from.BackedOff, ms(from.Age)
	e.HiddenMS = max(0, ms(from.Took)-e.LatencyMS)
	e.Reference, e.NotResent = a.spared > 0, int64(a.spared)
	if from.FirstUseOf != nil {
		e.UseOf = from.FirstUseOf.Number().Seq
		e.UseOfSession = otherSession(from.FirstUseOf.Number(), number)
	}
}

// recordRefused records a tools/call that no upstream was asked: of what none has, or not put
// as it should be.
func (r *recorder) recordRefused(s *observedSession, tool string) {
	n := s.next()
	r.log.Add(record.Event{
		Kind: record.Call, At: time.Now(), Session: n.Session, Seq: n.Seq,
		Tool: clipName(tool), Disposition: record.Failed, Error: "refused",
	})
}

// openPrefetch is a prefetch of which it is not known yet what became of it.
type openPrefetch struct {
	observed *observation
	event    record.Event // as far as it is known
	fetched  *dedup.Prefetch
	ended    atomic.Bool // its fetch has ended, and with it failed is known
	failed   bool
}

// prefetchEnded notes how the fetch of a prefetch has ended.
func (r *recorder) prefetchEnded(p *openPrefetch, o outcome) {
	p.failed, p.observed.answer.size, p.observed.answer.hash = !o.cacheable, len(o.answer.Result), r.resultHash(o)
	p.ended.Store(true)
}

// complete completes the event if it is known what became of the prefetch, and its fetch
// has ended.
func (p *openPrefetch) complete() bool {
	e, s, fate := &p.event, p.observed, p.fetched.Fate()
	if fate == call.Pending || !p.ended.Load() {
		return false
	}
	e.Fate = map[call.Fate]record.Fate{call.Ready: record.Used, call.Late: record.Late, call.Compared: record.Compared, call.Wasted: record.Wasted}[fate]
	if e.Fate == record.Wasted {
		e.Cause = p.fetched.Why()
	} else {
		by, ok := p.fetched.By()
		if !ok {
			return false // it will be recorded with its call
		}
		e.UsedBy, e.BySession = by.Seq, otherSession(by, s.number)
	}
	if at := s.timing.At(); !at.IsZero() {
		e.At = at
	}
	e.LatencyMS, e.Sent = ms(s.timing.Took()), int(s.requests.Swap(0))
	e.IsError, e.Bytes, e.Tokens, e.ResultSum = p.failed, int64(s.answer.size), estimateTokens(s.answer.size), s.answer.hash
	return true
}

// maxOpenPrefetches is of how many prefetches it may be unknown at once what became of them; the
// oldest beyond it count as wasted.
const maxOpenPrefetches = 1 << 14

// prefetchBegan has a prefetch recorded once it is known what became of it.
func (r *recorder) prefetchBegan(p *openPrefetch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open = append(r.open, p); len(r.open) > maxOpenPrefetches {
		r.recordPrefetchesLocked(false)
	}
}

// recordPrefetches records the prefetches of which it is known by now what became of them,
// and the last time as wasted those of which it is not.
func (r *recorder) recordPrefetches(last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordPrefetchesLocked(last)
}

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

// recordSoon has what has changed recorded, if that was not done just now. It is called with
// every call, and waits for nothing.
func (r *recorder) recordSoon(now time.Time) {
	last := r.lastRecorded.Load()
	if now.UnixNano()-last >= int64(recordInterval) && r.lastRecorded.CompareAndSwap(last, now.UnixNano()) {
		r.srv.running.Go(r.record)
	}
}

// record records what has changed since it last did: prefetches, levels and harm.
func (r *recorder) record() {
	now, scheduler := time.Now(), r.srv.prefetch.Scheduler
	r.mu.Lock()
	defer r.mu.Unlock()
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

// recordHarm records that harm was done n times, or that calls had to wait because of it.
func (r *recorder) recordHarm(why string, at time.Time, n int64, waitMS float64) {
	if n > 0 || waitMS > 0 {
		r.log.Add(record.Event{Kind: record.Harm, At: at, Why: why, LatencyMS: waitMS, Count: max(n, 1)})
	}
}

// recordDecision records a decision, once it is known what it was worth.
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

// close records what is open, and ends the record.
func (r *recorder) close() {
	r.recordPrefetches(true)
	r.log.Close()
}

// otherSession is the session of a number, unless it is that of the other.
func otherSession(n, here call.Number) string {
	if n.Session == here.Session {
		return ""
	}
	return n.Session
}

// recordID names a session in the record.
func recordID() string {
	var id [6]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// clientName is what a client calls itself: name and version.
func clientName(info []byte) string {
	name, _ := jsonrpc.String(jsonrpc.Get(info, "name"))
	version, _ := jsonrpc.String(jsonrpc.Get(info, "version"))
	return clipName(strings.TrimSpace(name + " " + version))
}

// maxRecordedName (bytes) is how much of a name is recorded: clients and servers make them up.
const maxRecordedName = 128

// clipName is a name as it is recorded.
func clipName(name string) string {
	if len(name) <= maxRecordedName {
		return name
	}
	end := maxRecordedName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return strings.Clone(name[:end]) // what it was cut from must not be kept with it
}

// resultHash is a hash of an answer, which the log keys; 0: none is wanted of it.
func (r *recorder) resultHash(o outcome) uint64 {
	if !o.cacheable || !r.log.Writes() {
		return 0
	}
	return xxhash.Sum64(o.answer.Result) | 1
}

// estimateTokens is how many tokens so many bytes are taken for.
func estimateTokens(size int) int64 { return int64((size + bytesPerToken - 1) / bytesPerToken) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
