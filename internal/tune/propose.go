package tune

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/age"
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

const (
	minEvidence  = 10 // minimum number of observations behind a proposal
	maxFollowUps = 6  // proposed per tool
)

// Propose returns the settings that the added events, calls and states justify.
func (t *Tuner) Propose() Proposal {
	follows := make(map[string][]follow)
	for upstream, p := range t.players {
		for _, f := range p.Shared().LearnedFollowUps() {
			t.addFollowUp(follows, upstream, f)
		}
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(t.tools)), maps.Keys(follows))
	slices.Sort(names)
	var p Proposal
	for _, name := range slices.Compact(names) {
		if valuemodel.IsGlob(name) {
			continue // its block would be a pattern, which other tools may match
		}
		if t.o.Missing(name) {
			p.Missing = append(p.Missing, name)
			continue
		}
		b, m := Block{Tool: name}, t.o.Model(name)
		if s := t.tools[name]; s != nil && (s.answers > 0 || s.errors == 0) { // errors alone allow no conclusion
			if m.MayRead() {
				b.Lines = append(s.costs(), s.speculate(&t.o)...)
			} else if s.calls > 0 && m.Sources["side_effect_class"] == "default" {
				p.Unclassified = append(p.Unclassified, name)
			}
			if advice := s.freshness(); advice != nil {
				p.Advice = append(p.Advice, Block{name, advice})
			}
		}
		if b.Lines = append(b.Lines, proposed(follows[name], m)...); len(b.Lines) > 0 {
			p.Blocks = append(p.Blocks, b)
		}
	}
	return p
}

// costs proposes cost_model settings that differ much from the known ones and that the operator
// has not set. The two sizes are proposed together, as one alone might contradict the other.
func (s *toolStats) costs() (lines []Line) {
	m := s.model
	propose := func(key string, q *record.Histogram, value float64, what string) {
		lines = append(lines, Line{"cost_model." + key, number(value), fmt.Sprintf("%s of %d answers%s", what, q.N, s.period())})
	}
	operator := func(key string) bool { return isOperator(m.Sources["cost_model."+key]) }
	typical, most, took := digits(s.size.Quantile(0.5)), digits(s.size.Quantile(0.99)), digits(s.latency.Quantile(0.5))
	differ := isFar(typical, m.Cost.TypicalKB, 1.5) || isFar(most, m.Cost.MaxKB, 2)
	if differ && s.size.N >= minEvidence && !operator("typical_kb") && !operator("max_kb") {
		propose("typical_kb", &s.size, typical, "median")
		propose("max_kb", &s.size, most, "99th percentile")
	}
	if isFar(took, ms(m.Cost.Latency), 1.5) && s.latency.N >= minEvidence && !operator("latency_ms_p50") {
		propose("latency_ms_p50", &s.latency, took, "median")
	}
	return lines
}

// isFar reports whether a measured value differs from the known one by a factor or more.
func isFar(got, known, factor float64) bool {
	return got > 0 && (known <= 0 || max(got, known) >= factor*min(got, known))
}

// speculate proposes speculate = false for a tool if, with 95 % confidence, its prefetches are
// correct less often than break-even requires: P > C/(B+C) for the cost C of a wasted prefetch
// and the benefit B of a used one. It does not override the operator.
func (s *toolStats) speculate(o *Options) []Line {
	m := s.model
	if s.prefetches < minEvidence || m.Speculate == nil || !*m.Speculate || isOperator(m.Sources["speculate"]) {
		return nil
	}
	hidden := cmp.Or(s.latency.Quantile(0.5), ms(m.Cost.Latency))
	required := max(o.MinProbability, ms(o.Waste)/(hidden+ms(o.Waste)))
	bound := upperBound(s.right, s.prefetches)
	if bound >= required {
		return nil
	}
	return []Line{{"speculate", "false", fmt.Sprintf("%d of %d prefetches right, at most %.0f %% with 95 %% confidence, %.0f %% needed%s",
		s.right, s.prefetches, 100*bound, 100*required, s.period())}}
}

// upperBound returns the upper end of the 95 % Wilson interval for right of n.
func upperBound(right, n int) float64 {
	const z = 1.96
	p, m := float64(right)/float64(n), float64(n)
	return (p + z*z/(2*m) + z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))) / (1 + z*z/m)
}

// proposed returns lines with the most probable learned follow-ups that the model does not have yet. It
// sorts all.
func proposed(all []follow, m *valuemodel.Model) (lines []Line) {
	slices.SortStableFunc(all, func(a, b follow) int { return cmp.Compare(b.Probability, a.Probability) })
	for _, f := range all[:min(len(all), maxFollowUps)] {
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
func (s *toolStats) freshness() []Line {
	d, n := s.stableFor()
	if m := s.model; !m.MayRead() || n < minEvidence || d < time.Second || m.Cost.Freshness > 0 || m.Volatile != nil && *m.Volatile {
		return nil
	}
	return []Line{{"cost_model.freshness_ttl_s", number(math.Floor(d.Seconds())),
		fmt.Sprintf("%d answers equal the one before, up to %s later, and none within that time differs%s", n, age.Text(d.Round(time.Second)), s.period())}}
}

// period returns the dates of the first and last call for Line.Evidence.
func (s *toolStats) period() string {
	if s.from.IsZero() {
		return ""
	}
	return fmt.Sprintf(", %s to %s", s.from.UTC().Format(time.DateOnly), s.to.UTC().Format(time.DateOnly))
}

// digits rounds a value to two significant digits.
func digits(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64) // cannot fail
	return rounded
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// isOperator reports whether a layer is the operator's, which is any layer that is not built in.
func isOperator(source string) bool {
	builtIn := func(name string) bool { return strings.HasPrefix(source, name) }
	return source != "" && !slices.ContainsFunc([]string{"default", "annotation", "provider ", "tuned"}, builtIn)
}
