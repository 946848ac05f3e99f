package dedup_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"

	"pgregory.net/rapid"
)

// onlyBlame names the environment variable with the failure that TestModel must report. A mutant
// may cause others too, which have mutants of their own.
const onlyBlame = "MCPSCHEDD_ONLY_BLAME"

// TestModel plays random histories with a store and a model server. Each place has a number that a
// write raises when it shows, and an answer has the numbers that the server read. No call may get
// an answer from before a change that preceded the call. A remote write may show after its end.
func TestModel(t *testing.T) {
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		if err := flag.Set("rapid.checks", "10000"); err != nil {
			t.Fatal(err)
		}
	}
	sums := make(map[string]int)
	var left string // what the first history left behind; reported at the end, as rapid need not minimise a history for it
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(rapid.Custom(drawOp), 60, 150).Draw(rt, "history")
		var blame string
		bubble.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.run(history)
			w.end()
			blame = strings.Join(slices.DeleteFunc(w.blamed, func(b string) bool {
				return !strings.Contains(b, os.Getenv(onlyBlame))
			}), "\n")
			left = cmp.Or(left, w.left)
			for what, n := range w.sums {
				sums[what] += n
			}
		})
		if blame != "" {
			rt.Fatal(blame)
		}
	})
	if left != "" {
		t.Error(left)
	}
	for _, what := range []string{"hit", "joined", "fetched", "alone", "left", "backed off", "prefetch used", "fetch cancelled"} {
		if sums[what] == 0 && !t.Failed() {
			t.Errorf("no call was %q: the histories prove nothing of that", what)
		}
	}
	t.Logf("%v", sums)
}

// world is the model, with the store under test.
type world struct {
	store      *dedup.Store
	delivered  map[string]*dedup.Delivered // scope → answers delivered to its client
	work       sync.WaitGroup
	prefetches []*dedup.Prefetch // all; only the goroutine of the history uses it

	mu      sync.Mutex
	numbers [4]int   // place → number of its changes that show
	hidden  [4]int   // place → number of remote writes that have ended, and do not show yet
	fetches []*fetch // in the order they began
	blamed  []string
	left    string         // what a history left behind
	sums    map[string]int // kind of event → number
}

// fetch is a request to the server.
type fetch struct {
	nth        int
	op         op
	began      time.Time
	sent       time.Time
	prefetched bool
	took       time.Duration // 0 until it was answered
	saw        []int         // the numbers of the key's places that the server read
	good       bool
	cancelled  bool
	served     int // number of other calls that got its answer

	// Of a prefetch.
	prefetch *dedup.Prefetch
	hits     int       // hits among served
	asked    time.Time // when the first call came that joined it and got its answer
}

func newWorld(t *testing.T) *world {
	return &world{
		store:     dedup.New(dedup.Options{MaxBytes: 50_000, WriteSettle: modelWriteSettle, Settle: modelSettle}),
		delivered: map[string]*dedup.Delivered{"a": dedup.NewDelivered(), "b": dedup.NewDelivered()},
		sums:      make(map[string]int),
	}
}

func (w *world) blame(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blamed = append(w.blamed, fmt.Sprintf(format, args...))
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sums[what]++
}

// run runs the history.
func (w *world) run(history []op) {
	for _, o := range history {
		time.Sleep(o.pause)
		switch o.what {
		case "read":
			w.work.Go(func() { w.read(o) })
		case "prefetch":
			w.prefetch(o)
		case "elsewhere":
			w.mu.Lock() // no call may come between the change and its invalidation
			w.landLocked(o)
			w.store.Invalidate(o.effect().Places...)
			w.mu.Unlock()
		case "drop":
			w.store.DropScope(o.scope)
			if n := w.store.Open(o.scope); n > 0 {
				w.blame("open ends: scope %q has ended, and %d prefetches have no fate", o.scope, n)
			}
		case "resize":
			w.store.Configure(dedup.Options{MaxBytes: int64(o.size), WriteSettle: modelWriteSettle, Settle: modelSettle})
		case "question":
			w.store.Taint(2) // of another upstream, so no flight is affected
		default:
			w.change(o)
		}
		if err := cmp.Or(w.store.Check(), w.store.CheckFates(w.prefetches)); err != nil {
			w.blame("after %s: %v", o.what, err)
		}
	}
}

// end waits until all operations must have ended, and checks that nothing is left.
func (w *world) end() {
	w.work.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
	if err := cmp.Or(w.store.Check(), w.store.CheckFates(w.prefetches)); err != nil {
		w.blame("at the end: %v", err)
	}
	got := w.store.Stats()
	if got.Flights != 0 || got.UnderWay != 0 || w.store.Pending() != 0 {
		w.left = fmt.Sprintf("at the end there are %+v, and %d pending writes", got, w.store.Pending())
	}
	w.sums["prefetch used"] += int(got.Prefetch.Used)
	w.judgeFates()
	w.store.Close()
	for _, g := range w.prefetches {
		if g.Fate() == call.Pending {
			w.blame("the store is closed, and a prefetch has no fate")
		}
	}
}

func (o op) effect() call.Effect {
	e := call.Effect{Remote: o.shows > 0}
	for _, p := range o.places {
		e.Places = append(e.Places, modelPlaces[p])
	}
	return e
}

// landLocked applies the write of op.
func (w *world) landLocked(o op) {
	for _, p := range o.places {
		w.numbers[p]++
	}
}

func (w *world) land(o op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.landLocked(o)
}

