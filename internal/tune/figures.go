package tune

import (
	"math"
	"strings"
	"time"

	"mcpschedd/internal/record"
)

// Bounds on what is kept.
const (
	mostTools   = 1 << 12 // that are told apart
	mostAnswers = 1 << 19 // calls whose last answer is remembered
	mostGaps    = 1 << 12 // of one tool
	longestName = 512     // bytes
)

// tool is what was recorded of one.
type tool struct {
	calls      int
	answers    int              // of calls and prefetches, that are no errors
	errors     int              // that are
	size       record.Histogram // KiB of an answer
	latency    record.Histogram // ms until an answer
	prefetches int              // prefetches whose end is known
	right      int              // those of them that were asked for
	gaps       []gap            // between answers to one call, nothing having been written
	from       time.Time
	to         time.Time
}

// answer is the last one that a call got.
type answer struct {
	at     time.Time
	result string // hash
}

// gap is the time between two answers to one call.
type gap struct {
	of   time.Duration
	same bool // the answers are
}

// tool is what was recorded of a tool; nil if there are too many.
func (t *Tuner) tool(name string) *tool {
	one := t.tools[name]
	if one != nil {
		return one
	}
	if len(t.tools) >= mostTools || len(name) > longestName {
		t.Dropped++
		return nil
	}
	one = new(tool)
	t.tools[strings.Clone(name)] = one
	return one
}

// answered counts a call that its upstream answered. An error tells nothing of what an
// answer takes: most come at once, and are short.
func (t *tool) answered(at time.Time, failed bool, latency, bytes float64) {
	t.calls++
	if failed {
		t.errors++
		return
	}
	t.answers++
	if latency > 0 {
		t.latency.Add(latency)
	}
	if bytes > 0 {
		t.size.Add(bytes / 1024)
	}
	if at.IsZero() || at.Year() > 2199 {
		return
	}
	if t.from.IsZero() || at.Before(t.from) {
		t.from = at
	}
	if at.After(t.to) {
		t.to = at
	}
}

// groundless reports whether nothing may be concluded: it has only ever answered with
// errors.
func (t *tool) groundless() bool { return t.errors > 0 && t.answers == 0 }

// again compares an answer with the one before it to the same call, of the same
// upstream, unless something was written in between.
func (t *Tuner) again(name, upstream, arguments, result string, at time.Time) {
	one := t.tool(name)
	if one == nil || arguments == "" || result == "" || at.IsZero() {
		return
	}
	key := [2]string{name, arguments}
	last, known := t.answers[key]
	if known && at.After(last.at) && !t.wrote[upstream].After(last.at) && len(one.gaps) < mostGaps {
		one.gaps = append(one.gaps, gap{at.Sub(last.at), result == last.result})
	}
	if known || len(t.answers) < mostAnswers {
		t.answers[key] = answer{at, result}
	}
}

// stays is for how long answers stayed the same, without an exception, and how many
// answers say so.
func (t *tool) stays() (d time.Duration, n int) {
	differ := time.Duration(math.MaxInt64)
	for _, g := range t.gaps {
		if !g.same {
			differ = min(differ, g.of)
		}
	}
	for _, g := range t.gaps {
		if g.same && g.of < differ {
			d = max(d, g.of)
			n++
		}
	}
	return d, n
}

// period is when calls were recorded, as evidence has it.
func (t *tool) period() string {
	if t.from.IsZero() {
		return ""
	}
	from, to := t.from.UTC().Format(time.DateOnly), t.to.UTC().Format(time.DateOnly)
	if from == to {
		return ", " + from
	}
	return ", " + from + " to " + to
}

// atMost is how large a share may be in truth of which right of n were seen, with a
// certainty of 95 % (Wilson).
func atMost(right, n int) float64 {
	const z = 1.96
	p, m := float64(right)/float64(n), float64(n)
	return (p + z*z/(2*m) + z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))) / (1 + z*z/m)
}
