package predict

import (
	"maps"
	"slices"
	"time"
)

// toolStats is what is known of the calls of one tool.
type toolStats struct {
	latency sketch  // s
	size    sketch  // KB
	lead    sketch  // s from when a call could be foreseen to when it was made
	useful  outcome // whether a value of the result stood in a later argument
	agreed  sum     // trials
	labels  sum
}

// tool is what is known of a tool, for adding to it.
func (m *Learner) tool(name string) *toolStats {
	t := m.tools[name]
	if t == nil {
		t = &toolStats{}
		if len(m.tools) < maxTools {
			m.tools[name] = t
		}
	}
	return t
}

// known is what is known of a tool, for reading.
func (m *Learner) known(name string) *toolStats {
	if t := m.tools[name]; t != nil {
		return t
	}
	return &toolStats{}
}

// Tools are those that calls were seen of, in no order.
func (m *Learner) Tools() []string { return slices.Collect(maps.Keys(m.tools)) }

// Latency is a quantile of how long calls of a tool took; 0 if none was seen.
func (m *Learner) Latency(tool string, p float64) time.Duration {
	return time.Duration(m.known(tool).latency.quantile(p) * float64(time.Second))
}

// Size is a quantile of the size of a tool's results in bytes; 0 if none was seen.
func (m *Learner) Size(tool string, p float64) int {
	return int(m.known(tool).size.quantile(p) * 1024)
}

// Lead is a quantile of the time from when a call of the tool could be foreseen to
// when it was made; 0 if none was.
func (m *Learner) Lead(tool string, p float64) time.Duration {
	return time.Duration(m.known(tool).lead.quantile(p) * float64(time.Second))
}

// Useful is the probability that a later argument is read off a result of the
// tool. It says what a result is worth, not how likely the call is.
func (m *Learner) Useful(tool string) float64 { return m.known(tool).useful.mean(0.5, 4) }

// Labels is how many candidates of a tool have had their label so far.
func (m *Learner) Labels(tool string) int { return int(m.known(tool).labels.now) }

// AnswersDiffer is why a tool is barred that gave two answers.
const AnswersDiffer = "answers differ"

// Trial notes that an answer fetched early was compared with one fetched when it
// was asked for, and whether they were the same. A tool that gave two is barred: it
// does not only read, or what it reads does not hold still.
func (m *Learner) Trial(tool string, same bool) {
	if !same {
		m.Bar(tool, AnswersDiffer)
		return
	}
	t := m.tool(tool)
	t.agreed.now++
}

// Trials is how many comparisons of a tool's answers agreed.
func (m *Learner) Trials(tool string) int { return int(m.known(tool).agreed.now) }

// maxBars bounds the tools that are barred. Past it all are: forgetting a bar
// would run a tool early that must not be.
const maxBars = 4096

// Bar says that calls of a tool are never run early again, and why. The first
// reason stays.
func (m *Learner) Bar(tool, why string) {
	if why == "" {
		why = "barred"
	}
	if m.bar(tool, why) {
		m.note(edgeName{"", tool}, why)
	}
}

func (m *Learner) bar(tool, why string) bool {
	if _, barred := m.bars[tool]; barred || len(m.bars) >= maxBars {
		return false
	}
	m.bars[tool] = why
	return true
}

// Barred is why calls of a tool are never run early; "" if they may be.
func (m *Learner) Barred(tool string) string {
	if why, barred := m.bars[tool]; barred || len(m.bars) < maxBars {
		return why
	}
	return "too many tools are barred"
}