// change registers a write before the next event, and then runs it.
func (w *world) change(o op) {
	effect := o.effect()
	if o.what == "misjudged" {
		effect = call.Effect{} // by the rules before the reclassification
	}
	p := w.store.RegisterWrite(effect)
	w.work.Go(func() {
		switch o.what {
		case "doubt":
			time.Sleep(o.doubt)
			p.Doubt()
			if !o.late { // it lands within write_settle, without a reply
				time.Sleep(modelWriteSettle - 1 - o.before)
				w.land(o)
				return
			}
		case "misjudged":
			w.store.Reclassify()
		}
		time.Sleep(o.before)
		if o.shows > 0 {
			w.mu.Lock()
			w.hideLocked(o, 1)
			w.mu.Unlock()
			p.End()
			time.Sleep(o.shows)
			w.mu.Lock()
			w.hideLocked(o, -1)
			w.landLocked(o)
			w.mu.Unlock()
			return
		}
		w.land(o)
		time.Sleep(o.after)
		p.End()
	})
}

// hideLocked adds n to the remote writes of op's places that do not show yet.
func (w *world) hideLocked(o op, n int) {
	for _, p := range o.places {
		w.hidden[p] += n
	}
}

// read makes a call.
func (w *world) read(o op) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if o.cancel > 0 {
		defer time.AfterFunc(o.cancel, func() { cancel(errLeft) }).Stop()
	}
	write := w.store.RegisterWrite(call.Effect{})
	defer write.End()
	w.mu.Lock()
	least := w.lookLocked(o)
	for i, p := range keys[o.key] {
		least[i] += w.hidden[p]
	}
	w.mu.Unlock()
	came := time.Now()
	outcomes := make(chan dedup.Outcome, 2)
	waiter := &dedup.Waiter{
		Done:   func(o dedup.Outcome) { outcomes <- o },
		Notify: func(string, []byte) { w.count("heard") },
	}
	var own *fetch
	w.store.Do(ctx, w.query(o), waiter, func(ctx context.Context, f *dedup.Flight) { own = w.fetch(ctx, o, f, false) })
	var got dedup.Outcome
	select {
	case got = <-outcomes:
	case <-time.After(10 * time.Second):
		w.blame("lost wake-up: %#v has no answer", o)
		return
	}
	w.judge(o, own, got, least, came)
	time.Sleep(time.Second)
	if len(outcomes) != 0 {
		w.blame("%#v was answered twice", o)
	}
}

// prefetch makes a prefetch.
func (w *world) prefetch(o op) {
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(cmp.Or(o.cancel, time.Second), func() { cancel(errLeft) })
	q := w.query(o)
	refuses := w.store.PrefetchRefusal(q)
	var own *fetch
	g, why := w.store.Prefetch(ctx, q, func(ctx context.Context, f *dedup.Flight) { own = w.fetch(ctx, o, f, true) })
	if (g != nil) != (why == "") || (g != nil) != (own != nil) {
		w.blame("begun: %v, fetched: %v, refused because %q", g != nil, own != nil, why)
	}
	w.count("refuses " + string(cmp.Or(refuses, "nothing")))
	if g == nil {
		return
	}
	w.prefetches = append(w.prefetches, g)
	w.work.Go(func() { // the fate may be read at any time
		time.Sleep(o.before)
		if why, fate := g.Why(), g.Fate(); why != "" && fate != call.Wasted && fate != call.Compared {
			w.blame("no call got a prefetch because of %q, and then one did", why)
		}
	})
	w.mu.Lock()
	own.prefetch = g
	w.mu.Unlock()
}

func (w *world) query(o op) dedup.Query {
	q := dedup.Query{
		Key:   call.Key{Upstream: 1, Scope: o.scope, Tool: fmt.Sprint("tool ", o.key), Arguments: "{}"},
		Reuse: modelUses[o.use], Delivered: w.delivered[o.scope],
	}
	q.Reuse.CompareOnly = o.trial
	for _, p := range keys[o.key] {
		q.Places = append(q.Places, modelPlaces[p])
	}
	return q
}

// lookLocked returns the current numbers of the places that a call depends on.
func (w *world) lookLocked(o op) []int {
	var saw []int
	for _, p := range keys[o.key] {
		saw = append(saw, w.numbers[p])
	}
	return saw
}

// fetch sends a request to the server.
func (w *world) fetch(ctx context.Context, o op, f *dedup.Flight, prefetched bool) *fetch {
	w.mu.Lock()
	x := &fetch{nth: len(w.fetches), op: o, began: time.Now(), sent: time.Now(), prefetched: prefetched}
	w.fetches = append(w.fetches, x)
	w.mu.Unlock()
	w.work.Go(func() {
		if o.before > 20*time.Millisecond { // the request is not sent at once
			time.Sleep(20 * time.Millisecond)
			if prefetched {
				w.mu.Lock()
				x.sent = time.Now()
				w.mu.Unlock()
			}
			f.Sent()
		}
		time.Sleep(time.Until(x.began.Add(o.before)))
		w.mu.Lock()
		x.saw = w.lookLocked(o)
		w.mu.Unlock()
		if o.asks {
			f.Taint()
		}
		select {
		case <-ctx.Done():
			w.mu.Lock()
			x.cancelled = true
			w.mu.Unlock()
			w.count("fetch cancelled")
			f.Finish(nil, false, false)
			return
		case <-time.After(o.after):
		}
		w.mu.Lock()
		x.good = o.good && !o.asks
		x.took = time.Since(x.sent)
		w.mu.Unlock()
		f.Notify("notifications/progress", nil)
		body := fmt.Appendf(nil, "%d %s", x.nth, strings.Repeat("x", o.size))
		f.Finish(body, false, o.good)
		clear(body) // Finish only borrows it
	})
	return x
}
