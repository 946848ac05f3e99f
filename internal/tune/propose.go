package tune

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
	"mcpschedd/internal/valuemodel"
)

// Proposal is the result of a Tuner.
type Proposal struct {
	Blocks       []Block  // of tuned.toml, ordered by name
	Advice       []Block  // settings for the user to consider
	Unclassified []string // called tools that no layer classifies, and so are never prefetched
	Missing      []string // called tools that their upstreams do not offer
}

// Block is one [tools.*] table.
type Block struct {
	Tool  string
	Lines []Line
}

// Line is one setting.
type Line struct {
	Key      string // dotted key in the block
	Value    string // TOML on one line; for follow_up one element of the array
	Evidence string // counts and period that justify the setting, for a comment
}

// Propose returns the settings that the added events, calls and states justify.
func (t *Tuner) Propose() Proposal {
	for upstream := range maps.Clone(t.players) { // upstreams without a learned state
		_ = t.AddLearned(upstream, predict.State{}) // an empty state is valid
	}
	names := slices.Collect(maps.Keys(t.tools))
	names = slices.AppendSeq(names, maps.Keys(t.follows))
	slices.Sort(names)
	var p Proposal
	for _, name := range slices.Compact(names) {
		stats, m := t.tools[name], t.model(name)
		if t.o.Missing(name) {
			p.Missing = append(p.Missing, name)
			continue
		}
		b := Block{Tool: name}
		if stats != nil && !stats.onlyErrors() {
			if stats.calls > 0 && !reads(m) && m.Sources["side_effect_class"] == "default" {
				p.Unclassified = append(p.Unclassified, name)
			}
			if reads(m) {
				b.Lines = append(t.costs(stats, m), t.speculate(stats, m)...)
			}
			if advice := freshness(stats, m); len(advice) > 0 {
				p.Advice = append(p.Advice, Block{name, advice})
			}
		}
		if b.Lines = append(b.Lines, t.followUps(name, m)...); len(b.Lines) > 0 {
			p.Blocks = append(p.Blocks, b)
		}
	}
	return p
}

// costs proposes cost_model settings that differ much from the known ones and that the operator
// has not set.
func (t *Tuner) costs(stats *toolStats, m *valuemodel.Model) (lines []Line) {
	propose := func(key string, q *record.Histogram, share, old, factor float64, what string) {
		key = "cost_model." + key
		got := digits(q.Quantile(share))
		if q.N < minEvidence || got == 0 || isOperator(m.Sources[key]) || near(got, old, factor) {
			return
		}
		lines = append(lines, Line{key, number(got), fmt.Sprintf("%s of %d answers%s", what, q.N, stats.period())})
	}
	propose("typical_kb", &stats.size, 0.5, m.Cost.TypicalKB, 1.5, "median")
	if !isOperator(m.Sources["cost_model.typical_kb"]) { // otherwise max_kb might be below the operator's typical_kb
		propose("max_kb", &stats.size, 0.99, m.Cost.MaxKB, 2, "99th percentile")
	}
	propose("latency_ms_p50", &stats.latency, 0.5, ms(m.Cost.Latency), 1.5, "median")
	return lines
}

// digits rounds a value to two significant digits.
func digits(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64) // cannot fail
	return rounded
}

// near reports whether two values differ by less than a factor.
func near(a, b, factor float64) bool { return b > 0 && math.Max(a, b) < factor*math.Min(a, b) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// speculate proposes speculate = false for a tool if, with 95 % confidence, its prefetches are
// correct less often than break-even requires: P > C/(B+C) for the cost C of a wasted prefetch
// and the benefit B of a used one. It does not override the operator.
func (t *Tuner) speculate(stats *toolStats, m *valuemodel.Model) []Line {
	if stats.prefetches < minEvidence || m.Speculate == nil || !*m.Speculate || isOperator(m.Sources["speculate"]) {
		return nil
	}
	hidden := stats.latency.Quantile(0.5)
	if hidden == 0 {
		hidden = ms(m.Cost.Latency)
	}
	required := max(t.o.MinProbability, ms(t.o.Waste)/(hidden+ms(t.o.Waste)))
	if upperBound(stats.right, stats.prefetches) >= required {
		return nil
	}
	return []Line{{"speculate", "false", fmt.Sprintf("%d of %d prefetches right, at most %.0f %% with 95 %% confidence, %.0f %% needed%s",
		stats.right, stats.prefetches, 100*upperBound(stats.right, stats.prefetches), 100*required, stats.period())}}
}

// followUps proposes learned follow-ups that are not configured yet.
func (t *Tuner) followUps(name string, m *valuemodel.Model) (lines []Line) {
	for _, f := range t.topFollowUps(name) {
		configured := slices.ContainsFunc(m.FollowUps, func(have valuemodel.FollowUp) bool {
			return have.Tool == f.Tool && maps.EqualFunc(have.Args, f.Args, func(a, b valuemodel.Binding) bool { return a.String() == b.String() })
		})
		if !configured {
			lines = append(lines, Line{"follow_up", followUp(&f.FollowUp), fmt.Sprintf("%.0f of %.0f candidates right, recent ones weighted more", f.right, f.total)})
		}
	}
	return lines
}

// freshness advises a freshness_ttl_s for a tool without one.
func freshness(stats *toolStats, m *valuemodel.Model) []Line {
	d, n := stats.stableFor()
	if !reads(m) || n < minEvidence || d < time.Second || m.Cost.Freshness > 0 || m.Volatile != nil && *m.Volatile {
		return nil
	}
	return []Line{{"cost_model.freshness_ttl_s", number(math.Floor(d.Seconds())),
		fmt.Sprintf("%d answers equal the one before, up to %v later, and none within that time differs%s", n, d.Round(time.Second), stats.period())}}
}
