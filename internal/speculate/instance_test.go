package speculate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mcpschedd/internal/speculate"
)

// TestConcurrencyHarm: the counted waits at a serial upstream match those of the simulation.
func TestConcurrencyHarm(t *testing.T) {
	for _, noise := range []float64{0, 0.5} {
		calls := traffic(rand.New(rand.NewPCG(3, 4)), 500, noise)
		inLine(calls)
		d := speculate.NewScheduler(speculate.Slots{})
		before, serial, harmed, missed, wrong := 0.0, false, 0, 0, 0
		watchConcurrency(d, calls, func(c *work) {
			_, waited := d.Harmed(speculate.ForegroundWait)
			got := waited - before
			before = waited
			want := 0.0
			for _, g := range calls {
				if g.prefetch && !c.prefetch && g.ends < c.ends {
					want += 1000 * max(0, g.ends-max(c.arrives, g.ends-g.takes))
				}
			}
			switch {
			case !serial:
			case math.Abs(got-want) < 0.01:
				if want > 0 {
					harmed++
				}
			case got == 0: // the calls seemed to run in parallel
				missed++
			default:
				wrong++
				t.Logf("noise %v: got %.3f ms, want %.3f", noise, got, want)
			}
			serial = known(d) == speculate.Serial
		})
		if harmed < 20 || noise == 0 && missed > 0 || missed > harmed/10 || wrong > 0 {
			t.Errorf("noise %v: %d waits were counted, %d were missed, and %d had a wrong length", noise, harmed, missed, wrong)
		}
	}
}

// FuzzConcurrency records calls out of order, as happens when goroutines record times that they
// took earlier.
func FuzzConcurrency(f *testing.F) {
	f.Add([]byte("\x00\x10\x40\x10\x80\x50\x40\x60"))
	// A call that is abandoned, one long after it, and one that is recorded late.
	f.Add([]byte("\x00\x10\x81\x00\x40\x20\x00\xff\x40\xff\x00\x20\x40\x30"))
	f.Fuzz(func(t *testing.T, story []byte) {
		d := speculate.NewScheduler(speculate.Slots{})
		s := d.NewClaims("")
		open := make(map[byte]*speculate.Run)
		for i := 0; len(story) >= 2; i, story = i+1, story[2:] {
			id, now := story[0]>>1&7, at(int(story[1])*100)
			tool, odd := fmt.Sprint(id&1), story[0]&1 == 1
			switch run := open[id]; {
			case story[0]>>6 == 0:
				var of *speculate.Claim
				if b := newBet(i); odd && b.start(t.Context(), s) == "" {
					of = b.claim
				}
				open[id] = new(speculate.Run)
				d.Sent(open[id], lease, tool, of, now)
			case run == nil:
			case story[0]>>6 >= 2:
				d.Abandoned(run, odd, now)
			default:
				d.Answered(run, now)
				if alone := run.Unloaded(); alone < 0 || alone > max(run.Took(), 1) {
					t.Fatalf("a call of %v: got an unloaded latency of %v", run.Took(), alone)
				}
			}
			if slots := s.Room(now, host, lease).Slots; slots < 0 || slots > 3 {
				t.Fatalf("got room for %d prefetches", slots)
			}
			if got := d.Followed(lease); got > 64 {
				t.Fatalf("%d calls are tracked", got)
			}
		}
		if _, got := d.Harmed(speculate.ForegroundWait); got < 0 {
			t.Fatalf("got %v ms of harm", got)
		}
		s.End()
	})
}
