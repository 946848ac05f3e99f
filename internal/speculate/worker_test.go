package speculate_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// shelf is an upstream with a list and items. After each list the first item is likely.
type shelf struct {
	models map[string]*valuemodel.Model
	hold   chan struct{} // if not nil, Tool blocks until it is closed
	takes  time.Duration
	begun  atomic.Int64

	untrusted bool   // only annotations declare its tools read-only
	host      string // of its prefetches
}

func newShelf(t testing.TB) *shelf {
	t.Helper()
	binding, err := valuemodel.ParseBinding("$args.page")
	if err != nil {
		t.Fatal(err)
	}
	models, problems := valuemodel.Compile([]valuemodel.Rule{
		{Pattern: "up/get", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly}},
		{Pattern: "up/list", Source: "test", Layer: valuemodel.Layer{
			Class:     valuemodel.ReadOnly,
			FollowUps: []valuemodel.FollowUp{{Tool: "get", Probability: 0.9, Max: 1, Args: map[string]valuemodel.Binding{"n": binding}}},
		}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := &shelf{models: make(map[string]*valuemodel.Model), takes: time.Second, host: host}
	for _, name := range s.Tools() {
		s.models[name] = models.Resolve(valuemodel.Upstream{Name: "up"}, name, valuemodel.Hints{})
	}
	return s
}

func (s *shelf) Tools() []string        { return []string{"list", "get"} }
func (s *shelf) Host() string           { return host }
func (s *shelf) NoteNothingToPrefetch() {}

func (s *shelf) Tool(name string) predict.Tool {
	if s.hold != nil {
		<-s.hold
	}
	return predict.Tool{Model: s.models[name], Annotated: s.untrusted}
}

func (s *shelf) MayPrefetch(c *predict.Candidate) speculate.Eligibility {
	return speculate.Eligibility{Query: dedup.Query{Key: call.Key{Upstream: 1, Scope: "s", Tool: c.Key.Tool, Arguments: c.Key.Arguments}}, Host: s.host}
}

func (s *shelf) Fetch(_ context.Context, f *speculate.Fetch) (func() call.Fate, enrich.Reason) {
	s.begun.Add(1)
	time.AfterFunc(s.takes, func() { f.Done(speculate.FetchResult{Body: []byte(`{}`), Good: true}) })
	return func() call.Fate { return call.Pending }, ""
}

// fixture is a worker and its decisions.
type fixture struct {
	*speculate.Worker
	rules     speculate.Rules
	decisions []record.Event
	waited    time.Duration // returned by Setup.ReadWait for the host waits
	waits     string
	calls     int
}

func newFixture() *fixture { return newFixtureWith(slog.New(slog.DiscardHandler)) }

func newFixtureWith(log *slog.Logger) *fixture {
	d := &fixture{waits: host, rules: speculate.Rules{Mode: "on", MaxAge: time.Hour, Budget: 8000, MinProbability: 0.3, Waste: 50 * time.Millisecond}}
	d.Worker = speculate.NewWorker(speculate.Setup{
		Log: log, Rules: func() *speculate.Rules { return &d.rules },
		ReadWait: func(host string) (total, unread time.Duration) {
			if host != d.waits {
				return 0, 0
			}
			return d.waited, 0
		},
		Decided: func(e record.Event) {
			e.Declined = maps.Clone(e.Declined)
			d.decisions = append(d.decisions, e)
		},
		Removed: func(string) bool { return false },
	})
	return d
}

// client returns a session of the worker.
func (d *fixture) client(t testing.TB, name string) *speculate.Session {
	return &speculate.Session{Name: name, ID: uint64(len(name)), Context: t.Context()}
}

func at1(s *shelf) *speculate.Lease {
	return &speculate.Lease{Name: "up", Key: "up", Instance: 1, Remote: true, Source: s}
}

// asks makes a call and gives its answer.
func (d *fixture) asks(c *speculate.Session, lease *speculate.Lease, tool, arguments string) {
	d.calls++
	one := &speculate.Call{Session: c, Lease: lease, Seq: int64(d.calls), At: time.Now(), Turn: d.calls, Tool: tool, Arguments: []byte(arguments), Host: host}
	one.Key = call.Key{Upstream: 1, Scope: "s", Tool: tool, Arguments: arguments}
	d.Called(one)
	d.Answered(one, speculate.Result{At: time.Now(), Complete: true, Body: []byte(`{"content":[]}`)}, nil)
}

// TestWorkerLearnsForAsLongAsAnswersServe: once an upstream is exclusive, so that prefetched answers serve
// for longer, calls that come later count as predicted, too.
func TestWorkerLearnsForAsLongAsAnswersServe(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, lease := newFixture(), at1(newShelf(t))
		d.rules.MaxAge, d.rules.Learn = 30*time.Second, true
		var kept speculate.State
		lease.Storage = func(merge func(speculate.State) (speculate.State, error)) (err error) {
			kept, err = merge(kept)
			return err
		}
		exclusive := *lease
		exclusive.Exclusive = true
		c := d.client(t, "one")
		d.asks(c, lease, "list", `{"page":1}`)
		for n := range 12 {
			d.asks(c, &exclusive, "list", fmt.Sprintf(`{"page":%d}`, 100+n))
			time.Sleep(time.Minute)
			d.asks(c, &exclusive, "get", fmt.Sprintf(`{"n":%d}`, 100+n))
			time.Sleep(time.Second)
		}
		d.Close()
		m := predict.New(predict.Options{})
		if _, err := m.Merge(kept); err != nil {
			t.Fatal(err)
		}
		follows := m.LearnedFollowUps()
		for _, f := range follows {
			if f.Trigger == "list" && f.Tool == "get" && f.Ranks[0].Right > 5 {
				return
			}
		}
		t.Errorf("got %+v, want that list is followed by get", follows)
	})
}

