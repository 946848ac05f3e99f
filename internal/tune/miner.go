package tune

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/valuemodel"
)

// Options say how a miner works. The zero value works.
type Options struct {
	Model    func(tool string) *valuemodel.Model // "upstream/tool" → what is known of it now; nil: nothing of any
	MinN     int                                 // what is proposed was seen at least so often; default 10
	Bytes    int64                               // bound on memory; default 96 MiB
	Secret   func(argument, value string) bool   // whether a value of that argument, as JSON, may be a secret: it is proposed nowhere; nil: none is, but long ones of letters and digits
	Missing  func(tool string) bool              // "upstream/tool" → it is known that its upstream has no such tool: nothing is proposed of it; nil: of none
	Upstream string                              // whose tools those of traces are, unless they name their own; "": they are asked for, and proposed, by their bare names

	MinProbability float64       // that a follow-up needs; default 0.3
	Waste          time.Duration // hidden waiting that makes up for one wasted call; default 50ms
	MaxAge         time.Duration // how long a guess may be used, where its tool's freshness says nothing; default 10s
}

// Miner adds up what was recorded. It is not safe for use by several goroutines.
type Miner struct {
	o      Options
	models map[string]*valuemodel.Model
	edges  map[string]*edge // by its words

	held      []session // sessions that are to be mined
	heldBytes int64
	mined     int                       // sessions that have been
	split     map[string]int            // trigger → sessions that have been, with calls of it
	follows   map[[2]string]*succession // trigger and tool → how often the one came right after the other

	tools    map[string]*tool
	byNumber []*tool
	mode     string // of enrichment, in the log read last

	seen    [][]seen
	sights  int
	traced  uint32 // sessions of traces
	left    left
	sources []Source

	sessions map[string]uint32 // of event logs
	counted  map[uint32]bool   // those that a source has
	from     map[string]int    // process → source
	spoken   map[uint32][]said // session → its calls whose arguments were recorded
	kept     int64             // bytes of them

	learned map[string][]learned // trigger → what was learned to follow
}

// New makes a miner that has seen nothing.
func New(o Options) *Miner {
	o.MinN = cmp.Or(max(o.MinN, 0), 10)
	o.Bytes = cmp.Or(max(o.Bytes, 0), 96<<20)
	o.Waste = cmp.Or(max(o.Waste, 0), 50*time.Millisecond)
	o.MaxAge = cmp.Or(max(o.MaxAge, 0), 10*time.Second)
	if !(o.MinProbability > 0) {
		o.MinProbability = 0.3
	}
	return &Miner{
		o: o, models: make(map[string]*valuemodel.Model), edges: make(map[string]*edge), tools: make(map[string]*tool),
		sessions: make(map[string]uint32), from: make(map[string]int), spoken: make(map[uint32][]said), counted: make(map[uint32]bool), learned: make(map[string][]learned),
		split: make(map[string]int), follows: make(map[[2]string]*succession),
	}
}

// named is a tool of a trace as Options.Model names it.
func (m *Miner) named(tool string) string {
	if m.o.Upstream == "" || strings.Contains(tool, "/") {
		return tool
	}
	return m.o.Upstream + "/" + tool
}

// mostModels bounds the tools that are looked up.
const mostModels = 4096

// unknown is what is known of a tool that nobody knows.
var unknown = &valuemodel.Model{Layer: valuemodel.Layer{Class: valuemodel.Indeterminate}}

// model is what is known of a tool now.
func (m *Miner) model(tool string) *valuemodel.Model {
	if known, ok := m.models[tool]; ok {
		return known
	}
	found := unknown
	if m.o.Model != nil && len(m.models) < mostModels {
		if known := m.o.Model(tool); known != nil {
			found = known
		}
		m.models[tool] = found
	}
	return found
}

// Layer is what follows from all that was added.
func (m *Miner) Layer() Layer {
	m.followEvents()
	m.follow()
	blocks := make(map[string][]Line)
	m.add(blocks, "", m.proposeMode()...)
	for _, t := range m.byNumber {
		m.add(blocks, t.name, m.proposeCosts(t)...)
		m.add(blocks, t.name, m.proposeSpeculate(t)...)
	}
	m.proposeChanges(blocks)
	why := m.proposeFollowUps(blocks)
	m.proposeLearned(blocks)
	silent := m.silences(blocks, why)
	for tool := range blocks {
		if m.groundless(tool) {
			delete(blocks, tool)
		}
	}
	tidy(blocks)
	return Layer{
		Blocks: ordered(blocks), Notes: slices.Concat(m.notes(), silent), Sources: m.sources, Unclassified: m.unclassified(),
	}
}
