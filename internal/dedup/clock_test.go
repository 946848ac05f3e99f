package dedup_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// recorded is a time that somebody sets.
type recorded struct {
	*source
	now atomic.Int64 // a time.Duration
}

func (r *recorded) add(d time.Duration) { r.now.Add(int64(d)) }

func newRecorded(t *testing.T) *recorded {
	r := new(recorded)
	r.add(time.Hour)
	s := dedup.New(dedup.Options{
		MaxBytes: 1 << 20, WriteSettle: writeSettle, Settle: settle, Clock: func() time.Duration { return time.Duration(r.now.Load()) },
	})
	t.Cleanup(s.Close)
	r.source = &source{store: s}
	return r
}

// All that grows old does so by the clock that was given, however long that takes.
func TestClock(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name string
		use  dedup.Use
		act  func(t *testing.T, r *recorded, q dedup.Query)
		wait time.Duration // on that clock, and as long on the real one if it is negative
		want dedup.Disposition
	}{
		{"fresh", fresh, func(t *testing.T, r *recorded, q dedup.Query) { r.ask(t, q) }, 5*s - 1, dedup.Hit},
		{"no longer", fresh, func(t *testing.T, r *recorded, q dedup.Query) { r.ask(t, q) }, 5 * s, dedup.Fetched},
		{"fresh on the clock alone", fresh, func(t *testing.T, r *recorded, q dedup.Query) { r.ask(t, q) }, -time.Hour, dedup.Hit},
		{"a guess", never, func(t *testing.T, r *recorded, q dedup.Query) { r.guess(t, q) }, 10 * s, dedup.Hit},
		{"an old guess", never, func(t *testing.T, r *recorded, q dedup.Query) { r.guess(t, q) }, 10*s + 1, dedup.Fetched},
		{"a flight", never, func(t *testing.T, r *recorded, q dedup.Query) { wait(t, r.store, q) }, 99 * time.Millisecond, dedup.Joined},
		{"an old flight", never, func(t *testing.T, r *recorded, q dedup.Query) { wait(t, r.store, q) }, 100 * time.Millisecond, dedup.Fetched},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorded(t)
				q := query(tt.use, host)
				tt.act(t, r, q)
				if tt.wait > 0 {
					r.add(tt.wait)
				}
				time.Sleep(max(0, -tt.wait))
				x := wait(t, r.store, q)
				switch {
				case x.flight != nil:
					if tt.want != dedup.Fetched {
						t.Errorf("fetched, want %s", tt.want)
					}
				case tt.want == dedup.Joined:
					if len(x.outcomes) != 0 {
						t.Errorf("got %+v, want to wait", x.outcome(t))
					}
				default:
					if got := x.outcome(t); got.How != tt.want || got.Age != max(0, tt.wait) {
						t.Errorf("got %s of age %v, want %s of %v", got.How, got.Age, tt.want, max(0, tt.wait))
					}
				}
			})
		})
	}
}

// A remote write settles by that clock, and a back-off ends by it.
func TestClockSettles(t *testing.T) {
	r := newRecorded(t)
	r.store.Arrive(remote(host)).End()
	if got := r.store.Refuses(query(never, host)); got != "settling" {
		t.Errorf("got %q, want settling", got)
	}
	r.add(settle)
	q := query(dedup.Use{MaxAge: time.Second, Repeats: 1, BackOff: true}, host)
	q.Delivered, r.same = dedup.NewDelivered(), "same"
	g := begin(t, r.store, q)
	r.add(300 * time.Millisecond)
	g.settle()
	if got := r.ask(t, q); got.Hidden != 300*time.Millisecond || got.BackOff != time.Second {
		t.Errorf("got %+v, want 300 ms hidden and a back-off of 1 s", got)
	}
	r.add(time.Second)
	if got := r.ask(t, q); got.How != dedup.Fetched {
		t.Errorf("got %+v, want fetched after the back-off", got)
	}
}

// A store keeps its clock when it is configured anew.
func TestClockStays(t *testing.T) {
	r := newRecorded(t)
	r.ask(t, query(fresh, host))
	r.store.Configure(dedup.Options{MaxBytes: 1 << 20, Clock: func() time.Duration { return time.Minute }})
	r.add(time.Second)
	if got := r.ask(t, query(fresh, host)); got.How != dedup.Hit || got.Age != time.Second {
		t.Errorf("got %+v, want a hit of 1 s", got)
	}
}

// What became of a write that nobody knows of is reckoned with until both clocks
// say that its time is over. Once it stayed for ever if the real one was ahead.
func TestClockOfDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t)
		r.store.Arrive(call.Effect{Places: []call.Place{host}}).Doubt()
		for _, step := range []struct {
			recorded, real time.Duration
			air            bool
		}{{0, 2 * writeSettle, true}, {writeSettle - time.Second, 0, true}, {time.Second, writeSettle, false}} {
			r.add(step.recorded)
			time.Sleep(step.real)
			synctest.Wait()
			if got := r.store.Air() > 0; got != step.air {
				t.Errorf("%v on, and %v really: in the air: %v, want %v", step.recorded, step.real, got, step.air)
			}
		}
	})
}