// TestWorkerLearnsAfterTheEnd: calls that are handled after their session's context has ended are
// learned from, and calls after the session's end are not observed.
func TestWorkerLearnsAfterTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, lease := newFixture(), at1(newShelf(t))
		var kept speculate.State
		lease.Storage = func(merge func(speculate.State) (speculate.State, error)) (err error) {
			kept, err = merge(kept)
			return err
		}
		c := d.client(t, "one")
		var end func()
		c.Context, end = context.WithCancel(c.Context)
		d.asks(c, lease, "get", `{"n":7}`)
		end()
		d.SessionEnded(c, func() {})
		d.asks(c, lease, "list", `{}`)
		d.Save()
		if got := string(kept.Server); !strings.Contains(got, "\x03get") || strings.Contains(got, "\x04list") {
			t.Errorf("learned from %q, want only get", got)
		}
		if d.Called(&speculate.Call{Session: c, Lease: lease, At: time.Now(), Tool: "get"}) {
			t.Error("the session is still observed")
		}
		d.Close()
	})
}

// TestWorkerDecidesOfAllBeforeItReports: a decision is reported only when none of its candidates
// waits for a slot any more, so that the event counts each candidate and never changes. Other rules
// change no decision.
func TestWorkerDecidesOfAllBeforeItReports(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.takes = 10 * time.Hour
		list := s.models["list"]
		for i := range 3 {
			binding, err := valuemodel.ParseBinding(fmt.Sprintf("$args.also%d", i))
			if err != nil {
				t.Fatal(err)
			}
			list.FollowUps = append(list.FollowUps, valuemodel.FollowUp{Tool: "get", Probability: 0.9, Max: 1, Args: map[string]valuemodel.Binding{"n": binding}})
		}
		d, lease := newFixture(), at1(s)
		d.rules.PerSession = 1
		c := d.client(t, "one")
		for i := range 3 {
			d.rules.ShadowLabels = i / 2 // the last answer comes under other rules
			d.asks(c, lease, "list", `{"page":1,"also0":2,"also1":3,"also2":4}`)
			time.Sleep(2 * time.Hour) // longer than any answer is served
			synctest.Wait()           // before the rules change
		}
		d.SessionEnded(c, func() {})
		d.Close()
		if len(d.decisions) != 3 {
			t.Errorf("got %d decisions, want 3", len(d.decisions))
		}
		for _, e := range d.decisions {
			decided := e.Issued
			for _, n := range e.Declined {
				decided += n
			}
			if decided != e.Candidates {
				t.Errorf("%d of %d candidates had been decided when the decision was reported", decided, e.Candidates)
			}
		}
	})
}

