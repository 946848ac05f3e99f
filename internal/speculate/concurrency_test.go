package speculate_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/speculate"
)

const upstream = 7

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestConcurrency: what simulated servers are taken for, by the calls of one agent or of
// many that share them. A serial one must not be taken for a parallel one: then
// guesses cost real calls their time.
func TestConcurrency(t *testing.T) {
	const serial, parallel = speculate.Serial, speculate.Parallel
	for _, tt := range []struct {
		name   string
		run    server
		agents int
		noise  float64
		is     speculate.Concurrency
		least  float64 // share of the calls after which it is known
		wrong  float64 // share after which it may be taken for the opposite
	}{
		{"one after the other, exactly", inLine, 1, 0, serial, 0.9, 0},
		{"one after the other", inLine, 1, 0.25, serial, 0.9, 0},
		{"one after the other, any time", inLine, 1, 0.8, serial, 0.85, 0.002},
		{"one after the other, the last first", lastFirst, 1, 0.25, serial, 0.9, 0},
		{"one after the other, for a few", inLine, 8, 0.5, serial, 0.9, 0},
		{"one after the other, the last first, for a few", lastFirst, 8, 0.5, serial, 0.9, 0},
		{"one after the other, for too many", inLine, 13, 0.5, serial, 0.9, 0.002},

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
				d := speculate.New(speculate.Options{})
				watchConcurrency(d, calls, upstream, func(*work) { seen[d.Concurrency(upstream)]++ })
			}
			share := func(l speculate.Concurrency) float64 { return float64(seen[l]) / float64(seen[0]+seen[1]+seen[2]) }
			if got := share(tt.is); got < tt.least {
				t.Errorf("known to be %v after %.2f of the calls, want %.2f", tt.is, got, tt.least)
			}
			opposite := serial + parallel - tt.is
			if got := share(opposite); got > tt.wrong {
				t.Errorf("taken to be %v after %.4f of the calls, want at most %.4f", opposite, got, tt.wrong)
			}
		})
	}
}

// A server that works on two calls at a time is neither: mostly it gets one guess
// at a time.
func TestConcurrencyNeither(t *testing.T) {
	var seen [3]int
	for seed := range uint64(50) {
		calls := traffic(rand.New(rand.NewPCG(seed, 1)), 200, 0.25)
		two(calls)
		d := speculate.New(speculate.Options{})
		watchConcurrency(d, calls, upstream, func(*work) { seen[d.Concurrency(upstream)]++ })
	}
	if got := float64(seen[speculate.Parallel]) / float64(seen[0]+seen[1]+seen[2]); got > 0.2 {
		t.Errorf("taken to be parallel after %.2f of the calls", got)
	}
}

// A server that is restarted with more or fewer workers is soon known anew.
func TestConcurrencyChanges(t *testing.T) {
	calls := traffic(rand.New(rand.NewPCG(1, 2)), 600, 0.25)
	third := len(calls) / 3
	for i, run := range []server{inLine, sideBySide, inLine} {
		part := calls[i*third : (i+1)*third]
		run(part)
	}
	d := speculate.New(speculate.Options{})
	n := 0
	watchConcurrency(d, calls[:3*third], upstream, func(*work) {
		n++
		want := []speculate.Concurrency{speculate.Serial, speculate.Parallel, speculate.Serial}[(n-1)/third]
		if got := d.Concurrency(upstream); n%third == third-1 && got != want {
			t.Errorf("after %d calls: got %v, want %v", n, got, want)
		}
	})
}

// overlap is two calls, the second of a tool that takes 100 ms and while the first
// is under way. Times are in ms.
type overlap struct{ began2, ended1, ended2 int }

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// alone shows the scheduler what a tool takes on its own.
func alone(d *speculate.Scheduler, tool string, ms int) {
	for id := range uint64(3) {
		d.Began(upstream, 1000+id, tool, false, at(0))
		d.Ended(upstream, 1000+id, at(ms))
	}
}

