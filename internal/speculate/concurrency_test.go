package speculate_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestConcurrency estimates the concurrency of simulated servers from the calls of one client, or
// of many. A serial server must not be estimated as parallel, as prefetches would then delay
// calls.
func TestConcurrency(t *testing.T) {
	const serial, parallel = speculate.Serial, speculate.Parallel
	for _, tt := range []struct {
		name   string
		run    server
		agents int
		noise  float64
		is     speculate.Concurrency
		least  float64 // share of the calls after which the estimate is right, at least
		wrong  float64 // share of the calls after which the estimate is the opposite, at most
	}{
		{"one after the other, exactly", inLine, 1, 0, serial, 0.9, 0},
		{"one after the other", inLine, 1, 0.25, serial, 0.9, 0.005},
		{"one after the other, any time", inLine, 1, 0.8, serial, 0.85, 0.002},
		{"one after the other, the last first", lastFirst, 1, 0.25, serial, 0.9, 0.005},
		{"one after the other, for a few", inLine, 8, 0.5, serial, 0.9, 0.005},
		{"one after the other, the last first, for a few", lastFirst, 8, 0.5, serial, 0.9, 0.005},
		{"one after the other, for too many", inLine, 13, 0.5, serial, 0.9, 0.005},

		{"side by side, exactly", sideBySide, 1, 0, parallel, 0.9, 0},
		{"side by side", sideBySide, 1, 0.25, parallel, 0.9, 0},
		{"side by side, any time", sideBySide, 1, 0.8, parallel, 0.6, 0.02},
		{"side by side, for a few", sideBySide, 8, 0.5, parallel, 0.55, 0.002},
		{"side by side, for 50", sideBySide, 50, 0.5, parallel, 0.65, 0.002},
		{"side by side, for 200", sideBySide, 200, 0.5, parallel, 0.8, 0.002},
		{"sharing a processor: short ones overtake", shared, 1, 0.25, parallel, 0.5, 0.005},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen [3]int
			for seed := range uint64(50) {
				r := rand.New(rand.NewPCG(seed, 1))
				calls := traffic(r, 200, tt.noise)
				if tt.agents > 1 {
					calls = sharedBy(r, tt.agents, 500, tt.noise)
				}
				tt.run(calls)
				d := speculate.NewScheduler(speculate.Slots{})
				watchConcurrency(d, calls, func(*work) { seen[known(d)]++ })
			}
			share := func(l speculate.Concurrency) float64 { return float64(seen[l]) / float64(seen[0]+seen[1]+seen[2]) }
			if got := share(tt.is); got < tt.least {
				t.Errorf("estimated as %v after %.2f of the calls, want %.2f", tt.is, got, tt.least)
			}
			opposite := serial + parallel - tt.is
			if got := share(opposite); got > tt.wrong {
				t.Errorf("estimated as %v after %.4f of the calls, want at most %.4f", opposite, got, tt.wrong)
			}
		})
	}
}

// TestConcurrencyNeither: a server that handles two calls at once is neither serial nor parallel, and
// mostly gets one prefetch at a time.
func TestConcurrencyNeither(t *testing.T) {
	var seen [3]int
	for seed := range uint64(50) {
		calls := traffic(rand.New(rand.NewPCG(seed, 1)), 200, 0.25)
		two(calls)
		d := speculate.NewScheduler(speculate.Slots{})
		watchConcurrency(d, calls, func(*work) { seen[known(d)]++ })
	}
	if got := float64(seen[speculate.Parallel]) / float64(seen[0]+seen[1]+seen[2]); got > 0.3 {
		t.Errorf("estimated as parallel after %.2f of the calls", got)
	}
}

// TestConcurrencyChanges: after a restart with another concurrency, the estimate soon changes.
func TestConcurrencyChanges(t *testing.T) {
	calls := traffic(rand.New(rand.NewPCG(1, 2)), 600, 0.25)
	third := len(calls) / 3
	for i, run := range []server{inLine, sideBySide, inLine} {
		part := calls[i*third : (i+1)*third]
		run(part)
	}
	d := speculate.NewScheduler(speculate.Slots{})
	n := 0
	watchConcurrency(d, calls[:3*third], func(*work) {
		n++
		want := []speculate.Concurrency{speculate.Serial, speculate.Parallel, speculate.Serial}[(n-1)/third]
		if got := known(d); n%third == third-1 && got != want {
			t.Errorf("after %d calls: got %v, want %v", n, got, want)
		}
	})
}

// overlap is two overlapping calls, the second one of a tool with a usual latency of 100 ms. Times
// are in ms.
type overlap struct{ began2, ended1, ended2 int }

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// alone records a call of a tool at an idle instance.
func alone(d *speculate.Scheduler, tool string, ms int) {
	for id := range uint64(3) {
		began(d, 1000+id, tool, nil, at(-60_000))
		ended(d, 1000+id, at(ms-60_000))
	}
}

// play records the two calls, in the nth minute.
func (o overlap) play(d *speculate.Scheduler, n int, second string) {
	at := func(ms int) time.Time { return at(60_000*n + ms) }
	began(d, 1, "any", nil, at(0))
	began(d, 2, strings.TrimSuffix(second, " cut"), nil, at(o.began2))
	if strings.HasSuffix(second, " cut") {
		cut(d, 2, at(o.began2))
	}
	ends := []struct {
		id uint64
		ms int
	}{{1, o.ended1}, {2, o.ended2}}
	if o.ended2 < o.ended1 {
		ends[0], ends[1] = ends[1], ends[0]
	}
	for _, e := range ends {
		ended(d, e.id, at(e.ms))
	}
}