// TestWorkerBeginsAtTheNewestInstance: a candidate that waits for the slot of a prefetch begins at the
// instance of the last call, also if the prefetch was sent to an earlier one.
func TestWorkerBeginsAtTheNewestInstance(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, before, after := newFixture(), newShelf(t), newShelf(t)
		d.rules.PerSession = 1
		d.Scheduler.Configure(d.rules.Slots())
		c, restarted := d.client(t, "one"), at1(after)
		restarted.Instance = 2
		d.asks(c, at1(before), "list", `{"page":1}`)
		time.Sleep(before.takes / 2)
		d.asks(c, restarted, "list", `{"page":2}`)
		time.Sleep(time.Minute)
		if there, here := before.begun.Load(), after.begun.Load(); there != 1 || here == 0 {
			t.Errorf("%d prefetches begun at the earlier instance and %d at the newest, want 1 and some", there, here)
		}
		d.SessionEnded(c, func() {})
		d.Close()
	})
}

// TestWorkerHearsOfEveryWrite: a write that is not observed, because the queue is full, makes
// predictions stale as well.
func TestWorkerHearsOfEveryWrite(t *testing.T) {
	for _, writes := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			d, s := newFixture(), newShelf(t)
			c, lease := d.client(t, "one"), at1(s)
			d.asks(c, lease, "list", `{"page":1}`)
			synctest.Wait()
			s.hold = make(chan struct{})
			for i := range 5000 { // more than it takes
				if !d.Called(&speculate.Call{Session: c, Lease: lease, At: time.Now(), Tool: "other", Arguments: fmt.Appendf(nil, `{"i":%d}`, i)}) {
					break
				}
			}
			last := &speculate.Call{Session: c, Lease: lease, At: time.Now(), Tool: "other"}
			if writes {
				last.Effect = call.Effect{Places: s.models["get"].Reads(func(string) []byte { return nil })}
			}
			if d.Called(last) {
				t.Fatal("the worker has time")
			}
			close(s.hold)
			synctest.Wait()
			time.Sleep(time.Minute)
			d.asks(c, lease, "get", `{"n":1}`)
			d.SessionEnded(c, func() {})
			d.Close()
			if len(d.decisions) == 0 || len(d.decisions[0].Top) != 1 || d.decisions[0].Top[0].Called == writes {
				t.Errorf("with a write %v: got %+v", writes, d.decisions)
			}
		})
	}
}

// TestWorkerBlamesTheHost: waits for prefetches at a host count against the host, not against the
// session with the next decision.
func TestWorkerBlamesTheHost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, s := newFixture(), newShelf(t)
		ran, other, lease := d.client(t, "ran"), d.client(t, "other"), at1(s)
		d.asks(other, lease, "get", `{"n":7}`) // no candidates follow
		synctest.Wait()
		time.Sleep(time.Second)
		d.asks(ran, lease, "list", `{"page":1}`)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if s.begun.Load() != 1 {
			t.Fatalf("%d prefetches were started, want one", s.begun.Load())
		}
		d.waited = time.Second
		d.asks(other, lease, "get", `{"n":8}`)
		time.Sleep(time.Second)
		synctest.Wait()
		got := make(map[string]int)
		for _, c := range d.Scheduler.Events() {
			if c.Kind == record.Level {
				got[c.Session+c.Host] = c.To
			}
		}
		if len(got) != 1 || got[host] != 2 {
			t.Errorf("got %v, want the host a level lower", got)
		}
		for _, c := range []*speculate.Session{ran, other} {
			d.SessionEnded(c, func() {})
		}
		d.Close()
	})
}

