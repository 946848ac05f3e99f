package record_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"mcpschedd/internal/record"
)

// TestFiguresOfRandomLines adds random and mostly inconsistent lines, and compares each figure
// with that of a model that computes it from all lines.
func TestFiguresOfRandomLines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all lines
		tally := record.NewTally()
		for range rapid.IntRange(0, 60).Draw(rt, "lines") {
			e := drawLine(rt)
			record.Clamp(&e)
			all = append(all, e)
			tally.Add(&e)
		}
		now := start.Add(8 * time.Hour)
		s := tally.Stats(now)
		delete(s.Tools, "(unknown)")
		for what, x := range map[string]struct{ want, got any }{
			"totals":    {all.totals(), s.Totals},
			"tools":     {all.by(trimmed), s.Tools},
			"upstreams": {all.by(func(e *record.Event) string { return e.Upstream }), s.Upstreams},
		} {
			if diff := gocmp.Diff(x.want, x.got, near); diff != "" {
				rt.Fatalf("%s: want (-), got (+):\n%s", what, diff)
			}
		}
	})
}

// near compares sums that were added in different orders, and rounded estimates. The model computes
// no quantiles.
var near = gocmp.Options{
	cmpopts.IgnoreFields(record.Histogram{}, "P50", "P90", "P99", "Min", "Max", "Counts"),
	cmpopts.EquateApprox(1e-9, 1e-9), cmpopts.EquateEmpty(),
	gocmp.FilterPath(func(p gocmp.Path) bool { return strings.HasPrefix(p.Last().String(), ".Tokens") },
		gocmp.Comparer(func(a, b int64) bool { return max(a-b, b-a) <= 1 })),
}

// drawLine returns a random event.
func drawLine(t *rapid.T) record.Event {
	one := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "text") }
	number := func(of ...int64) int64 { return rapid.SampledFrom(of).Draw(t, "number") }
	time1 := func() float64 {
		return rapid.SampledFrom([]float64{0, 0, 0.25, 1.5, 300, 45_000, -2, math.Inf(1)}).Draw(t, "ms")
	}
	yes := func() bool { return rapid.Bool().Draw(t, "yes") }
	e := record.Event{
		Kind:     rapid.SampledFrom([]record.Kind{record.Session, record.Call, record.Call, record.Call, record.Call, record.Prefetch, record.Prefetch, record.Decision, record.Plan, record.Harm, record.End, "weather"}).Draw(t, "kind"),
		At:       start.Add(time.Duration(rapid.IntRange(0, 8*3600).Draw(t, "at")) * time.Second),
		Session:  one("a", "b", "c"),
		Seq:      number(0, 1, 2, 3, 4, 5, 6),
		Upstream: one("github", "github", "files", ""), Tool: one("list", "get", "read"), Class: one("pure", "read_only", "indeterminate", "mutates_local", ""),
		LatencyMS: time1(), UpstreamMS: time1(), HiddenMS: time1(),
		Bytes: number(0, 400, 1000, -3), Tokens: number(0, 100, 130, 77, -1), NotResent: number(0, 0, 200, 2000), PredictedTokens: number(0, 100, 60),
		Sent: int(number(0, 1, 1, 2, -1)), IsError: yes(), BackedOff: yes(), Prefetched: yes(), Cancelled: yes(),
		Disposition: record.Disposition(one("hit", "joined", "fetched", "failed")), Fate: record.Fate(one("used", "late", "wasted", "compared")),
		Turn: int(number(0, 1, 2, 3, 4)), Plan: int(number(0, 0, 0, 1)), UseOf: number(0, 0, 3), Inlined: int(number(0, 2)), After: number(0, 1, 2, 3),
		Cause: one("expired", "dropped", ""), UsedBy: number(0, 2), Candidates: int(number(0, 4)), LateCalled: int(number(0, 1)),
		Declined: map[string]int{one("gate", "cap"): int(number(0, 2, -1))},
		Steps:    int(number(0, 3)), Depth: int(number(0, 1, 3)), BytesIn: number(0, 1000), BytesOut: number(0, 400, 2000),
		Why: one("foreground_wait", "rate_limited", "eviction", "question", "hail"),
	}
	e.Process = map[string]string{"a": "p", "b": "p", "c": "q"}[e.Session]
	return e
}

