package predict

import (
	"maps"
	"slices"
	"time"

	"mcpschedd/internal/enrich"
)

// toolStats are statistics of the calls of one tool.
type toolStats struct {
	Latency sketch // seconds
	Size    sketch // KB
	Lead    sketch // seconds from the first prediction of a call to the call
	Useful  share  // whether a later argument used a value of the result
	Agreed  int    // trials with equal results
	Labels  int    // labelled candidates
}

// share counts events and the positive ones among them. Older ones have less weight.
type share struct{ Right, Of float32 }

func (s *share) add(hit bool) {
	s.Right *= decay
	s.Of = s.Of*decay + 1
	if hit {
		s.Right++
	}
}

// toolFor returns the statistics of a tool for updating.
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

// lookupTool returns the statistics of a tool for reading.
func (m *state) lookupTool(name string) *toolStats {
	if t := m.tools[name]; t != nil {
		return t
	}
	return &toolStats{}
}

// useful returns the share of results from which a later argument was taken. It measures the
// value of a result, not the probability of the call.
func (t *toolStats) useful() float64 { return float64(t.Useful.Right+2) / float64(t.Useful.Of+4) }

// measure learns the latency and the result size of a call, unless it failed, as failures
// may end early.
func (m *Model) measure(e *event, r *Result) {
	if r.Failed {
		return
	}
	tool, size, took := e.tool, float64(r.Size)/1024, time.Duration(-1)
	if !e.at.IsZero() {
		took = r.At.Sub(e.at)
	}
	m.learn(func(s *state) {
		t := s.toolFor(tool)
		t.Latency.add(took.Seconds())
		t.Size.add(size)
	})
}

// Typical describes typical calls of a tool.
type Typical struct {
	Latency    enrich.Percentiles // zero if unknown
	Bytes      int                // median size of a result; zero if unknown
	Usefulness float64            // share of results that later arguments used; 0.5 if unknown
}

// Typical returns a summary of a tool's calls.
func (m *Model) Typical(tool string) Typical {
	t := m.learned.lookupTool(tool)
	return Typical{Latency: t.Latency.percentiles(), Bytes: t.Size.bytes(0.5), Usefulness: t.useful()}
}

// ObservedTools returns the tools with observed calls, in no particular order.
func (m *Model) ObservedTools() []string { return slices.Collect(maps.Keys(m.learned.tools)) }

// onTrial reports whether an edge is still only observed. It may prefetch once its candidates
// have Options.ShadowLabels labels.
func (m *Model) onTrial(e edge) bool { return m.learned.edges[e] < m.opt.ShadowLabels }

// Demote puts every edge to a tool on trial again, after a prefetch of the tool did harm.
func (m *Model) Demote(tool string) {
	m.learn(func(s *state) { maps.DeleteFunc(s.edges, func(e edge, _ int) bool { return e.Target == tool }) })
}

// AnswersDiffer is the reason for barring a tool whose prefetched result differed from the
// real one.
const AnswersDiffer = "answers differ"

// RecordTrial records the comparison of a prefetched result with that of the client's own
// call. A tool with different results is barred: it is not read-only, or its data change
// too fast.
func (m *Model) RecordTrial(tool string, same bool) {
	if !same {
		m.Bar(tool, AnswersDiffer)
		return
	}
	m.learn(func(s *state) { s.toolFor(tool).Agreed++ })
}

// ProvenReadOnly returns a function that reports whether trials have confirmed that a tool,
// which only its annotation declares read-only, is. As the annotations are tested per server,
// Options.ShadowLabels trials of all its tools must have agreed, one of them of the tool
// itself. Once the results of any tool have differed, every tool needs as many of its own.
func (m *Model) ProvenReadOnly() func(tool string) bool {
	all, need := 0, 1
	for _, t := range m.learned.tools {
		all += t.Agreed
	}
	for _, why := range m.learned.bars {
		if why == AnswersDiffer {
			need = m.opt.ShadowLabels
		}
	}
	return func(tool string) bool {
		return all >= m.opt.ShadowLabels && m.learned.lookupTool(tool).Agreed >= need && m.Barred(tool) == ""
	}
}

// maxBars is the largest number of barred tools. Beyond it all tools are barred, as
// forgetting a bar would allow a forbidden prefetch.
const maxBars = 4096

// Bar forbids all further prefetches of a tool. The first reason is kept and saved.
func (m *Model) Bar(tool, why string) {
	if why == "" {
		why = "barred"
	}
	m.learned.bar(tool, why) // every snapshot contains all bars
}

func (m *state) bar(tool, why string) {
	if _, barred := m.bars[tool]; !barred && len(m.bars) < maxBars {
		m.bars[tool] = why
	}
}

// Barred returns why a tool is never prefetched; "" if it is not barred. AnswersDiffer only
// disproves the server's annotation, so it no longer applies once the operator has declared
// the tool read-only.
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
