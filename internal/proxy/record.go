package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/events"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// The record. Every tools/call is told to the log once, when it has been answered or
// will not be, and every guess once, when it is known what became of it. All figures
// are added up from that.

// entry is what the record is going to say of a tools/call.
type entry struct {
	came    time.Time   // when it arrived; zero: it is not recorded
	turn    int         // of the model
	from    source      // of the answer; zero: a fetch of its own, or none
	inlined int         // answers that were added to it
	size    int         // bytes of the answer
	sum     uint64      // of the answer; 0: not taken
	over    atomic.Bool // it was told
}

// source is the store, or another call's flight, as where an answer came from.
type source struct {
	how        dedup.Disposition
	prefetched bool
	backedOff  bool
	age, took  time.Duration // since the fetch behind it began; how long that took
	first      *dedup.Guess  // of which it is the first use; nil: of none
	size       int           // bytes of it
	spared     int           // bytes of it that a reference stood for
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

// last has the worker leave a session that has ended, and records its end after what
// the worker had to say of it.
func (p *prefetcher) last(s *session) {
	opened := !s.client.facts().opened.IsZero()
	p.underway.drop(s)
	end := func() {
		p.srv.events.Ask() // its guesses come before it
		if opened {
			p.srv.events.Add(events.Event{Kind: events.End, At: time.Now(), Session: s.identity.recordName})
		}
	}
	if !p.queue.enqueueAlways(func() {
		defer end() // whatever becomes of the worker's part
		p.worker.leave(s)
	}) {
		end()
	}
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

// next numbers a call or a guess of the session.
func (s *session) next() call.Number {
	return call.Number{Session: s.identity.recordName, Seq: s.numbered.Add(1)}
}

// enter notes that a tools/call has arrived, on the reader of its session.
func (x *request) enter() {
	x.number, x.over = x.s.next(), &x.entry.over
	x.entry.came = time.Now()
	x.entry.turn = x.s.turns.begin(x.entry.came)
	x.trace()
}

// weigh notes what the answer is like, before anything is added to it.
func (x *request) weigh(o outcome) {
	x.entry.from = o.from
	if x.entry.came.IsZero() || o.err != nil || x.asked {
		return
	}
	answer := o.answer
	if x.entry.from.how != "" {
		x.entry.size = x.entry.from.size
		return
	}
	x.entry.size = len(answer.Result)
	if x.class.Reads() && shareable(answer) {
		x.entry.sum = sum(answer.Result)
	}
}

// sum is a hash of a result, which the log keys; never 0.
func sum(result []byte) uint64 { return xxhash.Sum64(result) | 1 }

// record tells the log of a tools/call, once, unless it goes on after this answer.
func (x *request) record(answer upstream.Answer, err error) {
	if !x.asked {
		x.tell(answer, err)
	}
}

// tell tells the log how a tools/call ended, once. A call whose client was asked
// something on the way is one, from the arrival of the request that began it.
func (x *request) tell(answer upstream.Answer, err error) {
	began := x.first()
	r := &x.entry
	if r.came.IsZero() || began.entry.over.Swap(true) {
		return
	}
	now, came := time.Now(), began.entry.came
	x.s.turns.end(now)
	e := events.Event{
		Kind: events.Call, At: came, Session: began.number.Session, Seq: began.number.Seq,
		Upstream: x.lease.Name(), Tool: clipped(x.tool), Class: string(x.class), Turn: began.entry.turn + 1, Host: x.host,
		LatencyMS: ms(now.Sub(came)), UpstreamMS: ms(began.timing.upstream()), Sent: int(began.sends.Swap(0)),
		Disposition: events.Fetched, Bytes: int64(r.size), Tokens: estimate(r.size), ResultSum: r.sum,
		Inlined: r.inlined, RawArguments: x.argumentsToRecord(),
	}
	if p := x.part; p != nil {
		e.Plan, e.Step, e.Needs = p.plan, p.step, p.needs
	}
	if from := &r.from; from.how != "" {
		e.Disposition = events.Disposition(from.how)
		e.Prefetched, e.BackedOff, e.AgeMS = from.prefetched, from.backedOff, ms(from.age)
		e.HiddenMS = max(0, ms(from.took)-e.LatencyMS)
		e.Reference, e.NotResent = from.spared > 0, int64(from.spared)
		if from.first != nil {
			from.first.Report(began.number)
			e.UseOf = from.first.Number().Seq
			e.UseOfSession = elsewhere(from.first.Number(), began.number)
		}
	}
	if gone := x.ctx.Err() != nil; gone || err != nil {
		e.Disposition, e.Error = events.Failed, reasonFor(err, gone)
		e.HiddenMS, e.NotResent = 0, 0
	} else if _, failed := complaint(answer); failed {
		e.IsError = true
	}
	x.s.srv.events.Add(e)
	x.s.srv.figures.observer.called(now)
	if end := began.span.end; end != nil {
		told := e // else every event would be on the heap
		end(&told)
	}
}

// elsewhere is the session of a number, unless it is that of the other.
func elsewhere(n, here call.Number) string {
	if n.Session == here.Session {
		return ""
	}
	return n.Session
}

// argumentsToRecord are the arguments as far as the record may need them: longer ones
// than a key may have are not kept.
func (x *request) argumentsToRecord() []byte {
	if x.query.Key.Arguments != "" {
		return []byte(x.query.Key.Arguments)
	}
	raw, _ := arguments(x.params)
	if len(raw) > longest {
		return nil
	}
	return bytes.Clone(raw)
}

// worth is how long the call would have taken had it been alone with its server, as
// far as that is known. 0: it was not answered.
func (j *upstreamCall) worth(l *leased) time.Duration {
	parallel := j.s.srv.occupancies.of(l.Instance()).parallel.Load()
	return j.timing.alone(parallel, j.s.srv.prefetcher.learned.tool(l, j.tool).usual.Latency.P50)
}

// wentOut counts requests that really went to an upstream. If their call has been told
// of already, they are told of by themselves.
func (j *upstreamCall) wentOut(l *leased, requests int) {
	j.sends.Add(int32(requests))
	if j.over == nil { // of a guess: long before its fate
		j.tellSent(l, requests)
	} else if j.over.Load() {
		j.tellSent(l, int(j.sends.Swap(0)))
	}
}

// tellSent tells of requests that are not in the line of their call.
func (j *upstreamCall) tellSent(l *leased, n int) {
	if n > 0 {
		j.s.srv.events.Add(events.Event{
			Kind: events.Sent, At: time.Now(), Session: j.number.Session, Seq: j.number.Seq,
			Upstream: l.Name(), Tool: clipped(j.tool), Sent: n, Prefetched: j.over == nil,
		})
	}
}

// reasonFor says in a word why a call was not answered.
func reasonFor(err error, gone bool) string {
	if gone {
		return "cancelled"
	}
	var refused *jsonrpc.Error
	var away *upstream.Unavailable
	switch {
	case errors.Is(err, upstream.ErrTimeout):
		return "timeout"
	case errors.As(err, &away):
		return "unavailable"
	case errors.As(err, &refused):
		return "refused"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "unanswered"
}

// refusedCall records a tools/call that was answered before anybody was asked: of what no
// upstream has, or not put as it should be.
func (x *request) refusedCall() {
	if x.msg.Method != "tools/call" || !x.entry.came.IsZero() {
		return
	}
	name, _ := jsonrpc.String(x.params.Get("name"))
	n := x.s.next()
	x.s.srv.events.Add(events.Event{
		Kind: events.Call, At: time.Now(), Session: n.Session, Seq: n.Seq,
		Tool: clipped(name), Disposition: events.Failed, Error: "refused",
	})
}

// estimate is how many tokens so many bytes are taken for.
func estimate(size int) int64 { return int64((size + bytesPerToken - 1) / bytesPerToken) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// prefetchEntry is what the record is going to say of a prefetch.
type prefetchEntry struct {
	*prefetch
	landed atomic.Bool // the three are there:
	failed bool
	size   int
	sum    uint64
}

// land notes how the fetch has ended.
func (f *prefetchEntry) land(answer upstream.Answer, err error) {
	f.failed, f.size = err != nil || !shareable(answer), len(answer.Result)
	if !f.failed {
		f.sum = sum(answer.Result)
	}
	f.landed.Store(true)
}

// known completes the event if it is known what became of the prefetch, and its fetch
// has ended.
func (f *prefetchEntry) known(e *events.Event) bool {
	fate := f.guess.Fate()
	if fate == call.Pending || !f.landed.Load() {
		return false
	}
	switch fate {
	case call.Ready:
		e.Fate = events.Used
	case call.Late:
		e.Fate = events.Late
	case call.Compared:
		e.Fate = events.Compared
	default:
		e.Fate, e.Cause = events.Wasted, f.guess.Why()
	}
	if e.Fate != events.Wasted {
		by, ok := f.guess.By()
		if !ok {
			return false // it will be told of with its call
		}
		e.UsedBy, e.BySession = by.Seq, elsewhere(by, call.Number{Session: e.Session})
	}
	if at := f.timing.at(); !at.IsZero() {
		e.At = at
	}
	e.LatencyMS, e.Sent = ms(f.timing.upstream()), int(f.requests.Swap(0))
	e.IsError, e.Bytes, e.Tokens, e.ResultSum = f.failed, int64(f.size), estimate(f.size), f.sum
	return true
}