func TestConcurrencyEvidence(t *testing.T) {
	const usual = 100
	for _, tt := range []struct {
		name string
		o    overlap
		want speculate.Concurrency
	}{
		{"stood in line", overlap{10, 100, 200}, speculate.Serial},
		{"stood in line, and was slow", overlap{10, 100, 245}, speculate.Serial},
		{"stood in line, and was quick", overlap{10, 100, 165}, speculate.Serial},
		{"side by side", overlap{10, 100, 110}, speculate.Parallel},
		{"side by side, and slow", overlap{10, 100, 130}, speculate.Parallel},
		{"at the same time", overlap{0, 100, 100}, speculate.Parallel},
		{"overtook", overlap{10, 200, 110}, speculate.Parallel},
		{"overtook by a hair", overlap{10, 115, 110}, speculate.Unknown},
		{"took less than it can, just after another", overlap{10, 60, 62}, speculate.Unknown},
		{"was refused at once", overlap{10, 100, 12}, speculate.Unknown},
		{"hardly overlapped", overlap{90, 100, 200}, speculate.Unknown},
		{"took far too long", overlap{10, 100, 900}, speculate.Unknown},
		{"shared a processor", overlap{0, 200, 200}, speculate.Unknown},
		{"did not overlap", overlap{100, 100, 200}, speculate.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := speculate.New(speculate.Options{})
			alone(d, "t", usual)
			for n := range 2 {
				tt.o.play(d, n, "t")
			}
			if got := d.Concurrency(upstream); got != speculate.Unknown {
				t.Errorf("after two: got %v, which they are not enough for", got)
			}
			for n := range 10 {
				tt.o.play(d, 2+n, "t")
				if got := d.Concurrency(upstream); got != tt.want {
					t.Fatalf("after %d: got %v, want %v", n+3, got, tt.want)
				}
			}
		})
	}
}

// play shows the scheduler the two calls, in the nth minute.
func (o overlap) play(d *speculate.Scheduler, n int, second string) {
	at := func(ms int) time.Time { return at(60_000*n + ms) }
	d.Began(upstream, 1, "any", false, at(0))
	d.Began(upstream, 2, strings.TrimSuffix(second, " cut"), false, at(o.began2))
	if strings.HasSuffix(second, " cut") {
		d.Cut(upstream, 2)
	}
	ends := []struct {
		id uint64
		ms int
	}{{1, o.ended1}, {2, o.ended2}}
	if o.ended2 < o.ended1 {
		ends[0], ends[1] = ends[1], ends[0]
	}
	for _, e := range ends {
		d.Ended(upstream, e.id, at(e.ms))
	}
}

// Nothing is said of how an upstream works by a call whose usual time is not
// known, or that was given up.
func TestConcurrencySaysNothing(t *testing.T) {
	for _, second := range []string{"unheard of", "t cut", "t"} {
		for _, o := range []overlap{{10, 100, 200}, {10, 100, 110}, {10, 100, 100}, {10, 300, 110}} {
			d := speculate.New(speculate.Options{})
			alone(d, "t", 100)
			for n := range 4 {
				o.play(d, n, second)
			}
			if got := d.Concurrency(upstream); (got == speculate.Unknown) == (second == "t") {
				t.Errorf("%s, %v: got %v", second, o, got)
			}
		}
	}
}

// After a call that was given up the upstream may be at it: what comes then says
// nothing, and teaches no usual time.
func TestAbandoned(t *testing.T) {
	d := speculate.New(speculate.Options{})
	for i := range 10 {
		d.Began(upstream, 1, "t", false, at(1000*i))
		d.Cut(upstream, 1)
		d.Ended(upstream, 1, at(1000*i+1))
		d.Began(upstream, 2, "t", false, at(1000*i+2))
		d.Ended(upstream, 2, at(1000*i+190)) // 90 of them for the first
	}
	for n := range 3 {
		overlap{10, 190, 200}.play(d, 1+n, "t") // would be parallel, if 190 were usual
	}
	if got := d.Concurrency(upstream); got != speculate.Unknown {
		t.Errorf("got %v", got)
	}
}

