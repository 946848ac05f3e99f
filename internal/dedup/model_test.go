package dedup_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"

	"pgregory.net/rapid"
)

// TestModel runs random histories against a world that knows what is true: each
// place holds a number that changes when a write lands, and an answer is the
// numbers that the server saw. No call may get one that a change had overtaken
// before the call came.
func TestModel(t *testing.T) {
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		if err := flag.Set("rapid.checks", "10000"); err != nil {
			t.Fatal(err)
		}
	}
	sums := make(map[string]int)
	var left string // by the first history that left something behind: not what a history is tried for
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(rapid.Custom(drawOp), 60, 150).Draw(rt, "history")
		var blame string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.run(history)
			w.end()
			blame = strings.Join(w.blamed, "\n")
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
	for _, what := range []string{"hit", "joined", "fetched", "alone", "left", "backed off", "guess used", "fetch cancelled"} {
		if sums[what] == 0 && !t.Failed() {
			t.Errorf("no call was %q: the histories prove nothing of that", what)
		}
	}
	t.Logf("%v", sums)
}

// world is what is true, beside the store that is tried.
type world struct {
	store     *dedup.Store
	delivered map[string]*dedup.Delivered // scope → what its client was given
	work      sync.WaitGroup

	mu      sync.Mutex
	numbers [4]int   // place → how often it has changed
	fetches []*fetch // in the order they began
	blamed  []string
	left    string         // what there is at the end and should not be
	sums    map[string]int // what happened → how often
}

// fetch is a call that went upstream.
type fetch struct {
	nth       int
	op        op
	began     time.Time
	guessed   bool
	saw       []int // the numbers of the key's places
	good      bool
	cancelled bool
	served    int // how many calls got it, but the one that fetched
}