// TestWorkerBlamesTheHostOfTheTool: a tool may have another host than its server. Waits for prefetches
// count against the host that they went to.
func TestWorkerBlamesTheHostOfTheTool(t *testing.T) {
	for name, wait := range map[string]func(d *fixture, c *speculate.Session, lease *speculate.Lease){
		"for a slot": func(d *fixture, _ *speculate.Session, _ *speculate.Lease) { d.waited = time.Second },
		"for the prefetch": func(d *fixture, c *speculate.Session, lease *speculate.Lease) {
			d.Answered(&speculate.Call{Session: c, Lease: lease, Host: "tool.example.com"}, speculate.Result{JoinWait: time.Second}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d, s := newFixture(), newShelf(t)
				s.host = "tool.example.com"
				d.waits = s.host
				c, lease := d.client(t, "one"), at1(s)
				d.asks(c, lease, "list", `{"page":1}`)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				wait(d, c, lease)
				d.asks(c, lease, "list", `{"page":2}`)
				time.Sleep(2 * time.Second)
				if got := d.Scheduler.Stats().Hosts; got[s.host] != 2 || got[host] != speculate.Normal {
					t.Errorf("got levels %v, want only that of the tool's host lower", got)
				}
				d.SessionEnded(c, func() {})
				d.Close()
			})
		})
	}
}

// TestWorkerKeepsConcurrency: the concurrency of a server is stored, so that the next process need
// not estimate it again.
func TestWorkerKeepsConcurrency(t *testing.T) {
	for _, is := range []speculate.Concurrency{speculate.Serial, speculate.Parallel} {
		bubble.Test(t, func(t *testing.T) {
			s, lease := newShelf(t), at1(newShelf(t))
			lease.Source = s
			var kept speculate.State
			lease.Storage = func(merge func(speculate.State) (speculate.State, error)) (err error) {
				kept, err = merge(kept)
				return err
			}
			for process := range 2 {
				d := newFixture()
				c := d.client(t, "one")
				d.asks(c, lease, "get", `{"n":7}`)
				synctest.Wait()
				time.Sleep(time.Second)
				synctest.Wait()
				if process == 0 {
					teach(d.Scheduler, is)
				} else if got := known(d.Scheduler); got != is {
					t.Errorf("got %v, want %v", got, is)
				}
				d.SessionEnded(c, func() {})
				d.Close()
				lease.Instance++
			}
		})
	}
}

// TestWorkerLearnsWhatCallsTakeAlone: the learned latency of a tool excludes waits at a serial
// server. Otherwise its prefetches would seem to delay calls for longer than they do.
func TestWorkerLearnsWhatCallsTakeAlone(t *testing.T) {
	for is, want := range map[speculate.Concurrency]time.Duration{speculate.Serial: time.Second, speculate.Parallel: 3 * time.Second} {
		bubble.Test(t, func(t *testing.T) {
			d, lease := newFixture(), at1(newShelf(t))
			teach(d.Scheduler, is)
			c := d.client(t, "one")
			for n := range 3 {
				one := &speculate.Call{Session: c, Lease: lease, At: time.Now(), Turn: n, Tool: "get", Arguments: fmt.Appendf(nil, `{"n":%d}`, n), Host: host}
				d.Called(one)
				time.Sleep(3 * time.Second)
				d.Answered(one, speculate.Result{At: time.Now(), Complete: true, Body: []byte(`{"content":[]}`), Took: 3 * time.Second, Unloaded: time.Second}, nil)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := d.Tool("up", "get").Usual.Latency.P50; got < want*8/10 || got > want*12/10 {
				t.Errorf("%v: got %v, want about %v", is, got, want)
			}
			d.SessionEnded(c, func() {})
			d.Close()
		})
	}
}

// TestWorkerLearnsWhileItKeeps: the worker observes and decides while it saves. What it learns
// meanwhile is not lost, and a tool that is barred meanwhile is saved again.
func TestWorkerLearnsWhileItKeeps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newShelf(t)
		lease, d := at1(s), newFixture()
		d.rules.Learn = true
		var kept speculate.State
		writes, hold := 0, make(chan struct{})
		lease.Storage = func(merge func(speculate.State) (speculate.State, error)) error {
			next, err := merge(kept)
			if writes++; writes > 1 {
				<-hold
			}
			kept = next
			return err
		}
		c := d.client(t, "one")
		d.asks(c, lease, "get", `{"n":7}`)
		time.Sleep(10 * time.Minute) // the next save has started, and does not end
		synctest.Wait()
		if writes != 2 {
			t.Fatalf("%d saves were started, want two", writes)
		}
		d.asks(c, lease, "list", `{"page":1}`)
		time.Sleep(time.Second)
		synctest.Wait()
		if s.begun.Load() != 1 {
			t.Errorf("%d prefetches during the save, want one", s.begun.Load())
		}
		differs := &speculate.Call{Session: c, Lease: lease, At: time.Now(), Turn: 9, Tool: "get", Arguments: []byte(`{"n":1}`), Host: host}
		d.Called(differs)
		d.Answered(differs, speculate.Result{At: time.Now(), Complete: true, Comparison: dedup.Differs}, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		close(hold)
		time.Sleep(time.Second)
		synctest.Wait()
		model := predict.New(predict.Options{Tool: func(string) predict.Tool { return predict.Tool{Annotated: true} }})
		model.Merge(kept)
		if writes != 3 || model.Barred("get") == "" {
			t.Errorf("saved %d times, want three; barred: %q", writes, model.Barred("get"))
		}
		d.SessionEnded(c, func() {})
		d.Close()
		model.Merge(kept)
		if !slices.Contains(model.ObservedTools(), "list") {
			t.Errorf("saved the tools %v, want list too", model.ObservedTools())
		}
	})
}

