package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/forecast"
	"mcpschedd/internal/speculate"
)

// prefetcher decides which calls to make early. One goroutine does all of it, in
// the order in which things were seen; nothing on the path of a call waits for it.
type prefetcher struct {
	srv  *Server
	desk *speculate.Desk
	ids  atomic.Uint64 // of the calls seen

	mu      sync.Mutex
	queue   []sighted
	bytes   int           // that the queue holds
	wake    chan struct{} // a token when there is something in it, or nothing more will come
	urgent  bool          // somebody waits for what is in the queue
	ended   bool
	effort  effort
	done    chan struct{} // closed when the goroutine has ended; nil: it was never needed
	dropped drops
	panics  int64
	sites   map[string]bool // where in the code they were, for each is logged once

	// The worker's own.
	of        *session                   // for which it does what it does now; nil: for no one session
	pardon    time.Duration              // of what it does now: spent waiting for others
	upstreams map[string]*upstreamState  // member.known → what is known of that upstream
	sessions  map[*session]*sessionState // sessions that made calls
	lines     map[string]speculate.Line  // member.known → how its last instance works on several calls
	hungry    []hungry                   // sessions with guesses that lack a slot, in turn
	displaced int64                      // answers that guesses displaced, as far as that was held against them

	harm map[string]time.Duration // host → what its calls waited for guesses, as far as that was held against them

	tally   tally
	overdue sync.Map // call.Key of a guess under way → its *due
	lately  lately
	barred  sync.Map // target → true: it is never run early again
	deadly  sync.Map // target → true: its server ended while a guess at it was there
	proven  sync.Map // target → true: its server's word that it only reads has been tested
	usual   sync.Map // target → forecast.Usual, for those who plan
}

// sighted is something the worker is told.
type sighted struct {
	bytes int // that it holds
	what  func(*prefetcher)
}

// Bounds of the queue: what is in it is only worth something while it is fresh.
const (
	mostWaiting      = 2048
	mostWaitingBytes = 8 << 20
)

// effort is how much time the worker may take: a fortieth of one processor's. A model
// that reads what it gets needs far less. What calls faster than that is a program
// that leaves no time to fetch anything before it is asked for, and is left alone.
type effort struct {
	left time.Duration
	at   time.Time // up to which it was granted
}

const (
	effortShare = 40                     // one part in so many of the time
	mostEffort  = 500 * time.Millisecond // at once
)

// any reports whether there is some left.
func (e *effort) any(now time.Time) bool {
	if e.at.IsZero() {
		e.left = mostEffort
	}
	e.left = min(e.left+now.Sub(e.at)/effortShare, mostEffort)
	e.at = now
	return e.left > 0
}

// drops count what the worker was too slow for.
type drops struct {
	Calls   int64 `json:"calls"`   // that were not looked at
	Results int64 `json:"results"` // seen, and not read
}

func newPrefetcher(srv *Server, o speculate.Options) *prefetcher {
	return &prefetcher{
		srv: srv, desk: speculate.New(o), wake: make(chan struct{}, 1),
		upstreams: make(map[string]*upstreamState), sessions: make(map[*session]*sessionState), harm: make(map[string]time.Duration), lines: make(map[string]speculate.Line),
	}
}

// awake reports whether the worker has time for one more call, and counts one that
// it has not.
func (w *prefetcher) awake(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) < mostWaiting && w.effort.any(now) {
		return true
	}
	w.dropped.Calls++
	return false
}

// room reports whether n bytes of an answer may wait to be read, and counts one
// that may not.
func (w *prefetcher) room(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes+n <= mostWaitingBytes {
		return true
	}
	w.dropped.Results++
	return false
}

// tell hands the worker something it may leave out, which has so many bytes. It
// never waits, and says whether the worker will get to it.
func (w *prefetcher) tell(bytes int, what func(*prefetcher)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) >= 2*mostWaiting { // the answers to those that were seen still find room
		w.dropped.Calls++
		return false
	}
	return w.addLocked(bytes, what)
}