// An upstream that never is idle, as many share it: of each round of three calls
// the last overtakes the second, soon after the end of the first.
func TestConcurrencyNeverIdle(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		first, began2, ended3 int    // ms, in rounds of 150; the third begins at 80
		tool                  string // of the third; "": another one each time
		want                  speculate.Concurrency
	}{
		{"overtakes", 100, 50, 101, "u", speculate.Parallel},
		{"does not overtake one that began at the same time", 100, 79, 101, "u", speculate.Unknown},
		{"overtakes, and as long after another as usual", 100, 50, 130, "u", speculate.Unknown},
		{"overtakes, and none has ended", 60, 50, 120, "u", speculate.Unknown},
		{"overtakes, and it is not known what is usual", 100, 50, 101, "", speculate.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := speculate.New(speculate.Options{})
			id := uint64(0)
			call := func(tool string, from, to int) {
				id++
				d.Began(upstream, id, tool, false, at(from))
				d.Ended(upstream, id, at(to))
			}
			d.Began(upstream, 1000, "z", false, at(-1))
			for i := range 10 {
				call("u", i*50, i*50+40) // what is usual
			}
			for n := range 3 {
				now := 1000 + 150*n
				first, second, third := uint64(2000+3*n), uint64(2001+3*n), uint64(2002+3*n)
				at := func(ms int) time.Time { return at(now + ms) }
				d.Began(upstream, first, "z", false, at(0))
				if n == 0 {
					d.Ended(upstream, 1000, at(1))
				} else {
					d.Ended(upstream, second-3, at(5))
				}
				begins := []struct {
					id uint64
					at int
				}{{second, tt.began2}, {third, 80}}
				if tt.first < 80 {
					d.Began(upstream, second, "z", false, at(tt.began2))
					d.Ended(upstream, first, at(tt.first))
					begins = begins[1:]
				}
				for _, b := range begins {
					tool := "z"
					if b.id == third {
						tool = cmp.Or(tt.tool, fmt.Sprint(n))
					}
					d.Began(upstream, b.id, tool, false, at(b.at))
				}
				if tt.first > 80 {
					d.Ended(upstream, first, at(tt.first))
				}
				d.Ended(upstream, third, at(tt.ended3))
			}
			d.Began(upstream, 3000, "z", false, at(1450))
			d.Ended(upstream, 2007, at(1455))
			if got := d.Concurrency(upstream); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Times are taken before they are told, on any goroutine: they come in any order.
func FuzzConcurrency(f *testing.F) {
	f.Add([]byte("\x00\x10\x40\x10\x80\x50\x40\x60"))
	// A call given up, one long after, and one told of late.
	f.Add([]byte("\x00\x10\x81\x00\x40\x20\x00\xff\x40\xff\x00\x20\x40\x30"))
	f.Fuzz(func(t *testing.T, story []byte) {
		d := speculate.New(speculate.Options{})
		s := d.Session("")
		for ; len(story) >= 2; story = story[2:] {
			id, now := uint64(story[0]>>1&7), at(int(story[1])*100)
			tool := fmt.Sprint(id & 1)
			switch story[0] >> 6 {
			case 0:
				d.Began(upstream, id, tool, story[0]&1 == 1, now)
			case 1:
				d.Ended(upstream, id, now)
			case 2:
				d.Cut(upstream, id)
				if story[0]&1 == 1 {
					d.Ended(upstream, id, now)
				}
			case 3:
				b := newBet(int(id))
				b.key.Tool = tool
				s.Start(t.Context(), now, b.guess())
				if story[0]&1 == 1 {
					s.Preempt(upstream)
					s.Done(b.key, now)
				}
			}
			if slots, _, _ := s.Room(host, upstream); slots < 0 || slots > 3 {
				t.Fatalf("got room for %d", slots)
			}
			if got := d.Followed(upstream); got > 8 {
				t.Fatalf("%d calls are followed, of 8", got)
			}
		}
		if got := d.Stats().Harm.ForegroundWaitMS; got < 0 {
			t.Fatalf("got %v ms of harm", got)
		}
		s.End()
	})
}

// Calls whose end is never told do not pile up.
func TestConcurrencyForgets(t *testing.T) {
	d := speculate.New(speculate.Options{})
	for i := range 1000 {
		d.Began(upstream, uint64(i), "t", false, at(i))
		d.Began(upstream, uint64(i), "t", false, at(i)) // the same again
	}
	if got := d.Followed(upstream); got != 64 {
		t.Errorf("got %d", got)
	}
	d.Ended(upstream, 0, at(2000))
	d.Ended(upstream, 999, at(2000))
	if got := d.Followed(upstream); got != 63 {
		t.Errorf("got %d", got)
	}
	d.Gone(upstream)
	for range 2 {
		d.Began(upstream, 1, "t", false, at(0))
	}
	if got := d.Followed(upstream); got != 1 {
		t.Errorf("of one that was told twice: got %d", got)
	}
}

// Where it is known how long a call takes that was given up, the upstream is not
// suspected of it for longer.
func TestAbandonedGone(t *testing.T) {
	d := speculate.New(speculate.Options{})
	alone(d, "t", 100)
	for n := range 3 {
		now := at(1000 * n)
		d.Began(upstream, 1, "t", false, now)
		d.Cut(upstream, 1)
		d.Ended(upstream, 1, now.Add(10*time.Millisecond))
		now = now.Add(201 * time.Millisecond)
		d.Began(upstream, 2, "any", false, now)
		d.Began(upstream, 3, "t", false, now)
		d.Ended(upstream, 2, now.Add(100*time.Millisecond))
		d.Ended(upstream, 3, now.Add(200*time.Millisecond))
	}
	if got := d.Concurrency(upstream); got != speculate.Serial {
		t.Errorf("got %v", got)
	}
}

// TestConcurrencyHarm: what real calls waited for guesses at a serial upstream is counted
// as the simulation knows it.
func TestConcurrencyHarm(t *testing.T) {
	for _, noise := range []float64{0, 0.5} {
		calls := traffic(rand.New(rand.NewPCG(3, 4)), 500, noise)
		inLine(calls)
		d := speculate.New(speculate.Options{})
		before, known, harmed, missed := 0.0, false, 0, 0
		watchConcurrency(d, calls, upstream, func(c *work) {
			got := d.Stats().Harm.ForegroundWaitMS - before
			before += got
			want := 0.0
			for _, g := range calls {
				if g.guess && !c.guess && g.ends < c.ends {
					want += 1000 * max(0, g.ends-max(c.arrives, g.ends-g.takes))
				}
			}
			switch {
			case !known:
			case math.Abs(got-want) < 0.01:
				if want > 0 {
					harmed++
				}
			case got == 0: // it looked as if they had been side by side
				missed++
			default:
				t.Errorf("noise %v: got %.3f ms, want %.3f", noise, got, want)
			}
			known = d.Concurrency(upstream) == speculate.Serial
		})
		if harmed < 20 || noise == 0 && missed > 0 || missed > harmed/10 {
			t.Errorf("noise %v: %d waits were counted, and %d were not", noise, harmed, missed)
		}
	}
}

// No wait is counted where calls are worked on side by side, however much they vary in how
// long they take.
func TestConcurrencyNoHarm(t *testing.T) {
	for _, noise := range []float64{0, 0.3, 0.6, 1} {
		harmed := 0
		for seed := range uint64(20) {
			calls := traffic(rand.New(rand.NewPCG(seed, 4)), 150, noise)
			sideBySide(calls)
			d := speculate.New(speculate.Options{})
			watchConcurrency(d, calls, upstream, func(*work) {})
			if d.Stats().Harm.ForegroundWaitMS > 0 {
				harmed++
			}
		}
		if harmed > 1 {
			t.Errorf("noise %v: in %d runs of 20 a wait is counted", noise, harmed)
		}
	}
}

func TestGone(t *testing.T) {
	d := speculate.New(speculate.Options{})
	teach(d, upstream, speculate.Parallel)
	d.Began(upstream, 5, "t", false, at(0))
	d.Gone(upstream)
	d.Ended(upstream, 5, at(1))
	if got := d.Concurrency(upstream); got != speculate.Unknown {
		t.Errorf("got %v", got)
	}
	if _, lines, _ := d.Remembered(); lines != 0 {
		t.Errorf("got %d lines", lines)
	}
}

// teach shows the scheduler what an upstream is like, an hour before the test.
func teach(d *speculate.Scheduler, upstream uint64, l speculate.Concurrency) {
	at := func(ms int) time.Time { return at(ms).Add(-time.Hour) }
	for i, o := range []overlap{{0, 100, 0}, {0, 100, 0}, {0, 100, 0}, {0, 100, 100}, {0, 100, 100}, {0, 100, 100}} {
		id := uint64(1e6 + 2*i)
		d.Began(upstream, id, "taught", false, at(0))
		if i > 2 {
			d.Began(upstream, id+1, "taught", false, at(0))
		}
		d.Ended(upstream, id, at(o.ended1))
		if l == speculate.Serial {
			o.ended2 += 100
		}
		d.Ended(upstream, id+1, at(o.ended2))
	}
	if got := d.Concurrency(upstream); got != l {
		panic(fmt.Sprintf("taught to be %v, is taken for %v", l, got))
	}
}
