package predict

import (
	"maps"
	"slices"
	"time"

	"mcpschedd/internal/enrich"
)

// toolStats is what is known of the calls of one tool.
type toolStats struct {
	Latency sketch  // s
	Size    sketch  // KB
	Lead    sketch  // s from when a call could be foreseen to when it was made
	Useful  outcome // whether a value of the result stood in a later argument
	Agreed  sum     // trials
	Labels  sum     // candidates that have had their label
}

// tool is what is known of a tool, for adding to it.
func (m *state) toolFor(name string) *toolStats {
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
func (m *state) lookupTool(name string) *toolStats {
	if t := m.tools[name]; t != nil {
		return t
	}
	return &toolStats{}
}

func (t *toolStats) each(do func(*sum)) {
	t.Latency.each(do)
	t.Size.each(do)
	t.Lead.each(do)
	t.Useful.each(do)
	do(&t.Agreed)
	do(&t.Labels)
}

func (t *toolStats) merge(o *toolStats) {
	t.Latency.merge(&o.Latency)
	t.Size.merge(&o.Size)
	t.Lead.merge(&o.Lead)
	t.Useful.plus(&o.Useful)
	t.Agreed.plus(o.Agreed)
	t.Labels.plus(o.Labels)
}

// useful is how likely a later argument is read off a result of the tool. It says what a
// result is worth, not how likely the call is.
func (t *toolStats) useful() float64 {
	return (float64(t.Useful.Right.Now) + 2) / (float64(t.Useful.Of.Now) + 4)
}

// spread is the percentiles that enrich reckons with, of seconds.
func (q *sketch) percentiles() enrich.Percentiles {
	at := func(p float64) time.Duration { return time.Duration(q.quantile(p) * float64(time.Second)) }
	return enrich.Percentiles{P10: at(0.1), P50: at(0.5), P90: at(0.9)}
}

// bytes is a percentile of sizes.
func (q *sketch) bytes(p float64) int { return int(q.quantile(p) * 1024) }

// Usual is what calls of a tool were seen to take and to bring.
type Typical struct {
	Latency    enrich.Percentiles // zero: not known
	Bytes      int                // of an answer, median; 0: not known
	Usefulness float64            // share of answers that something was read off later; 0.5 where it is not known
}

// Usual is what is known of the calls of a tool.
func (m *Model) Typical(tool string) Typical {
	t := m.learned.lookupTool(tool)
	return Typical{Latency: t.Latency.percentiles(), Bytes: t.Size.bytes(0.5), Usefulness: t.useful()}
}

// Seen are the tools that calls were seen of, in no order.
func (m *Model) ObservedTools() []string { return slices.Collect(maps.Keys(m.learned.tools)) }

// AnswersDiffer is why a tool is barred that gave two answers.
const AnswersDiffer = "answers differ"

// Trial notes that an answer fetched early was compared with one fetched when it
// was asked for, and whether they were the same. A tool that gave two is barred: it
// does not only read, or what it reads does not hold still.
func (m *Model) RecordTrial(tool string, same bool) {
	if !same {
		m.Bar(tool, AnswersDiffer)
		return
	}
	m.learned.toolFor(tool).Agreed.Now++
}

// Proven returns what reports whether a tool that is known to read by its annotation alone
// has proven it. The operator trusts its server, so it is the server's word that is put to
// the test: Options.ShadowLabels comparisons of its tools must have agreed, one of them the
// tool's own. Once two answers of any tool differed, each must have as many of its own.
func (m *Model) ProvenReadOnly() func(tool string) bool {
	all, need := 0, 1
	for _, t := range m.learned.tools {
		all += int(t.Agreed.Now)
	}
	for _, why := range m.learned.bars {
		if why == AnswersDiffer {
			need = m.opt.ShadowLabels
		}
	}
	return func(tool string) bool {
		return all >= m.opt.ShadowLabels && int(m.learned.lookupTool(tool).Agreed.Now) >= need && m.Barred(tool) == ""
	}
}

// maxBars bounds the tools that are barred. Past it all are: forgetting a bar
// would run a tool early that must not be.
const maxBars = 4096

// Bar says that calls of a tool are never run early again, and why. The first
// reason stays, and is kept in the state.
func (m *Model) Bar(tool, why string) {
	if why == "" {
		why = "barred"
	}
	m.learned.bar(tool, why)
}

func (m *state) bar(tool, why string) {
	if _, barred := m.bars[tool]; !barred && len(m.bars) < maxBars {
		m.bars[tool] = why
	}
}

// Barred is why a tool is never called early; "" if it is not barred. That its
// answers differed says no more than that its server's word is not good for it: it
// counts no longer once the operator has given theirs.
func (m *Model) Barred(tool string) string {
	why, barred := m.learned.bars[tool]
	switch {
	case !barred && len(m.learned.bars) >= maxBars:
		return "too many tools are barred"
	case why == AnswersDiffer && !m.opt.Tool(tool).UntrustedHint:
		return ""
	}
	return why
}