// TestWorkersShareTrials: concurrent processes need not repeat each other's comparisons, as each
// comparison is saved at once and read with the next save.
func TestWorkersShareTrials(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var kept speculate.State
		var locked sync.Mutex // simulates the lock of a file
		type process struct {
			*fixture
			lease *speculate.Lease
			c     *speculate.Session
		}
		begin := func() process {
			s := newShelf(t)
			s.untrusted = true
			p := process{newFixture(), at1(s), nil}
			p.rules.Learn, p.rules.ShadowLabels = true, 1
			p.lease.Storage = func(merge func(speculate.State) (speculate.State, error)) (err error) {
				locked.Lock()
				defer locked.Unlock()
				kept, err = merge(kept)
				return err
			}
			p.c = p.client(t, "one")
			for _, page := range []string{"1", "2"} { // the first candidate is only observed
				p.asks(p.c, p.lease, "list", `{"page":`+page+`}`)
				time.Sleep(time.Second)
				synctest.Wait()
				if page == "1" {
					p.asks(p.c, p.lease, "get", `{"n":1}`)
					time.Sleep(time.Second)
				}
			}
			return p
		}
		one, other := begin(), begin()
		if one.Tool("up", "get").Proven || other.Tool("up", "get").Proven {
			t.Fatal("the tool counts as read-only before a comparison")
		}
		tried := &speculate.Call{Session: one.c, Lease: one.lease, At: time.Now(), Turn: 9, Tool: "get", Arguments: []byte(`{"n":2}`), Host: host}
		one.Called(tried)
		one.Answered(tried, speculate.Result{At: time.Now(), Complete: true, Comparison: dedup.Same}, nil)
		time.Sleep(time.Second)
		other.asks(other.c, other.lease, "list", `{"page":3}`)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for name, p := range map[string]process{"that tried it": one, "beside it": other} {
			if !p.Tool("up", "get").Proven {
				t.Errorf("in process %s the tool does not count as read-only", name)
			}
			p.rules.ShadowLabels = 50
			p.UpstreamsChanged()
			p.asks(p.c, p.lease, "list", `{"page":4}`)
			time.Sleep(time.Second)
			if p.Tool("up", "get").Proven {
				t.Errorf("in process %s the tool still counts as read-only when more comparisons are wanted", name)
			}
			p.SessionEnded(p.c, func() {})
			p.Close()
		}
	})
}

// TestWorkerBeginsAnOlderStateAnew: state of an older version is discarded, with one log message.
func TestWorkerBeginsAnOlderStateAnew(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lease, d := at1(newShelf(t)), newFixtureWith(slog.New(slog.NewTextHandler(&log, nil)))
		kept := speculate.State{Server: []byte("00000000 {\"v\":5}\n")}
		lease.Storage = func(merge func(speculate.State) (speculate.State, error)) (err error) {
			kept, err = merge(kept)
			return err
		}
		c := d.client(t, "one")
		for n := range 3 {
			d.asks(c, lease, "get", fmt.Sprintf(`{"n":%d}`, n))
			time.Sleep(10 * time.Minute)
			synctest.Wait()
		}
		d.SessionEnded(c, func() {})
		d.Close()
		if got := strings.Count(log.String(), "want version"); got != 1 {
			t.Errorf("said %d times, want once:\n%s", got, &log)
		}
	})
}
