package speculate_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

// modelScheduler computes the scheduler's state from the lists of all its events (see levelAfter).
// Its upstream is parallel.
type modelScheduler struct {
	scheduler *speculate.Scheduler
	opt       speculate.Slots
	hosts     map[string]*modelThrottle
	sessions  []*modelSession
	seen      map[string]int // what has come to pass
	blame     string         // the first difference
}

type modelThrottle struct{ all []event }

func (m *modelThrottle) level() int  { level, _, _ := levelAfter(m.all); return level }
func (m *modelThrottle) era() int    { _, era, _ := levelAfter(m.all); return era }
func (m *modelThrottle) labels() int { _, _, labels := levelAfter(m.all); return labels }

type modelSession struct {
	*speculate.SessionClaims
	modelThrottle
	prefetches []*modelPrefetch
	watched    []*modelWatch
	ended      bool
}

type modelPrefetch struct {
	*bet
	holds, out, asked, dropped, overdue, settled bool // out: the call has not returned
	until                                        time.Time
	hostEra, era                                 int
}

type modelWatch struct {
	key          call.Key
	host         string
	until        time.Time
	hostEra, era int
}

func (d *modelScheduler) host(name string) *modelThrottle {
	if d.hosts[name] == nil {
		d.hosts[name] = &modelThrottle{}
	}
	return d.hosts[name]
}

func (d *modelScheduler) underWay() (n int) {
	for _, s := range d.sessions {
		n += s.holding("")
	}
	return n
}

// holding returns the number of slots that the session holds at a host; "" for any host.
func (s *modelSession) holding(host string) (n int) {
	for _, g := range s.prefetches {
		if g.holds && (host == "" || g.host == host) {
			n++
		}
	}
	return n
}

// room computes what Room must return.
func (d *modelScheduler) room(s *modelSession, host string) (slots int, watch bool) {
	share := func(level int) int {
		switch level {
		case 0, 1:
			return 1
		case 2:
			return max(1, d.opt.PerSession/2)
		}
		return d.opt.PerSession
	}
	own, there := s.level(), d.host(host).level()
	switch {
	case s.ended:
		return 0, false
	case min(own, there) == 0:
		return 1, true
	}
	return max(0, min(d.opt.Total-d.underWay(), share(own)-s.holding(""), share(min(own, there))-s.holding(host))), false
}

func (d *modelScheduler) start(s *modelSession, k int, host string, begins bool) {
	b := &bet{key: key(k), host: host}
	want, watch := enrich.Reason(""), false
	slots, watch := d.room(s, host)
	switch out := slices.ContainsFunc(s.prefetches, func(g *modelPrefetch) bool { return g.out && g.key == b.key }); {
	case s.ended:
		want = "closed"
	case out:
		want = "in_flight"
	case watch:
		want = "throttled"
	case slots == 0:
		want = "cap"
	}
	got := enrich.Reason("")
	if begins {
		got = b.start(context.Background(), s.SessionClaims)
	} else if got = s.Start(context.Background(), lease, b.key, b.host, false, notBegun); got == "not begun" {
		got = ""
	}
	if got != want {
		d.fail("start: got %q, want %q", got, want)
	}
	d.seen["start "+string(want)]++
	if want == "" && begins {
		s.prefetches = append(s.prefetches, &modelPrefetch{
			bet: b, holds: true, out: true, until: time.Now().Add(d.opt.Deadline),
			hostEra: d.host(host).era(), era: s.era(),
		})
		s.all = append(s.all, event{kind: 's'})
		h := d.host(host)
		h.all = append(h.all, event{kind: 's'})
	}
}

func notBegun(*speculate.Claim) (func() call.Fate, enrich.Reason) { return nil, "not begun" }

// label records the outcome of a prefetch.
func (d *modelScheduler) label(s *modelSession, host string, hostEra, era int, kind rune) {
	h := d.host(host)
	h.all = append(h.all, event{kind, hostEra})
	if !s.ended {
		s.all = append(s.all, event{kind, era})
	}
}

// settle counts known fates; with last, also pending ones.
func (d *modelScheduler) settle(s *modelSession, last bool) {
	for _, g := range s.prefetches {
		fate := call.Fate(g.fate.Load())
		if fate == call.Pending && last {
			if fate = call.Wasted; g.asked {
				fate = call.Late
			}
		}
		if g.settled || fate == call.Pending {
			continue
		}
		g.settled = true
		if fate == call.Compared {
			d.seen["compared"]++
			continue
		}
		kind := map[call.Fate]rune{call.Ready: 'u', call.Late: 'l', call.Wasted: 'w'}[fate]
		d.label(s, g.host, g.hostEra, g.era, kind)
		d.seen["label "+string(kind)]++
	}
}