// TestConcurrencySaysNothing: a call of unknown usual latency, or an abandoned one, is no evidence.
func TestConcurrencySaysNothing(t *testing.T) {
	for _, second := range []string{"unheard of", "t cut", "t"} {
		for _, o := range []overlap{{10, 100, 200}, {10, 100, 110}, {10, 100, 100}, {10, 300, 110}} {
			d := speculate.NewScheduler(speculate.Slots{})
			alone(d, "t", 100)
			for n := range 4 {
				o.play(d, n, second)
			}
			if got := known(d); (got == speculate.Unknown) == (second == "t") {
				t.Errorf("%s, %v: got %v", second, o, got)
			}
		}
	}
}

// TestAbandoned: the upstream may still run an abandoned call, so latencies of later calls are not
// used as usual latencies.
func TestAbandoned(t *testing.T) {
	d := speculate.NewScheduler(speculate.Slots{})
	for i := range 10 {
		began(d, 1, "t", nil, at(1000*i))
		cut(d, 1, at(1000*i+1))
		ended(d, 1, at(1000*i+1))
		began(d, 2, "t", nil, at(1000*i+2))
		ended(d, 2, at(1000*i+190)) // the first 90 ms of it while the abandoned call may have run
	}
	for n := range 3 {
		overlap{10, 190, 200}.play(d, 1+n, "t") // would be evidence of parallel calls, if 190 ms were the usual latency
	}
	if got := known(d); got != speculate.Unknown {
		t.Errorf("got %v", got)
	}
}

// TestAbandonedGone: the upstream is assumed to run an abandoned call no longer than its usual
// latency.
func TestAbandonedGone(t *testing.T) {
	d := speculate.NewScheduler(speculate.Slots{})
	alone(d, "t", 100)
	for n := range 3 {
		now := at(1000 * n)
		began(d, 1, "t", nil, now)
		cut(d, 1, now)
		ended(d, 1, now.Add(10*time.Millisecond))
		now = now.Add(201 * time.Millisecond)
		began(d, 2, "any", nil, now)
		began(d, 3, "t", nil, now)
		ended(d, 2, now.Add(100*time.Millisecond))
		ended(d, 3, now.Add(200*time.Millisecond))
	}
	if got := known(d); got != speculate.Serial {
		t.Errorf("got %v", got)
	}
}

// teach sets the scheduler's estimate of an upstream.
func teach(d *speculate.Scheduler, is speculate.Concurrency) {
	if is == speculate.Serial {
		d.PresumeConcurrency(lease.Key, predict.ConcurrencyEvidence{Serial: 3})
	} else {
		d.PresumeConcurrency(lease.Key, predict.ConcurrencyEvidence{Parallel: 3})
	}
}

// TestPresume: a stored estimate holds at once unless its values are out of range, and new
// evidence can overturn it. A stored usual latency counts as one sample.
func TestPresume(t *testing.T) {
	parallel, serial := overlap{10, 100, 110}, overlap{10, 100, 200}
	for _, tt := range []struct {
		name    string
		learned predict.ConcurrencyEvidence
		seen    overlap
		times   int
		want    speculate.Concurrency
	}{
		{"nothing", predict.ConcurrencyEvidence{}, parallel, 0, speculate.Unknown},
		{"not a number", predict.ConcurrencyEvidence{Parallel: math.NaN()}, parallel, 0, speculate.Unknown},
		{"serial", predict.ConcurrencyEvidence{Serial: 3}, parallel, 0, speculate.Serial},
		{"evidence adds up", predict.ConcurrencyEvidence{Parallel: 1.9}, parallel, 1, speculate.Parallel},
		{"one says otherwise", predict.ConcurrencyEvidence{Serial: 3}, parallel, 1, speculate.Serial},
		{"two do", predict.ConcurrencyEvidence{Parallel: 3}, serial, 2, speculate.Unknown},
		{"many do", predict.ConcurrencyEvidence{Parallel: 10}, serial, 12, speculate.Serial},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := speculate.NewScheduler(speculate.Slots{})
			d.PresumeConcurrency(lease.Key, tt.learned)
			alone(d, "t", 100)
			for n := range tt.times {
				tt.seen.play(d, n, "t")
			}
			if got := known(d); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestConcurrencyNoHarm: at a parallel upstream no wait is counted, however much latencies vary.
func TestConcurrencyNoHarm(t *testing.T) {
	for _, noise := range []float64{0, 0.3, 0.6, 1} {
		harmed := 0
		for seed := range uint64(20) {
			calls := traffic(rand.New(rand.NewPCG(seed, 4)), 150, noise)
			sideBySide(calls)
			d := speculate.NewScheduler(speculate.Slots{})
			watchConcurrency(d, calls, func(*work) {})
			if n, _ := d.Harmed(speculate.ForegroundWait); n > 0 {
				harmed++
			}
		}
		if harmed > 1 {
			t.Errorf("noise %v: harm was counted in %d runs of 20, want none", noise, harmed)
		}
	}
}
