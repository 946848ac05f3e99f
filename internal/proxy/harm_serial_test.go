package proxy_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/speculate"
)

// queue is a server that runs one call at a time, in the order of arrival.
type queue struct {
	*foe
	place chan struct{}
	takes time.Duration // duration of each call
	heeds bool          // it ends a call that is cancelled
}

func newQueue(takes time.Duration, heeds bool) *queue {
	q := &queue{place: make(chan struct{}, 1), takes: takes, heeds: heeds}
	q.foe = newFoe(q.work)
	return q
}

func (q *queue) work(v *visit) reply {
	q.place <- struct{}{}
	defer func() { <-q.place }()
	q.mu.Lock()
	v.worked = time.Now()
	q.mu.Unlock()
	if q.heeds {
		v.sleeps(q.takes)
	} else {
		time.Sleep(q.takes)
	}
	return reply{result: v.told()}
}

// waited returns how long a visit waited while prefetches were running.
func waited(ledger []visit, v *visit) (sum time.Duration) {
	for _, g := range ledger {
		from, to := g.worked, g.went
		if from.Before(v.came) {
			from = v.came
		}
		if to.After(v.worked) {
			to = v.worked
		}
		if g.early && to.After(from) {
			sum += to.Sub(from)
		}
	}
	return sum
}

// wait is how long a client's call waited for prefetches: as counted, and in fact.
type wait struct{ counted, really time.Duration }

// A server runs one call at a time. The time that calls wait there for prefetches is counted as
// harm: never too much, and not too little, except that waits shorter than half of a call's usual
// latency may be missed. The harm is bounded: each counted wait costs one of three levels, and
// only 16 correct predictions raise the lowest level again.
func TestHarmSerial(t *testing.T) {
	t.Parallel()
	const takes = time.Second
	for name, heeds := range map[string]bool{"goes on with what is cancelled": false, "gives up what is cancelled": true} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(slice(2, 200)) {
				bubble.Test(t, func(t *testing.T) {
					q := newQueue(takes, heeds)
					d := beset(t, q.foe, defaults(t, listing(t)...))
					waits := d.stumbles(q, d.enter(), rand.New(rand.NewPCG(seed, 4)), 30)
					found, sum := 0, time.Duration(0)
					for _, w := range waits {
						if w.counted > w.really+time.Microsecond || w.counted < w.really-takes/2 {
							t.Errorf("seed %d: a call waited %v for prefetches, and %v was counted", seed, w.really, w.counted)
						}
						if w.counted >= time.Millisecond {
							found++
						}
						sum += w.really
					}
					if found > 8 || sum > 6*takes {
						t.Errorf("seed %d: real calls waited %d times, %v in all", seed, len(waits), sum)
					}
					if n := atOnce(q.ledger()); n > 2 { // an abandoned one, and the next one
						t.Errorf("seed %d: %d prefetches at once", seed, n)
					}
				})
			}
		})
	}
}

// stumbles plays a session in which every second item is not on the page that was listed. It
// returns the calls that waited for prefetches, without the first few, from which the latency is
// learned.
func (d *ordeal) stumbles(q *queue, g *guest, r *rand.Rand, pages int) (waits []wait) {
	counted := func() time.Duration {
		synctest.Wait()
		return time.Duration(d.proxy.Stats().Prefetch.Harm.ForegroundWaitMS * float64(time.Millisecond))
	}
	calls := 0
	ask := func(tool, arguments string) {
		before, at := counted(), time.Now()
		g.call(tool, arguments)
		w := wait{counted: counted() - before}
		ledger := q.ledger()
		for i := range ledger {
			if v := &ledger[i]; !v.early && !v.came.Before(at) {
				w.really += waited(ledger, v)
			}
		}
		if calls++; calls > 12 && (w.counted > 0 || w.really > 0) {
			waits = append(waits, w)
		}
		time.Sleep(10*time.Millisecond + time.Duration(r.Float64()*float64(3*q.takes)))
	}
	for p := range pages {
		ask("list", page(p+1))
		for i := range perPage {
			if r.IntN(2) == 0 {
				ask("get", thing(p+1, i))
			} else {
				ask("get", thing(1000+p, i))
			}
		}
	}
	return waits
}

// If a server is known to be serial, and calls come before it has finished a prefetch, only an
// almost certain next call is prefetched, so that other calls hardly wait.
func TestHarmSerialHurried(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		q := newQueue(time.Second, false)
		d := beset(t, q.foe, defaults(t, listing(t)...))
		g := d.enter()
		for i := range 12 { // two at a time, to learn the server's concurrency
			one := g.begin("get", thing(5000+i, 0))
			if i >= 5 {
				time.Sleep(50 * time.Millisecond) // so that the order of arrival is defined
				g.call("get", thing(6000+i, 0))
			}
			one.wait()
			time.Sleep(3 * time.Second)
		}
		if is := proxy.LineOf(d.proxy, "foe"); is != speculate.Serial {
			t.Fatalf("the server is estimated as %v", is)
		}
		const known = 10 // number of pages after which the pause between calls is known
		began := 0
		for p := range 30 {
			if p == known {
				began = len(q.ledger())
			}
			g.call("list", page(p+1))
			for i := range perPage {
				time.Sleep(300 * time.Millisecond)
				g.call("get", thing(p+1, i))
			}
			time.Sleep(300 * time.Millisecond)
		}
		ledger := q.ledger()[began:]
		if len(early(ledger)) == 0 {
			t.Error("nothing was prefetched")
		}
		var others, wait time.Duration
		for i := range ledger {
			if v := &ledger[i]; !v.early {
				others, wait = others+q.takes, wait+waited(ledger, v)
			}
		}
		if wait > others/20 {
			t.Errorf("other calls, of %v, waited %v for prefetches", others, wait)
		}
	})
}
