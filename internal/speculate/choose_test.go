package speculate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// table is a Prefetcher that allows each candidate unless a test says otherwise. The test ends
// the prefetches.
type table struct {
	session  *speculate.SessionClaims
	refusal  func(c *predict.Candidate) enrich.Reason // nil: nothing stands in the way
	file     int                                      // bytes of the file that each call reads
	now      time.Time
	begun    []string // arguments of the prefetches that were started
	claims   []*speculate.Claim
	declined map[string]enrich.Reason // arguments → reason
}

func (w *table) key(arguments string) call.Key {
	return call.Key{Upstream: lease.Instance, Scope: "s", Tool: "get", Arguments: arguments}
}

func (w *table) MayPrefetch(c *predict.Candidate) speculate.Eligibility {
	v := speculate.Eligibility{Query: dedup.Query{Key: w.key(c.Key.Arguments)}, Host: host, FileBytes: w.file}
	if w.refusal != nil {
		v.Reason = w.refusal(c)
	}
	return v
}

func (w *table) Begin(c *predict.Candidate, v *speculate.Eligibility) enrich.Reason {
	return w.session.Start(context.Background(), lease, v.Query.Key, v.Host, false, func(claim *speculate.Claim) (func() call.Fate, enrich.Reason) {
		w.begun, w.claims = append(w.begun, c.Key.Arguments), append(w.claims, claim)
		return func() call.Fate { return call.Pending }, ""
	})
}

func (w *table) Declined(c *predict.Candidate, why enrich.Reason) {
	w.declined[c.Key.Arguments] = why
}

// laid returns a chooser for an upstream of the given concurrency.
func laid(is speculate.Concurrency) (*speculate.Scheduler, *speculate.Chooser, *table) {
	d := speculate.NewScheduler(speculate.Slots{})
	if is != speculate.Unknown {
		teach(d, is)
	}
	w := &table{session: d.NewClaims("one"), now: start, declined: make(map[string]enrich.Reason)}
	return d, &speculate.Chooser{Claims: w.session, Lease: lease, Prefetcher: w}, w
}

