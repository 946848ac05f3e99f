package dedup_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// recorded is a store with clocks that the test advances.
type recorded struct {
	*source
	awake, wall atomic.Int64 // each a time.Duration
}

func (r *recorded) add(d time.Duration) {
	r.awake.Add(int64(d))
	r.wall.Add(int64(d))
}

// sleep advances the wall clock alone.
func (r *recorded) sleep(d time.Duration) { r.wall.Add(int64(d)) }

func (r *recorded) moment() age.Moment {
	return age.At(time.Duration(r.awake.Load()), time.Duration(r.wall.Load()))
}

func newRecorded(t *testing.T) *recorded {
	r := new(recorded)
	r.add(time.Hour)
	s := dedup.New(dedup.Options{
		MaxBytes: 1 << 20, WriteSettle: writeSettle, Settle: settle, Clock: r.moment,
	})
	t.Cleanup(s.Close)
	r.source = &source{store: s}
	return r
}

// TestClockSettles: remote writes settle, and back-offs end, by the store's clock.
func TestClockSettles(t *testing.T) {
	r := newRecorded(t)
	r.store.RegisterWrite(remote(host)).End()
	if got := r.store.PrefetchRefusal(query(never, host)); got != "settling" {
		t.Errorf("got %q, want settling", got)
	}
	r.add(settle)
	q := query(dedup.Reuse{MaxAge: time.Second, Repeats: 1, BackOff: true}, host)
	q.Delivered, r.same = dedup.NewDelivered(), "same"
	g := begin(t, r.store, q)
	r.add(300 * time.Millisecond)
	g.settle()
	if got := r.ask(t, q); got.Took != 300*time.Millisecond || got.BackOff != time.Second {
		t.Errorf("got %+v, want a fetch of 300 ms and a back-off of 1 s", got)
	}
	r.add(time.Second)
	if got := r.ask(t, q); got.How != dedup.Fetched {
		t.Errorf("got %+v, want fetched after the back-off", got)
	}
}

// TestClockOfDoubt: a write of unknown outcome stays pending until both clocks say that its time
// is over, and ends even if the real clock is ahead.
func TestClockOfDoubt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRecorded(t)
		r.store.RegisterWrite(call.Effect{Places: []call.Place{host}}).Doubt()
		for _, step := range []struct {
			recorded, real time.Duration
			pending        bool
		}{{0, 2 * writeSettle, true}, {writeSettle - time.Second, 0, true}, {time.Second, writeSettle, false}} {
			r.add(step.recorded)
			time.Sleep(step.real)
			synctest.Wait()
			if got := r.store.Pending() > 0; got != step.pending {
				t.Errorf("%v on, and %v really: pending: %v, want %v", step.recorded, step.real, got, step.pending)
			}
		}
	})
}

// TestSleep: answers grow older while a laptop sleeps and its monotonic clock stops. A wall clock
// that is set back does not make them younger.
func TestSleep(t *testing.T) {
	const night = 8 * time.Hour
	organic := func(t *testing.T, r *recorded, q dedup.Query) { r.ask(t, q) }
	prefetch := func(t *testing.T, r *recorded, q dedup.Query) { r.prefetch(t, q) }
	flight := func(t *testing.T, r *recorded, q dedup.Query) { wait(t, r.store, q) }
	prefetchFlight := func(t *testing.T, r *recorded, q dedup.Query) { begin(t, r.store, q) }
	for _, tt := range []struct {
		name        string
		use         dedup.Reuse
		act         func(t *testing.T, r *recorded, q dedup.Query)
		awake, wall time.Duration // that pass
		want        dedup.Disposition
		age         time.Duration
	}{
		{"an answer, after a night", fresh, organic, time.Second, night, dedup.Fetched, 0},
		{"a prefetch", never, prefetch, time.Second, night, dedup.Fetched, 0},
		{"a flight", never, flight, 0, night, dedup.Fetched, 0},
		{"a prefetch in flight", never, prefetchFlight, 0, night, dedup.Fetched, 0},
		{"an answer, after a nap", fresh, organic, time.Second, 2 * time.Second, dedup.Hit, 2 * time.Second},
		{"the clock was set back", fresh, organic, 6 * time.Second, -night, dedup.Fetched, 0},
		{"and a prefetch", never, prefetch, 11 * time.Second, -night, dedup.Fetched, 0},
		{"set back, and it is fresh", fresh, organic, 2 * time.Second, -night, dedup.Hit, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorded(t)
			q := query(tt.use, host)
			tt.act(t, r, q)
			r.awake.Add(int64(tt.awake))
			r.wall.Add(int64(tt.wall))
			x := wait(t, r.store, q)
			if fetched := x.flight != nil; fetched != (tt.want == dedup.Fetched) {
				t.Fatalf("fetched: %v, want %s", fetched, tt.want)
			}
			if tt.want == dedup.Fetched {
				return
			}
			if got := x.outcome(t); got.How != tt.want || got.Age != tt.age {
				t.Errorf("got %s of age %v, want %s of %v", got.How, got.Age, tt.want, tt.age)
			}
		})
	}
}

// TestSleepKeepsWritesInTheAir: a write that may still land invalidates answers for its time of
// waking: a server that slept as well has not continued, and the wall clock may be set forward.
func TestSleepKeepsWritesInTheAir(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRecorded(t)
		r.store.RegisterWrite(call.Effect{Places: []call.Place{host}}).Doubt()
		remoteHost := call.Place{Domain: "remote.example"}
		r.store.RegisterWrite(remote(remoteHost)).End()
		for _, step := range []struct {
			awake, asleep time.Duration
			pending       bool
			why           dedup.Refusal
		}{
			{0, 0, true, "settling"}, {0, 8 * time.Hour, true, "settling"}, {settle, -8 * time.Hour, true, ""},
			{writeSettle - settle - time.Second, time.Hour, true, ""}, {time.Second, 0, false, ""},
		} {
			r.add(step.awake)
			r.sleep(step.asleep)
			time.Sleep(step.awake)
			synctest.Wait()
			if got := r.store.Pending() > 0; got != step.pending {
				t.Errorf("%v awake and %v asleep later: pending: %v, want %v", step.awake, step.asleep, got, step.pending)
			}
			if got := r.store.PrefetchRefusal(query(never, remoteHost)); got != step.why {
				t.Errorf("%v awake and %v asleep later: got %q, want %q", step.awake, step.asleep, got, step.why)
			}
		}
	})
}