func newWorld(t *testing.T) *world {
	return &world{
		store:     dedup.New(dedup.Options{MaxBytes: 50_000, WriteSettle: modelWriteSettle}),
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

// run lets the history happen.
func (w *world) run(history []op) {
	for _, o := range history {
		time.Sleep(o.pause)
		switch o.what {
		case "read":
			w.work.Go(func() { w.read(o) })
		case "guess":
			w.guess(o)
		case "elsewhere":
			w.mu.Lock() // nobody can tell the change from the word of it
			w.landLocked(o)
			w.store.Bump(o.effect().Places...)
			w.mu.Unlock()
		case "drop":
			w.store.Drop(o.scope)
		case "resize":
			w.store.Configure(dedup.Options{MaxBytes: int64(o.size), WriteSettle: modelWriteSettle})
		case "question":
			w.store.Taint(2) // of another upstream: nobody's
		default:
			w.change(o)
		}
		if err := w.store.Check(); err != nil {
			w.blame("after %s: %v", o.what, err)
		}
	}
}

// end waits until everything must be over, and looks at what is left.
func (w *world) end() {
	w.work.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
	if err := w.store.Check(); err != nil {
		w.blame("at the end: %v", err)
	}
	got := w.store.Stats()
	if got.Flights != 0 || got.Passages != 0 || got.Doubtful != 0 || w.store.Air() != 0 {
		w.left = fmt.Sprintf("at the end there are %+v, and %d changes in the air", got, w.store.Air())
	}
	w.sums["guess used"] += int(got.Prefetch.Used)
	w.sums["backed off"] += int(got.BackedOff)
	w.store.Close()
}

func (o op) effect() call.Effect {
	var e call.Effect
	for _, p := range o.places {
		e.Places = append(e.Places, modelPlaces[p])
	}
	return e
}

// landLocked changes what the op changes.
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

// change is a write from its arrival, which nothing that comes later in the
// history overtakes.
func (w *world) change(o op) {
	effect := o.effect()
	if o.what == "misjudged" {
		effect = call.Effect{} // by the rules that held when it came
	}
	p := w.store.Arrive(effect)
	w.work.Go(func() {
		switch o.what {
		case "doubt":
			time.Sleep(o.doubt)
			p.Doubt()
			if !o.late { // within the time, and nobody ever hears of it
				time.Sleep(modelWriteSettle - 1 - o.before)
				w.land(o)
				return
			}
		case "misjudged":
			w.store.Reform()
		}
		time.Sleep(o.before)
		w.land(o)
		time.Sleep(o.after)
		p.End()
	})
}

// read is a call of a client, until its answer.
func (w *world) read(o op) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if o.cancel > 0 {
		defer time.AfterFunc(o.cancel, func() { cancel(errLeft) }).Stop()
	}
	passage := w.store.Arrive(call.Effect{})
	defer passage.End()
	w.mu.Lock()
	least := w.lookLocked(o)
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

// guess is a prefetch.
func (w *world) guess(o op) {
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(cmp.Or(o.cancel, time.Second), func() { cancel(errLeft) })
	w.store.Prefetch(ctx, w.query(o), func(ctx context.Context, f *dedup.Flight) { w.fetch(ctx, o, f, true) })
}

func (w *world) query(o op) dedup.Query {
	q := dedup.Query{
		Key: call.Key{Upstream: 1, Scope: o.scope, Tool: fmt.Sprint("tool ", o.key), Arguments: "{}"},
		Use: modelUses[o.use], Delivered: w.delivered[o.scope],
	}
	for _, p := range keys[o.key] {
		q.Places = append(q.Places, modelPlaces[p])
	}
	return q
}

// lookLocked is what the server sees.
func (w *world) lookLocked(o op) []int {
	var saw []int
	for _, p := range keys[o.key] {
		saw = append(saw, w.numbers[p])
	}
	return saw
}

// fetch asks the server.
func (w *world) fetch(ctx context.Context, o op, f *dedup.Flight, guessed bool) *fetch {
	w.mu.Lock()
	x := &fetch{nth: len(w.fetches), op: o, began: time.Now(), guessed: guessed}
	w.fetches = append(w.fetches, x)
	w.mu.Unlock()
	w.work.Go(func() {
		time.Sleep(o.before)
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
			f.Settle(nil, false, false)
			return
		case <-time.After(o.after):
		}
		w.mu.Lock()
		x.good = o.good && !o.asks
		w.mu.Unlock()
		f.Notify("notifications/progress", nil)
		body := fmt.Appendf(nil, "%d %s", x.nth, strings.Repeat("x", o.size))
		f.Settle(body, false, o.good)
		clear(body) // it was only borrowed
	})
	return x
}

// judge holds what a call got against what is true.
func (w *world) judge(o op, own *fetch, got dedup.Outcome, least []int, came time.Time) {
	w.mu.Lock()
	var cancelled bool
	if own != nil {
		cancelled = own.cancelled
	}
	w.mu.Unlock()
	switch {
	case got.Err != nil:
		w.count("left")
		if o.cancel == 0 || got.Err != errLeft {
			w.blame("%#v stayed and got %v", o, got.Err)
		}
		return
	case got.Alone:
		w.count("alone")
		return
	case got.How == dedup.Fetched:
		w.count("fetched")
		if own == nil || cancelled {
			w.blame("%#v got %+v; its fetch was cancelled: %v", o, got, cancelled)
		}
		return
	}
	w.count(string(got.How))
	var nth int
	if _, err := fmt.Fscan(bytes.NewReader(got.Body), &nth); err != nil {
		w.blame("%#v got %.20q: its bytes were given back", o, got.Body)
		return
	}
	w.mu.Lock()
	x := w.fetches[nth]
	x.served++
	w.mu.Unlock()
	w.judgeShared(o, x, got, least, came)
}

// judgeShared judges an answer that another call, or nobody, had asked for.
func (w *world) judgeShared(o op, x *fetch, got dedup.Outcome, least []int, came time.Time) {
	use := modelUses[o.use]
	age := came.Sub(x.began)
	if overtaken(x.saw, least) {
		w.blame("stale answer: %#v came when the world was at %v and got, %s, what the server saw at %v: fetch %#v", o, least, got.How, x.saw, x.op)
	}
	switch {
	case x.op.scope != o.scope:
		w.blame("stale answer of another scope: %#v got fetch %#v", o, x.op)
	case x.op.key != o.key:
		w.blame("%#v got the answer to another call: %#v", o, x.op)
	case !x.good || x.cancelled:
		w.blame("%#v got what may not be shared: %#v", o, x.op)
	case got.Prefetched != x.guessed || x.guessed && use.Volatile:
		w.blame("%#v got, prefetched %v, fetch %#v", o, got.Prefetched, x.op)
	case got.How == dedup.Hit && got.Age != age:
		w.blame("%#v is told an age of %v, want %v", o, got.Age, age)
	case use.Pure || got.BackedOff && use.BackOff:
	case use.Freshness > 0 && age > use.Freshness:
		w.blame("%#v got an answer of %v", o, age)
	case use.Freshness > 0:
	case got.How == dedup.Hit && (!x.guessed || x.served > 1 || age > use.MaxAge):
		w.blame("%#v got an answer without freshness, fetched %v ago, guessed %v, served %d times", o, age, x.guessed, x.served)
	case got.How == dedup.Joined && !x.guessed && age >= 100*time.Millisecond:
		w.blame("%#v joined a fetch of %v", o, age)
	}
}

// overtaken reports whether something had changed, by the time a call came, that
// the server saw before it did.
func overtaken(saw, least []int) bool {
	for i := range saw {
		if saw[i] < least[i] {
			return true
		}
	}
	return false
}