// nth returns n candidates of descending probability.
func nth(t *testing.T, n int) (all []predict.Candidate) {
	t.Helper()
	models, problems := valuemodel.Compile([]valuemodel.Rule{{Pattern: "up/get", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := models.Resolve(valuemodel.Upstream{Name: "up"}, "get", valuemodel.Hints{})
	for i := range n {
		all = append(all, predict.Candidate{Candidate: enrich.Candidate{
			Key: call.Key{Tool: "get", Arguments: fmt.Sprintf(`{"n":%d}`, i)}, P: 0.9 - float64(i)/100, Model: m, Bytes: 400,
			Latency: enrich.Fixed(time.Second), Lead: enrich.Fixed(2 * time.Second),
		}})
	}
	return all
}

var (
	usual   = &speculate.Rules{MinProbability: 0.3, Waste: 50 * time.Millisecond, MaxAge: time.Minute}
	thinker = speculate.Situation{Host: host, Think: time.Second}
)

// budget returns rules with a token budget per answer.
func budget(tokens int) *speculate.Rules {
	o := *usual
	o.Budget = tokens
	return &o
}

// TestChooseGoesOn: candidates without a slot wait for one. Each is started once, the most
// probable first. Improbable ones are never started.
func TestChooseGoesOn(t *testing.T) {
	_, c, w := laid(speculate.Parallel)
	all := nth(t, 6)
	all[5].P = 0.1
	c.Replace(w.now, all, budget(1000))
	for round, want := range []struct{ begun, open int }{{3, 2}, {5, 0}} {
		c.Choose(w.now, usual, thinker)
		if len(w.begun) != want.begun || c.Waiting() != want.open {
			t.Fatalf("round %d: begun %v, %d wait, want %+v", round, w.begun, c.Waiting(), want)
		}
		for _, claim := range w.claims {
			claim.Done()
		}
	}
	if !slices.IsSorted(w.begun) || w.declined[`{"n":5}`] != enrich.LowProbability {
		t.Errorf("got %v, declined %v", w.begun, w.declined)
	}
}

// TestChooseSettled: candidates wait for a write to show, and then begin if their calls are expected
// later than that.
func TestChooseSettled(t *testing.T) {
	_, c, w := laid(speculate.Parallel)
	settling := enrich.Settling
	w.refusal = func(*predict.Candidate) enrich.Reason { return settling }
	all := nth(t, 2)
	all[0].Lead, all[1].Lead = enrich.Fixed(4*time.Second), enrich.Fixed(time.Second)
	c.Replace(w.now, all, budget(1000))
	c.Choose(w.now, usual, thinker)
	if c.Waiting() != 2 {
		t.Fatalf("%d wait, declined %v, want both", c.Waiting(), w.declined)
	}
	settling = ""
	c.Choose(w.now.Add(2*time.Second), usual, thinker)
	if !slices.Equal(w.begun, []string{`{"n":0}`}) || w.declined[`{"n":1}`] != enrich.Gate {
		t.Errorf("begun %v, declined %v, want the one with time left", w.begun, w.declined)
	}
}

// TestChooseFull: if other prefetches hold all slots, a candidate is declined with the reason cap.
func TestChooseFull(t *testing.T) {
	_, c, w := laid(speculate.Parallel)
	all := nth(t, 5)
	c.Replace(w.now, all[:3], budget(1000))
	c.Choose(w.now, usual, thinker)
	c.Replace(w.now, all, budget(1000))
	c.Choose(w.now, usual, thinker)
	c.DropWaiting()
	if why := w.declined[`{"n":4}`]; len(w.begun) != 3 || why != enrich.Cap {
		t.Errorf("begun %v, declined %v, want %q", w.begun, w.declined, enrich.Cap)
	}
}

// TestChooseBudget: candidates that wait for a slot share the budget of their answer.
func TestChooseBudget(t *testing.T) {
	_, c, w := laid(speculate.Parallel)
	c.Replace(w.now, nth(t, 5), budget(350)) // each takes 150 tokens: 100 for its answer
	for range 5 {
		c.Choose(w.now, usual, thinker)
	}
	if len(w.begun) != 2 {
		t.Errorf("got %v, want two, as many as the budget allows", w.begun)
	}
}

// TestChooseCountsFiles: a call that reads a file takes as many tokens as the file.
func TestChooseCountsFiles(t *testing.T) {
	_, c, w := laid(speculate.Parallel)
	w.file = 39 << 10
	rules := budget(5000)
	rules.Delivery = "inline"
	c.Replace(w.now, nth(t, 1), rules)
	c.Choose(w.now, rules, thinker)
	if got := w.declined[`{"n":0}`]; got != enrich.Budget {
		t.Errorf("got %q, want %q", got, enrich.Budget)
	}
}

// TestChooseTellsWhatWasLacking: a candidate that waited and is dropped has the reason for which
// it last could not start.
func TestChooseTellsWhatWasLacking(t *testing.T) {
	for _, tt := range []struct {
		is        speculate.Concurrency
		p         float64
		takes     time.Duration
		why, next enrich.Reason
	}{
		{speculate.Parallel, 0.5, 30 * time.Second, "", enrich.Cap},
		{speculate.Serial, 0.9, 30 * time.Second, enrich.Throttled, enrich.Throttled},
		{speculate.Unknown, 0.31, 30 * time.Second, enrich.Throttled, enrich.Throttled}, // it saves .31 · 2 s, and costs .5 · .69 · 28 s
		{speculate.Unknown, 0.9, 3 * time.Second, "", enrich.Cap},
	} {
		d, c, w := laid(tt.is)
		d.Configure(speculate.Slots{PerSession: 1})
		all := nth(t, 2)
		for i := range all {
			all[i].P, all[i].Latency = tt.p, enrich.Fixed(tt.takes)
		}
		c.Replace(w.now, all, budget(1000))
		c.Choose(w.now, usual, thinker)
		if began := len(w.begun) == 1; began != (tt.why == "") {
			t.Errorf("%v: begun %v, want declined %q", tt, w.begun, tt.why)
		}
		c.Replace(w.now, nil, budget(1000))
		if got := w.declined[`{"n":1}`]; got != tt.next || c.Waiting() != 0 {
			t.Errorf("%v: the second was declined for %q, %d wait; want %q", tt, got, c.Waiting(), tt.next)
		}
	}
}

// TestChooseTellsOfTheGateFirst: a candidate that is not worth a prefetch is declined for that at once,
// and does not wait for a slot, whether or not one is free.
func TestChooseTellsOfTheGateFirst(t *testing.T) {
	for _, full := range []bool{false, true} {
		d, c, w := laid(speculate.Serial)
		d.Configure(speculate.Slots{PerSession: 1})
		all := nth(t, 3)
		all[2].Latency = enrich.Fixed(time.Millisecond) // hides less than a wasted prefetch costs
		if full {
			c.Replace(w.now, all[:1], budget(1000))
			c.Choose(w.now, usual, thinker)
		}
		c.Replace(w.now, all, budget(1000))
		c.Choose(w.now, usual, thinker)
		if got := w.declined[`{"n":2}`]; got != enrich.Gate || len(w.begun) != 1 {
			t.Errorf("slot taken: %v: begun %v, the last declined for %q, want %q", full, w.begun, got, enrich.Gate)
		}
	}
}

// TestChooseByWhatTheNextCallWaits: at an upstream that may be serial, a wrong prefetch delays the
// session's next call, whatever its own lead, and so does a right one that is not the next call.
func TestChooseByWhatTheNextCallWaits(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name         string
		is           speculate.Concurrency
		p            []float64
		takes, pause time.Duration
		lead         time.Duration
		begun        int
	}{
		{"done before the next call", speculate.Serial, []float64{0.4}, 2 * s, 3 * s, 3 * s, 1},
		{"a client in haste, and it is sure", speculate.Serial, []float64{0.95}, 3 * s, s / 2, s / 2, 1},
		{"a client in haste", speculate.Serial, []float64{0.8}, 3 * s, s / 2, s / 2, 0},
		{"not known to be serial", speculate.Unknown, []float64{0.8}, 3 * s, s / 2, s / 2, 1},
		{"nor that", speculate.Unknown, []float64{0.6}, 3 * s, s / 2, s / 2, 0},
		{"it comes late, but another call comes soon", speculate.Serial, []float64{0.35}, 3 * s, s / 2, 20 * s, 0},
		{"all come, and one of them next", speculate.Serial, []float64{0.95, 0.95, 0.95}, 3 * s, s / 2, s, 0},
		{"parallel", speculate.Parallel, []float64{0.4, 0.4}, 3 * s, s / 2, s / 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, c, w := laid(tt.is)
			all := nth(t, len(tt.p))
			for i := range all {
				all[i].P, all[i].Latency, all[i].Lead, all[i].Pause = tt.p[i], enrich.Fixed(tt.takes), enrich.Fixed(tt.lead), enrich.Fixed(tt.pause)
			}
			c.Replace(w.now, all, budget(1000))
			c.Choose(w.now, usual, thinker)
			if len(w.begun) != tt.begun {
				t.Errorf("begun %v, want %d", w.begun, tt.begun)
			}
		})
	}
}

// oneAtHost is a table whose host takes one prefetch, which its room does not say.
type oneAtHost struct{ *table }

func (w oneAtHost) Begin(c *predict.Candidate, v *speculate.Eligibility) enrich.Reason {
	if len(w.begun) == 1 {
		return enrich.Cap
	}
	return w.table.Begin(c, v)
}

// A candidate that is picked for a slot that its host does not have waits for one.
func TestChooseWaitsForHost(t *testing.T) {
	_, c, w := laid(speculate.Parallel)
	c.Replace(w.now, nth(t, 2), budget(1000))
	c.Prefetcher = oneAtHost{w}
	c.Choose(w.now, usual, thinker)
	if len(w.begun) != 1 || c.Waiting() != 1 || len(w.declined) > 0 {
		t.Errorf("begun %v, %d waiting, declined %v; want one begun and one waiting", w.begun, c.Waiting(), w.declined)
	}
}

// TestChooseAtLevelZero: at level 0 only the candidate that level 1 would start is watched. If the
// most probable of five candidates is right in six of ten cases, the level rises again.
func TestChooseAtLevelZero(t *testing.T) {
	d, c, w := laid(speculate.Parallel)
	for range 3 {
		d.Harm(host, w.session, speculate.RateLimited, 0)
		if b := newBet(1); b.start(t.Context(), w.session) == "" {
			b.claim.Done()
		}
	}
	if !w.session.Room(w.now, host, lease).Shadow {
		t.Fatal("want level 0")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for turn := range 120 {
		all := nth(t, 5)
		for i := range all {
			all[i].P -= 0.3
			all[i].Key.Arguments = fmt.Sprintf(`{"turn":%d,"n":%d}`, turn, i)
		}
		c.Replace(w.now, all, budget(1000))
		c.Choose(w.now, usual, thinker)
		if !w.session.Room(w.now, host, lease).Shadow {
			return
		}
		if len(w.begun) > 0 || w.declined[all[0].Key.Arguments] != enrich.Shadow || w.declined[all[1].Key.Arguments] != enrich.Throttled {
			t.Fatalf("begun %v, declined %v", w.begun, w.declined)
		}
		if r.Float64() < 0.6 {
			w.session.Called(w.now, w.key(all[0].Key.Arguments))
		}
		w.now = w.now.Add(2 * time.Minute)
		w.session.Review(w.now)
	}
	t.Errorf("no prefetch was started after that: %+v", d.Stats())
}

// TestChooseWatchesForAsLongAsItsAnswerServes: a watched candidate is right if the call comes
// while its answer would be served.
func TestChooseWatchesForAsLongAsItsAnswerServes(t *testing.T) {
	_, c, w := laid(speculate.Parallel)
	shadow := *usual
	shadow.Mode = "shadow"
	for i, fresh := range []time.Duration{0, time.Hour} {
		all := nth(t, 1)
		m := *all[0].Model
		m.Cost.Freshness = fresh
		all[0].Model, all[0].Key.Arguments = &m, fmt.Sprint(i)
		c.Replace(w.now, all, budget(1000))
		c.Choose(w.now, &shadow, thinker)
	}
	watched := w.session.Open()
	w.session.Review(w.now.Add(10 * time.Minute))
	if left := w.session.Open(); watched != 2 || left != 1 {
		t.Errorf("%d were watched, %d ten minutes later, want two and the one that stays fresh", watched, left)
	}
}
