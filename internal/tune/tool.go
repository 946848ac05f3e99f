package tune

import (
	"fmt"
	"math"
	"strings"
	"time"

	"mcpschedd/internal/record"
)

// tool is what was recorded of a tool.
type tool struct {
	name    string
	number  uint32
	calls   int
	answers int       // of them, and of guesses, that are no errors: these alone tell anything
	errors  int       // that are
	size    quantiles // bytes of an answer
	latency quantiles // ms until an answer
	fates   fates
	shadow  hits
	from    int64 // ms since 1970; 0: not recorded
	to      int64
}

// fates are what became of the guesses at a tool.
type fates struct{ n, right int }

// hits are the guesses that were only watched, and those of them that were asked for.
type hits struct{ n, called int }

// mostTools bounds the tools that are told apart.
const mostTools = 1 << 12

// tool is what is recorded of a tool; nil if there are too many, or it has no name.
func (m *Miner) tool(name string) *tool {
	t := m.tools[name]
	if t != nil || name == "" || len(name) > longestName {
		return t
	}
	if len(m.byNumber) >= mostTools {
		m.left.tools++
		return nil
	}
	t = &tool{name: strings.Clone(name), number: uint32(len(m.byNumber))}
	m.tools[t.name] = t
	m.byNumber = append(m.byNumber, t)
	return t
}

const longestName = 512 // bytes

// called counts a call that its upstream answered. An error tells nothing of what an
// answer takes: most come at once, and are short.
func (t *tool) called(at int64, failed bool, latency, bytes float64) {
	t.calls++
	if failed {
		t.errors++
		return
	}
	t.answers++
	t.latency.add(latency)
	t.size.add(bytes)
	if at > 0 {
		if t.from == 0 || at < t.from {
			t.from = at
		}
		t.to = max(t.to, at)
	}
}

// fate counts what became of a guess. One whose answer was an error may have been
// right.
func (t *tool) fate(e *record.Event) {
	switch {
	case e.IsError || e.Cause == "error":
		t.errors++
	case e.Fate == record.Wasted:
		t.answers++
		t.fates.n++
	case e.Fate == record.Used || e.Fate == record.Late || e.Fate == record.Compared:
		t.answers++
		t.fates.n++
		t.fates.right++
	}
}

// period is when calls were recorded, as evidence has it.
func (t *tool) period() string {
	if t.from == 0 {
		return ""
	}
	day := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }
	if day(t.from) == day(t.to) {
		return ", " + day(t.from)
	}
	return ", " + day(t.from) + " to " + day(t.to)
}

// proposeCosts proposes what calls cost, where that is far from what is known.
func (m *Miner) proposeCosts(t *tool) (lines []Line) {
	known := m.model(t.name)
	if !known.Class.Reads() && known.Classify == "" { // nothing is decided by what it costs
		return nil
	}
	have := known.Cost
	propose := func(key string, q *quantiles, share, unit, old, apart float64, what string) {
		got := digits(q.at(share) / unit)
		if q.n < m.o.MinN || got == 0 || near(got, old, apart) {
			return
		}
		lines = append(lines, Line{
			Key: "cost_model." + key, Value: number(got),
			Evidence: fmt.Sprintf("%s of %d answers%s", what, q.n, t.period()),
		})
	}
	propose("typical_kb", &t.size, 0.5, 1024, have.TypicalKB, 1.5, "median")
	propose("max_kb", &t.size, 0.99, 1024, have.MaxKB, 2, "99th percentile")
	propose("latency_ms_p50", &t.latency, 0.5, 1, float64(have.Latency)/float64(time.Millisecond), 1.5, "median")
	return lines
}

// near reports whether two values are less than a factor apart.
func near(a, b, factor float64) bool {
	return b > 0 && math.Max(a, b) < factor*math.Min(a, b)
}

// gate is how likely a guess at a tool has to be: the configured floor, or where
// waste weighs as much as what is hidden (science: P > C/(B+C)).
func (m *Miner) gate(t *tool) float64 {
	hides := t.latency.at(0.5)
	if hides == 0 {
		hides = float64(m.model(t.name).Cost.Latency) / float64(time.Millisecond)
	}
	return m.needs(hides)
}

func (m *Miner) needs(hides float64) float64 {
	waste := float64(m.o.Waste) / float64(time.Millisecond)
	return max(m.o.MinProbability, waste/(max(hides, 0)+waste))
}

// hopeless reports whether guesses at a tool have been so wrong, so often, that it is
// not to be guessed at: with a certainty of 95 % they are less often right than they
// have to be. What the operator has said is left alone.
func (m *Miner) hopeless(t *tool) bool {
	known := m.model(t.name)
	return t.fates.n >= m.o.MinN && known.Speculate != nil && *known.Speculate && !operators(known.Sources["speculate"]) &&
		upper(t.fates.right, t.fates.n, twice) < m.gate(t)
}

// operators reports whether a layer is the operator's: what is named otherwise than
// those that are built in.
func operators(source string) bool {
	for _, other := range []string{"default", "annotation", "provider ", "learned"} {
		if strings.HasPrefix(source, other) {
			return false
		}
	}
	return source != ""
}

func (m *Miner) proposeSpeculate(t *tool) (lines []Line) {
	if !m.hopeless(t) {
		return nil
	}
	return []Line{{Key: "speculate", Value: "false", Evidence: fmt.Sprintf(
		"%d of %d guesses right, at most %.0f %% in truth, where %.0f %% are needed%s",
		t.fates.right, t.fates.n, 100*upper(t.fates.right, t.fates.n, twice), 100*m.gate(t), t.period())}}
}

// proposeMode advises to make guesses that so far were only watched, where enough of
// those that all else allowed would have been right.
func (m *Miner) proposeMode() []Line {
	var all hits
	for _, t := range m.byNumber {
		all.n += t.shadow.n
		all.called += t.shadow.called
	}
	if m.mode != "shadow" || all.n < m.o.MinN || lower(all.called, all.n, twice) < m.o.MinProbability {
		return nil
	}
	return []Line{{Key: "mode", Value: `"on"`, Advice: true, Evidence: fmt.Sprintf(
		"%d of %d guesses that were only watched would have been right", all.called, all.n)}}
}