// lose counts the lost watched claims as wasted.
func (d *modelScheduler) lose(s *modelSession, lost func(*modelWatch) bool) {
	s.watched = slices.DeleteFunc(s.watched, func(w *modelWatch) bool {
		if lost(w) {
			d.labelWatched(s, w, 'w')
		}
		return lost(w)
	})
}

func (d *modelScheduler) labelWatched(s *modelSession, w *modelWatch, kind rune) {
	if h := d.host(w.host); h.level() == 0 {
		h.all = append(h.all, event{kind, w.hostEra})
		d.seen["watched "+string(kind)]++
	}
	if s.level() == 0 && !s.ended {
		s.all = append(s.all, event{kind, w.era})
	}
}

func (d *modelScheduler) expire(s *modelSession) {
	d.lose(s, func(w *modelWatch) bool { return time.Now().After(w.until) })
}

// op is an operation on a scheduler.
type op struct {
	what    string
	session int // 0 is the session that began last
	key     int
	host    string
	n       int // parameter of the operation
}

func drawOp(t *rapid.T) op {
	return op{
		what: rapid.SampledFrom([]string{
			"start", "start", "start", "start", "start", "start", "refused", "done", "done", "done",
			"fate", "fate", "fate", "fate", "fate", "review", "review", "asked", "asked", "watch", "watch", "watch",
			"void", "drop unless", "harm", "harm", "sleep", "end", "configure",
		}).Draw(t, "what"),
		session: rapid.IntRange(0, 3).Draw(t, "session"),
		key:     rapid.IntRange(0, 5).Draw(t, "key"),
		host:    rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host"),
		n:       rapid.IntRange(0, 11).Draw(t, "n"),
	}
}

// fail records the first difference.
func (d *modelScheduler) fail(format string, args ...any) {
	if d.blame == "" {
		d.blame = fmt.Sprintf(format, args...)
	}
}

// step runs an operation on the scheduler and the model.
func (d *modelScheduler) step(o op) {
	s := d.sessions[max(0, len(d.sessions)-1-o.session)]
	k, host := o.key, o.host
	switch o.what {
	case "start":
		d.start(s, k, host, true)
	case "refused":
		d.start(s, k, host, false)
	case "done":
		for _, g := range s.prefetches {
			if g.key == key(k) {
				g.claim.Done()
				g.holds, g.out = false, false
			}
		}
	case "fate":
		fate := []call.Fate{call.Ready, call.Late, call.Wasted, call.Wasted, call.Ready, call.Compared}[o.n%6]
		for _, g := range s.prefetches {
			if g.key == key(k) && call.Fate(g.fate.Load()) == call.Pending {
				g.fate.Store(int64(fate))
			}
		}
	case "review":
		s.Review(time.Now())
		d.expire(s)
		d.settle(s, false)
	case "asked":
		s.Called(time.Now(), key(k))
		d.expire(s)
		d.settle(s, false)
		for _, other := range d.sessions {
			for _, g := range other.prefetches {
				g.asked = g.asked || g.holds && g.key == key(k)
			}
		}
		s.watched = slices.DeleteFunc(s.watched, func(w *modelWatch) bool {
			if w.key == key(k) {
				d.labelWatched(s, w, 'u')
			}
			return w.key == key(k)
		})
	case "watch":
		s.Shadow(time.Now(), key(k), nil, host, time.Second)
		d.expire(s)
		d.settle(s, false)
		if !s.ended && !slices.ContainsFunc(s.watched, func(w *modelWatch) bool { return w.key == key(k) }) {
			s.watched = append(s.watched, &modelWatch{key(k), host, time.Now().Add(time.Second), d.host(host).era(), s.era()})
		}
	case "void":
		s.Invalidate(func(other call.Key, _ []call.Place) bool { return other == key(k) })
		d.lose(s, func(w *modelWatch) bool { return w.key == key(k) })
	case "drop unless":
		s.DropUnless(start, func(other call.Key) bool { return other != key(k) })
		for _, g := range s.prefetches {
			if g.holds && g.key == key(k) && !g.asked && !g.dropped && !g.settled {
				g.dropped = true
			}
		}
	case "harm":
		what := []speculate.Harm{speculate.RateLimited, speculate.Eviction, speculate.Question}[o.n%3]
		d.scheduler.Harm(host, s.SessionClaims, what, 0)
		if h := d.host(host); what != speculate.Question {
			h.all = append(h.all, event{kind: 'h'})
		}
		if !s.ended {
			s.all = append(s.all, event{kind: 'h'})
		}
	case "sleep":
		time.Sleep(time.Duration(1+o.n) * 100 * time.Millisecond)
		synctest.Wait()
		for _, s := range d.sessions {
			for _, g := range s.prefetches {
				if g.holds && !time.Now().Before(g.until) {
					g.holds, g.overdue = false, true
				}
			}
		}
	case "end":
		if o.n < 2 {
			d.end(s)
			d.sessions = append(d.sessions, &modelSession{SessionClaims: d.scheduler.NewClaims("")})
		}
	case "configure":
		d.opt.PerSession = 1 + o.n%4
		d.opt.Total = 1 + o.n/2
		d.scheduler.Configure(d.opt)
	}
}

