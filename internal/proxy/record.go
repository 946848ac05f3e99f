package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"mcpschedd/internal/call"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
)

// The record. Every tools/call is told to the log once, when it has been answered or
// will not be, and every prefetch once, when it is known what became of it. All figures
// are added up from that.

// callRecord is a tools/call, or a prefetch, on its way into the record.
type callRecord struct {
	number   call.Number
	at       time.Time // when it arrived
	turn     int       // of the model
	prefetch bool
	timing   speculate.Timing
	requests atomic.Int32 // that went upstream, and were not told of yet
	told     atomic.Bool  // that it has ended
	span     span
}

// recorder tells the log of calls.
type recorder struct {
	log    *record.Log
	called func(now time.Time) // is called with every call
	open   openPrefetches
}

// arrived begins the record of a call.
func (r *recorder) arrived(s *observedSession) *callRecord {
	now := time.Now()
	return &callRecord{number: s.next(), at: now, turn: s.turns.begin(now)}
}

// sent counts requests that really went to an upstream. They are told of with their
// call, or by themselves if that has been told of, or will be long after: a prefetch.
func (r *recorder) sent(c *callRecord, upstream, tool string, requests int) {
	c.requests.Add(int32(requests))
	switch {
	case c.prefetch:
	case c.told.Load():
		requests = int(c.requests.Swap(0))
	default:
		return
	}
	if requests > 0 {
		r.log.Add(record.Event{
			Kind: record.Sent, At: time.Now(), Session: c.number.Session, Seq: c.number.Seq,
			Upstream: upstream, Tool: clipped(tool), Sent: requests, Prefetched: c.prefetch,
		})
	}
}

// answered tells the log how a call has ended, once.
func (r *recorder) answered(j *upstreamCall, f *speculate.Call, result *resultFacts) {
	c := j.record
	if c.told.Swap(true) {
		return
	}
	j.s.observed.turns.end(result.at)
	e := record.Event{
		Kind: record.Call, At: f.At, Session: c.number.Session, Seq: c.number.Seq,
		Upstream: f.Upstream.Name, Tool: clipped(f.Tool), Class: string(j.class.kind), Turn: f.Turn + 1, Host: f.Host,
		LatencyMS: ms(result.at.Sub(f.At)), UpstreamMS: ms(result.upstream), Sent: int(c.requests.Swap(0)),
		Disposition: record.Fetched, Bytes: int64(result.size), Tokens: estimate(result.size), ResultSum: result.sum,
		Inlined: result.inlined, RawArguments: f.Arguments, IsError: result.isError,
	}
	if p := j.part; p != nil {
		e.Plan, e.Step, e.Needs = p.plan, p.step, p.needs
	}
	if result.how != "" {
		result.source.describe(&e, c.number)
	}
	if result.failure != "" {
		e.Disposition, e.Error = record.Failed, result.failure
		e.HiddenMS, e.NotResent = 0, 0
	}
	r.log.Add(e)
	r.called(result.at)
	if end := c.span.end; end != nil {
		told := e // else every event would be on the heap
		end(&told)
	}
	if result.how != "" && result.first != nil {
		result.first.Report(c.number) // the line of the prefetch, and its span, come after those of its call
	}
}

// describe says in a call's event where its answer came from.
func (from *source) describe(e *record.Event, number call.Number) {
	e.Disposition = record.Disposition(from.how)
	e.Prefetched, e.BackedOff, e.AgeMS = from.prefetched, from.backedOff, ms(from.age)
	e.HiddenMS = max(0, ms(from.took)-e.LatencyMS)
	e.Reference, e.NotResent = from.spared > 0, int64(from.spared)
	if from.first != nil {
		e.UseOf = from.first.Number().Seq
		e.UseOfSession = elsewhere(from.first.Number(), number)
	}
}

// refused records a tools/call that no upstream was asked: of what none has, or not put
// as it should be.
func (r *recorder) refused(s *observedSession, tool string) {
	n := s.next()
	r.log.Add(record.Event{
		Kind: record.Call, At: time.Now(), Session: n.Session, Seq: n.Seq,
		Tool: clipped(tool), Disposition: record.Failed, Error: "refused",
	})
}

// sessionEnded records the end of a session, after what came of its prefetches.
func (r *recorder) sessionEnded(s *observedSession) {
	r.recordPrefetches(false)
	r.log.Add(record.Event{Kind: record.End, At: time.Now(), Session: s.Name})
}

// elsewhere is the session of a number, unless it is that of the other.
func elsewhere(n, here call.Number) string {
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
	name = strings.TrimSpace(name + " " + version)
	return clipped(name)
}

// longestName (bytes) is how much of a name is recorded: clients and servers make them up.
const longestName = 128

// clipped is a name as it is recorded.
func clipped(name string) string {
	if len(name) <= longestName {
		return name
	}
	end := longestName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return strings.Clone(name[:end]) // what it was cut from must not be kept with it
}

// sum is a hash of a result, which the log keys; never 0.
func sum(result []byte) uint64 { return xxhash.Sum64(result) | 1 }

// estimate is how many tokens so many bytes are taken for.
func estimate(size int) int64 { return int64((size + bytesPerToken - 1) / bytesPerToken) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
