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
	Lead    sketch // seconds from the oldest prediction of a call that has not expired to the call
	Agreed  int    // trials with equal results
	Differs bool   // the results of a trial differed
	Labels  int    // labelled candidates
	Barred  string // why it is never prefetched again; "" if it is not barred

	// By how far a value was ahead in its list, the probable samples of calls that came. Right are those with a
	// later sample that was at least as probable.
	CanWait [maxAhead + 1]Count
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

// measure learns the latency and the result size of a call, unless it failed, as failures
// may end early.
func (m *Model) measure(e *event, r *Result) {
	if r.Failed {
		return
	}
	tool, size, took := e.tool, float64(r.Size)/1024, time.Duration(-1) // unknown: add ignores it
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
	Latency enrich.Percentiles // zero if unknown
	Bytes   int                // median size of a result; zero if unknown
}

// Typical returns a summary of a tool's calls.
func (m *Model) Typical(tool string) Typical {
	t := m.learned.lookupTool(tool)
	return Typical{Latency: t.Latency.percentiles(), Bytes: t.Size.bytes(0.5)}
}

// ObservedTools returns the tools with observed calls, in no particular order.
func (m *Model) ObservedTools() []string { return slices.Collect(maps.Keys(m.learned.tools)) }

// AnswersDiffer is the reason for barring a tool after a prefetched result differed from the
// real one.
const AnswersDiffer = "answers differ"

// RecordTrial records the comparison of a prefetched result with that of the client's own
// call. A tool with different results is barred: it is not read-only, or its data change
// too fast.
func (m *Model) RecordTrial(tool string, same bool) {
	if !same {
		m.Bar(tool, AnswersDiffer)
	}
	m.learn(func(s *state) {
		if t := s.toolFor(tool); same {
			t.Agreed++
		} else {
			t.Differs = true
		}
	})
}

// ProvenReadOnly returns a function that reports whether trials have confirmed that a tool,
// which only its annotation declares read-only, is. As the annotations are tested per server,
// Options.ShadowLabels trials of all its tools must have agreed, one of them of the tool
// itself. Once the results of any tool have differed, every tool needs as many of its own.
func (m *Model) ProvenReadOnly() func(tool string) bool {
	all, need := 0, 1
	for _, t := range m.learned.tools {
		all += t.Agreed
		if t.Differs || t.Barred == AnswersDiffer { // an older state has only the bar
			need = m.opt.ShadowLabels
		}
	}
	return func(tool string) bool {
		return all >= m.opt.ShadowLabels && m.learned.lookupTool(tool).Agreed >= need && m.Barred(tool) == ""
	}
}

// Bar forbids all further prefetches of a tool. The first reason is kept and saved, but AnswersDiffer
// is replaced by another one, which holds whatever the operator declares.
func (m *Model) Bar(tool, why string) {
	m.learned.bar(tool, why) // every merge keeps all bars
}

// bars returns the barred tools with the reasons.
func (m *state) bars() map[string]string {
	all := make(map[string]string)
	for tool, t := range m.tools {
		if t.Barred != "" {
			all[tool] = t.Barred
		}
	}
	return all
}

func (m *state) bar(tool, why string) {
	if t := m.toolFor(tool); t.Barred == "" || t.Barred == AnswersDiffer {
		t.Barred = why
	}
}

// Barred returns why a tool is never prefetched; "" if it is not barred. AnswersDiffer only
// disproves the server's annotation, so it no longer applies once the operator has declared
// the tool read-only. Without space for another tool, unknown ones are barred, as a bar that was
// not kept would allow a forbidden prefetch.
func (m *Model) Barred(tool string) string {
	t := m.learned.tools[tool]
	switch {
	case t == nil && len(m.learned.tools) >= maxTools:
		return "too many tools are known"
	case t == nil, t.Barred == AnswersDiffer && !m.opt.Tool(tool).Annotated:
		return ""
	}
	return t.Barred
}

// Barred returns why a stored state bars a tool, as [Model.Barred] does of a tool that only its
// server's annotations declare read-only. A state that cannot be read bars none.
func (s State) Barred(tool string) string {
	return s.annotated(0).Barred(tool)
}

// Proven reports whether a stored state has enough trials of a tool: see [Model.ProvenReadOnly].
func (s State) Proven(tool string, shadowLabels int) bool {
	return s.annotated(shadowLabels).ProvenReadOnly()(tool)
}

// annotated returns a model with a stored state, for tools that only their server's annotations declare
// read-only. It is empty if the state cannot be read.
func (s State) annotated(shadowLabels int) *Model {
	m := New(Options{ShadowLabels: shadowLabels, Tool: func(string) Tool { return Tool{Annotated: true} }})
	_ = m.learned.loadServer(s.Server) // an error leaves it empty
	return m
}
