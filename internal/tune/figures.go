package tune

import (
	"math"
	"strings"
	"time"

	"mcpschedd/internal/record"
)

// Bounds of a tuner.
const (
	maxTools   = 1 << 12 // distinct tools; more are dropped
	maxAnswers = 1 << 19 // calls of which the last answer is remembered
	maxGaps    = 1 << 12 // gaps per tool
	maxName    = 512     // bytes of a tool's name
)

// toolStats is the recorded figures of one tool.
type toolStats struct {
	calls      int
	answers    int              // to calls and prefetches, except errors
	errors     int              // error answers
	size       record.Histogram // size of answers in KiB
	latency    record.Histogram // time to answer in ms
	prefetches int              // prefetches with a known fate
	right      int              // of those: the predicted call was made
	gaps       []gap            // between answers to the same call without a write in between
	from       time.Time        // first call
	to         time.Time        // last call
}

// answer is the last answer to a call.
type answer struct {
	at     time.Time
	result string // hash
}

// gap is the time between two answers to the same call.
type gap struct {
	after time.Duration
	same  bool // the answers were equal
}

// tool returns the figures of a tool, or nil if there are too many tools.
func (t *Tuner) tool(name string) *toolStats {
	stats := t.tools[name]
	if stats != nil {
		return stats
	}
	if len(t.tools) >= maxTools || len(name) > maxName {
		t.Dropped++
		return nil
	}
	stats = new(toolStats)
	t.tools[strings.Clone(name)] = stats
	return stats
}

// addCall counts a call that its upstream answered. Size and latency of errors are ignored, as
// most errors are short and come at once.
func (t *toolStats) addCall(at time.Time, failed bool, latency, bytes float64) {
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

// onlyErrors reports whether all answers were errors, which allow no conclusion.
func (t *toolStats) onlyErrors() bool { return t.errors > 0 && t.answers == 0 }

// compare compares an answer with the previous answer to the same call, unless the upstream had
// a write in between.
func (t *Tuner) compare(name, upstream, arguments, result string, at time.Time) {
	stats := t.tool(name)
	if stats == nil || arguments == "" || result == "" || at.IsZero() {
		return
	}
	key := [2]string{name, arguments}
	last, known := t.answers[key]
	if known && at.After(last.at) && !t.lastWrite[upstream].After(last.at) && len(stats.gaps) < maxGaps {
		stats.gaps = append(stats.gaps, gap{at.Sub(last.at), result == last.result})
	}
	if known || len(t.answers) < maxAnswers {
		t.answers[key] = answer{at, result}
	}
}

// stableFor returns the longest time after which answers were equal that is shorter than any
// after which they differed, and the number of such answers.
func (t *toolStats) stableFor() (d time.Duration, n int) {
	differ := time.Duration(math.MaxInt64)
	for _, g := range t.gaps {
		if !g.same {
			differ = min(differ, g.after)
		}
	}
	for _, g := range t.gaps {
		if g.same && g.after < differ {
			d = max(d, g.after)
			n++
		}
	}
	return d, n
}

// period returns the dates of the first and last call for Line.Evidence.
func (t *toolStats) period() string {
	if t.from.IsZero() {
		return ""
	}
	from, to := t.from.UTC().Format(time.DateOnly), t.to.UTC().Format(time.DateOnly)
	if from == to {
		return ", " + from
	}
	return ", " + from + " to " + to
}

// upperBound returns the upper end of the 95 % Wilson interval for right of n.
func upperBound(right, n int) float64 {
	const z = 1.96
	p, m := float64(right)/float64(n), float64(n)
	return (p + z*z/(2*m) + z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))) / (1 + z*z/m)
}