// lines is the model: it computes each figure from the list of events.
type lines []record.Event

func (l lines) calls() lines { return l.kind(record.Call) }

func (l lines) where(is func(e *record.Event) bool) (some lines) {
	for i := range l {
		if is(&l[i]) {
			some = append(some, l[i])
		}
	}
	return some
}

func (l lines) n(is func(e *record.Event) bool) int64 { return int64(len(l.where(is))) }

// sum adds up the positive values.
func (l lines) sum(of func(e *record.Event) float64) (sum float64) {
	for i := range l {
		if v := of(&l[i]); v > 0 {
			sum += v
		}
	}
	return sum
}

func (l lines) prefetches() lines { return l.kind(record.Prefetch) }

func (l lines) kind(k record.Kind) lines {
	return l.where(func(e *record.Event) bool { return e.Kind == k })
}

func isServed(e *record.Event) bool {
	return e.Disposition == record.Hit || e.Disposition == record.Joined
}
func isRead(e *record.Event) bool { return e.Class == "pure" || e.Class == "read_only" }
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// totals computes each figure by its definition.
func (l lines) totals() record.Totals {
	calls, prefetches, choices, plans, harms := l.calls(), l.prefetches(), l.kind(record.Decision), l.kind(record.Plan), l.kind(record.Harm)
	as := func(d record.Disposition) int64 {
		return calls.n(func(e *record.Event) bool { return e.Disposition == d })
	}
	became := func(f record.Fate) int64 {
		return prefetches.n(func(e *record.Event) bool { return e.Fate == f })
	}
	did := func(why string) int64 { return harms.n(func(e *record.Event) bool { return e.Why == why }) }
	served := calls.where(isServed)
	finished := plans.where(func(e *record.Event) bool { return !e.Cancelled })
	requests := func(e *record.Event) float64 { return float64(e.Sent) }
	f := record.Totals{Figures: record.Figures{
		Calls: int64(len(calls)), Hit: as(record.Hit), Joined: as(record.Joined), Fetched: as(record.Fetched), Failed: as(record.Failed),
		Errors:        calls.n(func(e *record.Event) bool { return e.IsError }),
		UpstreamCalls: int64(calls.sum(requests) + prefetches.sum(requests)),
		HiddenMS:      served.sum(func(e *record.Event) float64 { return e.HiddenMS }),
		HiddenByPrefetch: served.where(func(e *record.Event) bool { return e.UseOf > 0 }).sum(func(e *record.Event) float64 {
			return e.HiddenMS
		}),
		WaitedMS: calls.sum(func(e *record.Event) float64 { return e.LatencyMS }),
		TokensSaved: int64(math.Round(calls.sum(func(e *record.Event) float64 { return float64(e.NotResent) / 4 }) +
			finished.sum(func(e *record.Event) float64 { return float64(e.BytesIn-e.BytesOut) / 4 }))),
		TokensToClient: int64(math.Round(calls.where(func(e *record.Event) bool { return e.Plan == 0 }).sum(func(e *record.Event) float64 {
			return float64(e.Bytes-e.NotResent) / 4
		}) + finished.sum(func(e *record.Event) float64 { return float64(e.BytesOut) / 4 }))),
	}}
	p := &f.Prefetch
	p.InTime = became(record.Used)
	p.Issued, p.Used, p.Late, p.Compared = int64(len(prefetches)), became(record.Used)+became(record.Late), became(record.Late), became(record.Compared)
	p.Dispatched = prefetches.n(func(e *record.Event) bool { return e.Sent > 0 })
	p.Accuracy, p.Timeliness = over(float64(p.Used), float64(len(prefetches))), over(float64(became(record.Used)), float64(p.Used))
	p.Wasted = make(map[string]int64)
	for _, e := range prefetches.where(func(e *record.Event) bool { return e.Fate == record.Wasted }) {
		p.Wasted[cmp.Or(e.Cause, "unknown")]++
	}
	f.Amplification = over(float64(f.UpstreamCalls), float64(f.Calls))
	f.Candidates = int64(choices.sum(func(e *record.Event) float64 { return float64(e.Candidates) }))
	f.Declined = make(map[string]int64)
	for _, e := range choices {
		for reason, n := range e.Declined {
			if n > 0 {
				f.Declined[reason] += int64(n)
			}
		}
	}
	f.LateCalled = int64(choices.sum(func(e *record.Event) float64 { return float64(e.LateCalled) }))
	sized := append(calls.where(func(e *record.Event) bool { return e.UseOf == 0 }), prefetches...).where(func(e *record.Event) bool { return e.Tokens > 0 && e.PredictedTokens > 0 })
	f.HiddenByRepeat = f.HiddenMS - f.HiddenByPrefetch
	f.Unclassified = calls.n(func(e *record.Event) bool { return e.Class == "indeterminate" })
	f.Predictions = int64(len(sized))
	f.CostOverruns = sized.n(func(e *record.Event) bool { return float64(e.Tokens) >= 1.3*float64(e.PredictedTokens) })
	f.Reads = calls.n(isRead)
	f.ServedShare = over(float64(p.Used), float64(f.Reads))
	f.Repeats = served.n(func(e *record.Event) bool { return e.UseOf == 0 })
	f.BackOffs = calls.n(func(e *record.Event) bool { return e.BackedOff })
	f.References = calls.n(func(e *record.Event) bool { return e.NotResent > 0 })
	f.Inlined = int64(calls.sum(func(e *record.Event) float64 { return float64(e.Inlined) }))
	f.Plans, f.PlanSteps = int64(len(plans)), int64(plans.sum(func(e *record.Event) float64 { return float64(e.Steps) }))
	f.TurnsSaved.Plan = int64(finished.sum(func(e *record.Event) float64 { return float64(e.Depth - 1) }))
	f.Harm.ForegroundWaitMS = harms.where(func(e *record.Event) bool { return e.Why == "foreground_wait" }).sum(func(e *record.Event) float64 { return e.LatencyMS })
	f.Harm.RateLimited, f.Harm.Evictions, f.Harm.Questions = did("rate_limited"), did("eviction"), did("question")
	f.LatencyMS = record.Histogram{N: f.Calls, Sum: f.WaitedMS}
	asked := calls.where(func(e *record.Event) bool { return e.UpstreamMS > 0 })
	timedPrefetches := prefetches.where(func(e *record.Event) bool { return e.LatencyMS > 0 && e.Cause != "dropped" })
	f.FetchMS = record.Histogram{N: int64(len(asked) + len(timedPrefetches)), Sum: asked.sum(func(e *record.Event) float64 { return e.UpstreamMS }) + timedPrefetches.sum(func(e *record.Event) float64 { return e.LatencyMS })}
	results := calls.where(func(e *record.Event) bool { return e.Bytes > 0 })
	f.ResultKB = record.Histogram{N: int64(len(results)), Sum: results.sum(func(e *record.Event) float64 { return float64(e.Bytes) / 1024 })}
	return f
}

// by computes the figures of each tool or upstream.
func (l lines) by(name func(e *record.Event) string) map[string]record.Figures {
	all := make(map[string]record.Figures)
	counted := slices.Concat(l.calls(), l.prefetches())
	for i := range counted {
		if of := name(&counted[i]); of != "" {
			all[of] = counted.where(func(e *record.Event) bool { return name(e) == of }).totals().Figures
		}
	}
	return all
}

// trimmed returns the name of a tool; "" if no upstream has it.
func trimmed(e *record.Event) string {
	if e.Upstream == "" {
		return ""
	}
	return e.Upstream + "/" + e.Tool
}
