package proxy

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// The path of a call tells the worker that foresees what it saw: the call when it
// arrives, and its answer before that is written. Neither ever waits for the
// worker; what it is too slow for is left out, and counted.

// mostRead (bytes) is how much of an answer is kept to be read.
const mostRead = 256 << 10

// sighting is what was seen of one call so far.
type sighting struct {
	at       time.Time
	announce bool        // its answer may say what is run early because of it
	over     atomic.Bool // its end was told
}

// turns tells the calls that a model made at once from those it made one after
// the other: it has read no answer that had not come when it called.
type turns struct {
	mu     sync.Mutex
	number int
	heard  time.Time // of the last answer since the turn began; zero: there was none
}

// readingTime is what no model needs less of to read an answer and call again. A
// client that calls sooner sends out what was decided at once.
const readingTime = 5 * time.Millisecond

func (t *turns) begin(now time.Time) (turn int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.heard.IsZero() && now.Sub(t.heard) > readingTime {
		t.number++
		t.heard = time.Time{}
	}
	return t.number
}

func (t *turns) end(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = now
}

var errUnanswered = errors.New("not answered")

// callFacts is what the prefetcher goes by to tell how servers work on their calls. It
// does not change.
type callFacts struct {
	instance uint64 // of its upstream
	id       uint64 // tells it from all others
	tool     string
	host     string
	early    bool // it is a prefetch
}

// callSeen is a call as the worker is told of it.
type callSeen struct {
	s         *session
	l         *leased
	id        uint64
	turn      int
	seq       int64 // in the record
	tool      string
	arguments []byte // canonical if key is there, else as the client wrote them
	key       call.Key
	effect    call.Effect
	at        time.Time
}

// sight tells of a tools/call that has arrived, on the reader of its session.
func (x *request) sight() {
	srv := x.s.srv
	p := srv.policy.Load()
	if p.Enrichment.off() || x.lease.dull() || x.s.predictionOff.Load() || x.stateless && x.params.Get("requestState") != nil {
		return // the last: it goes on with a call that was seen
	}
	now := time.Now()
	if !srv.prefetcher.queue.hasTime(now) {
		return
	}
	c := callSeen{
		s: x.s, l: x.lease, tool: x.tool, at: now,
		key: x.query.Key, effect: x.effect,
	}
	if c.key.Scope == "" {
		raw, _ := arguments(x.params)
		if len(raw) > longest {
			raw = noArguments
		}
		c.arguments = bytes.Clone(raw)
	}
	c.id, c.turn, c.seq = srv.prefetcher.ids.Add(1), x.entry.turn, x.number.Seq
	x.observed, x.sighting.at = &callFacts{instance: x.lease.Instance(), id: c.id, tool: x.tool, host: x.host}, now
	x.sighting.announce = x.announces(p)
	srv.prefetcher.queue.enqueue(len(c.arguments), func() { srv.prefetcher.worker.called(&c) })
}

// answerSeen is an answer as the worker is told of it.
type answerSeen struct {
	s      *session
	l      *leased
	id     uint64
	seq    int64 // in the record
	tool   string
	result []byte // the first bytes of it; nil: it failed, or there was no room for it
	failed bool
	size   int           // bytes of the whole
	came   time.Time     // of the call
	took   time.Duration // from its sending to its answer; 0: it was not sent, or not answered
	at     time.Time
	reply  chan<- announcement // who waits to be told what is on its way; nil: nobody
}

// sightEnd tells of the answer to a call, once. It is copied, as its buffer is
// given back when it has been written.
func (x *request) sightEnd(answer upstream.Answer, err error, reply chan<- announcement) (told bool) {
	if x.observed == nil || x.sighting.over.Swap(true) {
		return false
	}
	p := x.s.srv.prefetcher
	h := answerSeen{
		s: x.s, l: x.lease, id: x.observed.id, seq: x.number.Seq, tool: x.tool, size: len(answer.Result), at: time.Now(),
		came: x.sighting.at, took: x.timing.upstream(), reply: reply,
		failed: err != nil || !shareable(answer),
	}
	if n := min(h.size, mostRead); !h.failed && p.queue.hasRoom(n) {
		h.result = bytes.Clone(answer.Result[:n])
	}
	enqueue := p.queue.enqueue
	if reply != nil {
		enqueue = p.queue.enqueueUrgent
	}
	return enqueue(len(h.result), func() { p.worker.answered(&h) })
}

// dull reports whether the upstream is known to offer nothing that may ever be
// run early: then nothing of it is looked at.
func (l *leased) dull() bool {
	offer := l.member.dull.Load()
	return offer != nil && offer == l.Offer()
}

// joinTimedOut holds against the prefetches of a tool that a call waited for one in
// vain.
func (x *request) joinTimedOut() {
	s, l, tool, waited := x.s, x.lease, x.tool, time.Since(x.entry.came)
	w := s.srv.prefetcher.worker
	s.srv.prefetcher.queue.enqueueAlways(func() {
		w.upstreamOn(l).forecast.Harm(tool)
		w.scheduler.Harm(w.hostOf(l), w.deskOf(s), speculate.ForegroundWait, waited)
	})
}
