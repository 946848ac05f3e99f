package enrich_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/valuemodel"

	"pgregory.net/rapid"
)

// For random candidates, each one is either chosen or declined for one known reason, and the
// choice keeps all limits.
func TestEveryCandidateIsAccountedFor(t *testing.T) {
	seen := make(map[enrich.Reason]int)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "candidates")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		all, o := drawCandidates(r, n), drawOptions(r)
		s := pick(all, o)
		for i := range s.all {
			seen[s.all[i].Reason]++
			if chosen := slices.Contains(s.chosen, i); chosen != (s.all[i].Reason == "") {
				t.Fatalf("%d: chosen %v, with the reason %q", i, chosen, s.all[i].Reason)
			}
		}
		checkChoices(t, all, o, s)
	})
	for _, r := range []enrich.Reason{
		enrich.NotSpeculatable, enrich.LowProbability, enrich.Dollars, enrich.Gate, enrich.Budget, enrich.Cap,
		enrich.RateLimited, enrich.Shadow, enrich.Stored, enrich.Throttled,
	} {
		if seen[r] == 0 && !t.Failed() {
			t.Errorf("no candidate was declined for %q: the test proves nothing about it", r)
		}
	}
	t.Log(seen)
}

func checkChoices(t *rapid.T, all candidates, o enrich.Options, s selection) {
	tokens, dollars := 0, 0.0
	for _, i := range s.chosen {
		chosen := &s.all[i]
		if all[i].Reason != "" || chosen.P < o.MinProbability || chosen.Tokens < 0 {
			t.Fatalf("%d: chosen: %+v", i, chosen)
		}
		tokens += chosen.Tokens
		dollars += chosen.Model.Cost.Dollars
	}
	if tokens > o.Budget || len(s.chosen) > o.Slots || dollars > o.Dollars {
		t.Fatalf("got %d tokens of %d, %d calls of %d, %v dollars of %v: %+v", tokens, o.Budget, len(s.chosen), o.Slots, dollars, o.Dollars, s)
	}
}

func drawCandidates(r *rand.Rand, n int) candidates {
	models := make([]*valuemodel.Model, 6)
	for i := range models {
		models[i] = reading(func(m *model) {
			m.ValueClass = []valuemodel.ValueClass{valuemodel.Critical, valuemodel.Supporting, valuemodel.AuditOnly}[r.IntN(3)]
			m.Cost.Latency = time.Duration(r.IntN(2000)) * time.Millisecond
			m.Cost.TypicalKB = 8 * r.Float64()
			if i == 4 {
				m.Cost.Dollars = 0.001
			}
			if i == 5 {
				m.Speculate = new(false)
			}
		})
	}
	all := make(candidates, n)
	for i := range all {
		which := r.IntN(len(models))
		c := likely(fmt.Sprint(which), r.Float64()*1.1, nil)
		c.Key.Arguments, c.Model = fmt.Sprint(r.IntN(20)), models[which]
		if r.IntN(6) == 0 {
			c.Reason = []enrich.Reason{enrich.Stored, enrich.Shadow, enrich.RateLimited, enrich.Throttled}[r.IntN(4)]
		}
		all[i] = c
	}
	return all
}

func drawOptions(r *rand.Rand) enrich.Options {
	return enrich.Options{
		Budget: r.IntN(12000), Slots: r.IntN(6), MinProbability: 0.3 * r.Float64(), Waste: time.Duration(r.IntN(300)) * time.Millisecond,
		SecondWorth: 0.01, Dollars: 0.002 * r.Float64(), DefaultLead: 3 * time.Second,
	}
}

// many returns candidates for eight tools. All of them pass the gate.
func many(n int) candidates {
	r := rand.New(rand.NewPCG(7, 8))
	models := make([]*valuemodel.Model, 8)
	for i := range models {
		models[i] = reading(func(m *model) {
			m.Cost.TypicalKB = 0.2 + 3*r.Float64()
			m.FieldGroups = map[string]valuemodel.FieldGroup{
				"debug": {Fields: []string{"node_id", "url", "*_url"}, EstimatedValue: new(0.1), DefaultInclude: new(false)},
				"text":  {Fields: []string{"body"}, EstimatedValue: new(0.4), DefaultInclude: new(false)},
			}
		})
	}
	all := make(candidates, n)
	for i := range all {
		which := r.IntN(len(models))
		all[i] = likely(fmt.Sprint("tool_", which), 0.3+0.7*r.Float64(), nil)
		all[i].Key.Arguments = fmt.Sprintf(`{"owner":"octo","repo":"hello","issue_number":%d}`, i)
		all[i].Model, all[i].Bytes = models[which], 400+r.IntN(8000)
		ms := time.Duration(100+r.IntN(900)) * time.Millisecond
		all[i].Latency, all[i].Lead = enrich.Percentiles{P10: ms / 2, P50: ms, P90: 3 * ms}, enrich.Percentiles{P10: time.Second, P50: 3 * time.Second, P90: 20 * time.Second}
	}
	return all
}

// Limit: 100 µs in the median. The number of nodes bounds the worst case.
func BenchmarkPick(b *testing.B) {
	for _, slots := range []int{3, 64} {
		b.Run(fmt.Sprintf("64 candidates, %d slots", slots), func(b *testing.B) {
			all := many(64)
			o := options(func(o *enrich.Options) { o.Slots, o.Keywords = slots, []string{"issues about retry logic", "body"} })
			var took []time.Duration
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				for i := range all {
					all[i].P = 0.3 + float64((i*37+n*13)%70)/100 // different candidates each time
				}
				began := time.Now()
				enrich.Pick(all, o)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/median")
			b.ReportMetric(float64(took[len(took)-1].Nanoseconds()), "ns/worst")
		})
	}
}