// hurry is tell for what somebody waits for.
func (w *prefetcher) hurry(bytes int, what func(*prefetcher)) bool {
	w.mu.Lock()
	w.urgent = true
	w.mu.Unlock()
	return w.tell(bytes, what)
}

// insist is tell for what must not be left out; false: the worker has ended.
func (w *prefetcher) insist(what func(*prefetcher)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.addLocked(0, what)
}

func (w *prefetcher) addLocked(bytes int, what func(*prefetcher)) bool {
	if w.ended {
		return false
	}
	if w.done == nil {
		w.done = make(chan struct{})
		go w.run()
	}
	w.bytes += bytes
	w.queue = append(w.queue, sighted{bytes, what})
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return true
}

// mergeEvery is how often what was learned is kept while there is no other
// occasion.
const mergeEvery = 5 * time.Minute

// The worker lets what was said last settle, so that it does not run in between
// when a client makes one call after the other.
const (
	lull     = time.Millisecond
	longLull = 20 * time.Millisecond
)

// await waits until there is something to do and nothing more comes for a moment,
// or somebody waits for it.
func (w *prefetcher) await(keep <-chan time.Time) {
	select {
	case <-w.wake:
	case <-keep:
		w.keepAll()
		return
	}
	for waited, before := time.Duration(0), -1; waited < longLull; waited += lull {
		w.mu.Lock()
		n, ended, urgent := len(w.queue), w.ended, w.urgent
		w.mu.Unlock()
		if n == before || ended || urgent {
			break
		}
		before = n
		time.Sleep(lull)
	}
}

// run is the worker.
func (w *prefetcher) run() {
	defer close(w.done)
	keep := time.NewTicker(mergeEvery)
	defer keep.Stop()
	for {
		w.mu.Lock()
		todo, ended := w.queue, w.ended
		w.queue, w.urgent = nil, false
		w.mu.Unlock()
		for _, t := range todo {
			began := time.Now()
			w.runTask(t.what)
			w.mu.Lock()
			w.bytes -= t.bytes
			w.effort.left = max(w.effort.left-time.Since(began)+w.pardon, -mostEffort)
			w.mu.Unlock()
			w.pardon = 0
		}
		switch {
		case len(todo) > 0:
		case ended:
			w.keepAll()
			return
		default:
			w.await(keep.C)
		}
	}
}

// save keeps what was learned so far, and returns when that is done.
func (w *prefetcher) save() {
	saved := make(chan struct{})
	w.mu.Lock()
	done := w.done
	if done != nil {
		w.urgent = true
		w.addLocked(0, func(w *prefetcher) { // one that has ended keeps all by itself
			w.keepAll()
			close(saved)
		})
	}
	w.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-saved:
	case <-done:
	}
}

// lastWait is how long the end waits for the worker: it may hang on a file that a
// dead server holds.
const lastWait = 10 * time.Second

// close ends the worker once it has seen what is left, and keeps what was learned.
func (w *prefetcher) close() {
	w.mu.Lock()
	w.ended = true
	done := w.done
	w.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	late := time.NewTimer(lastWait)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		w.srv.log.Warn("what was learned of late is not kept: a file does not answer")
	}
}

// tally counts what was thought of.
type tally struct {
	mu         sync.Mutex
	candidates int64
	declined   map[enrich.Reason]int64
	learned    map[string]forecast.Stats // by upstream, as of the last choice
}

func (t *tally) found(candidates int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.candidates += int64(candidates)
}

func (t *tally) decline(why enrich.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.declined == nil {
		t.declined = make(map[enrich.Reason]int64)
	}
	t.declined[why]++
}

// learn copies out, once a second at most, what there is to say of an upstream.
func (t *tally) learn(o *upstreamState, now time.Time) {
	if now.Sub(o.told) < time.Second {
		return
	}
	o.told = now
	for _, c := range o.forecast.Changes() {
		o.srv.log.Debug("follow-up", "upstream", o.at.Name(), "from", c.Trigger, "to", c.Target, "now", c.Why)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.learned == nil {
		t.learned = make(map[string]forecast.Stats)
	}
	t.learned[o.at.Name()] = o.forecast.Stats()
}