func (d *modelScheduler) end(s *modelSession) {
	s.End()
	if !s.ended {
		d.lose(s, func(*modelWatch) bool { return true })
		s.ended = true
		d.settle(s, true)
	}
	for _, g := range s.prefetches {
		g.holds, g.out = false, false
	}
}

// check compares the model with everything that the scheduler reports.
func (d *modelScheduler) check() {
	st := d.scheduler.Stats()
	if want := d.underWay(); st.UnderWay != want {
		d.fail("got %d slots taken, want %d", st.UnderWay, want)
	}
	for i, s := range d.sessions {
		if got, want := [2]int{s.Level(), s.Labels()}, [2]int{s.level(), s.labels()}; !s.ended && got != want {
			d.fail("session %d: got level and labels %d, want %d", i, got, want)
		}
		for _, g := range s.prefetches {
			live := g.claim.Context.Err() == nil
			if want := !s.ended && !g.dropped && !g.settled && !g.overdue; live != want {
				d.fail("session %d: prefetch %s: its context lives: %v, want %v", i, g.key.Arguments, live, want)
			}
		}
		for _, host := range []string{"a", "b"} {
			want, watch := d.room(s, host)
			if got := s.Room(start, host, lease); got.Slots != want || got.Shadow != watch {
				d.fail("session %d at %s: got %+v, want %d, %v", i, host, got, want, watch)
			}
		}
	}
	for name, level := range st.Hosts {
		if got, want := [2]int{level, d.scheduler.Labels(name)}, [2]int{d.host(name).level(), d.host(name).labels()}; got != want {
			d.fail("%s: got level and labels %d, want %d", name, got, want)
		}
		d.seen[fmt.Sprint("host level ", level)]++
	}
}

// play runs a history, and ends every session.
func (d *modelScheduler) play(history []op) {
	for range 3 {
		d.sessions = append(d.sessions, &modelSession{SessionClaims: d.scheduler.NewClaims("")})
	}
	for _, o := range history {
		if d.step(o); d.blame != "" {
			return
		}
		d.check()
	}
	for _, s := range d.sessions {
		d.end(s)
	}
	d.check()
	if n := d.underWay(); n != 0 {
		d.fail("%d slots are left", n)
	}
	time.Sleep(time.Minute) // a deadline that was not stopped would now change the counts
	synctest.Wait()
	d.check()
}

func TestModel(t *testing.T) {
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		if err := flag.Set("rapid.checks", "3000"); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(rapid.Custom(drawOp), 200, 600).Draw(rt, "history")
		var blame string
		bubble.Test(t, func(t *testing.T) {
			o := speculate.Slots{PerSession: 3, Total: 5, Deadline: 2 * time.Second}
			d := &modelScheduler{scheduler: newScheduler(o), opt: o, hosts: make(map[string]*modelThrottle), seen: seen}
			d.play(history)
			blame = d.blame
		})
		if blame != "" {
			rt.Fatal(blame)
		}
	})
	for _, what := range []string{
		"start ", "start closed", "start in_flight", "start throttled", "start cap",
		"label u", "label l", "label w", "compared", "watched u", "watched w",
		"host level 0", "host level 1", "host level 2", "host level 3",
	} {
		if seen[what] == 0 && !t.Failed() {
			t.Errorf("no history had %q: the test proves nothing about it", what)
		}
	}
	t.Log(seen)
}
