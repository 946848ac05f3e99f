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

// Proposal is what is proposed.
type Proposal struct {
	Blocks       []Block  // of tuned.toml, in the order of their names
	Advice       []Block  // settings of the configuration to think about
	Unclassified []string // tools that were called, and of which no layer says what they do: they are never prefetched
	Missing      []string // tools that were called, and that their upstreams do not offer
}

// Block is one [tools.*] table.
type Block struct {
	Tool  string
	Lines []Line
}

// Line is one setting.
type Line struct {
	Key      string // below the block, dots for nesting
	Value    string // as TOML, on one line; of follow_up one element
	Evidence string // how many, how often, over which period
}

// Propose says what comes of all that was added.
func (t *Tuner) Propose() Proposal {
	for upstream := range maps.Clone(t.players) { // of recorded calls alone
		_ = t.Learned(upstream, predict.State{}) // an empty state has no mistakes
	}
	names := slices.Collect(maps.Keys(t.tools))
	names = slices.AppendSeq(names, maps.Keys(t.follows))
	slices.Sort(names)
	var p Proposal
	for _, name := range slices.Compact(names) {
		one, m := t.tools[name], t.model(name)
		if t.o.Missing(name) {
			p.Missing = append(p.Missing, name)
			continue
		}
		b := Block{Tool: name}
		if one != nil && !one.groundless() {
			if one.calls > 0 && !reads(m) && m.Sources["side_effect_class"] == "default" {
				p.Unclassified = append(p.Unclassified, name)
			}
			if reads(m) {
				b.Lines = append(t.costs(one, m), t.speculate(one, m)...)
			}
			if advice := freshness(one, m); len(advice) > 0 {
				p.Advice = append(p.Advice, Block{name, advice})
			}
		}
		if b.Lines = append(b.Lines, t.followUps(name, m)...); len(b.Lines) > 0 {
			p.Blocks = append(p.Blocks, b)
		}
	}
	return p
}

// costs proposes what calls cost, where that is far from what is known and the operator
// does not say it.
func (t *Tuner) costs(one *tool, m *valuemodel.Model) (lines []Line) {
	propose := func(key string, q *record.Histogram, share, old, apart float64, what string) {
		key = "cost_model." + key
		got := digits(q.At(share))
		if q.N < least || got == 0 || operators(m.Sources[key]) || near(got, old, apart) {
			return
		}
		lines = append(lines, Line{key, number(got), fmt.Sprintf("%s of %d answers%s", what, q.N, one.period())})
	}
	propose("typical_kb", &one.size, 0.5, m.Cost.TypicalKB, 1.5, "median")
	if !operators(m.Sources["cost_model.typical_kb"]) { // else it may be more than the longest here
		propose("max_kb", &one.size, 0.99, m.Cost.MaxKB, 2, "99th percentile")
	}
	propose("latency_ms_p50", &one.latency, 0.5, ms(m.Cost.Latency), 1.5, "median")
	return lines
}

// digits rounds a value to two digits.
func digits(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64) // it is a number
	return rounded
}

// near reports whether two values are less than a factor apart.
func near(a, b, factor float64) bool { return b > 0 && math.Max(a, b) < factor*math.Min(a, b) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// speculate proposes that a tool is not prefetched whose prefetches have been so wrong,
// so often, that with a certainty of 95 % they are less often right than they have to
// be (science: P > C/(B+C)). What the operator has said is left alone.
func (t *Tuner) speculate(one *tool, m *valuemodel.Model) []Line {
	if one.prefetches < least || m.Speculate == nil || !*m.Speculate || operators(m.Sources["speculate"]) {
		return nil
	}
	hides := one.latency.At(0.5)
	if hides == 0 {
		hides = ms(m.Cost.Latency)
	}
	needs := max(t.o.MinProbability, ms(t.o.Waste)/(hides+ms(t.o.Waste)))
	if atMost(one.right, one.prefetches) >= needs {
		return nil
	}
	return []Line{{"speculate", "false", fmt.Sprintf("%d of %d prefetches right, at most %.0f %% in truth, where %.0f %% are needed%s",
		one.right, one.prefetches, 100*atMost(one.right, one.prefetches), 100*needs, one.period())}}
}

// followUps proposes what was learned to follow, where the operator or a provider does
// not say so already.
func (t *Tuner) followUps(name string, m *valuemodel.Model) (lines []Line) {
	for _, f := range t.likeliest(name) {
		configured := slices.ContainsFunc(m.FollowUps, func(have valuemodel.FollowUp) bool {
			return have.Tool == f.Tool && maps.EqualFunc(have.Args, f.Args, func(a, b valuemodel.Binding) bool { return a.String() == b.String() })
		})
		if !configured {
			lines = append(lines, Line{"follow_up", followUp(&f.FollowUp), fmt.Sprintf("%.0f of %.0f candidates right, newer ones counting more", f.right, f.of)})
		}
	}
	return lines
}

// freshness advises for how long an answer may stand in for another.
func freshness(one *tool, m *valuemodel.Model) []Line {
	d, n := one.stays()
	if !reads(m) || n < least || d < time.Second || m.Cost.Freshness > 0 || m.Volatile != nil && *m.Volatile {
		return nil
	}
	return []Line{{"cost_model.freshness_ttl_s", number(math.Floor(d.Seconds())),
		fmt.Sprintf("%d answers were the same as the one before, up to %v later, and none in that time was not%s", n, d.Round(time.Second), one.period())}}
}
