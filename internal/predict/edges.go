package predict

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

const (
	defaultMax = 3   // calls for one answer, where a follow-up does not say
	thoughtOf  = 8   // calls for one answer that are thought of, so that it can be learned which are made
	maxModels  = 512 // whose follow-ups are kept ready
)

// edge is a configured follow-up, made ready.
type edge struct {
	tool    string // as the upstream names it; with its name before it, if foreign
	foreign bool   // of another upstream
	name    string
	max     int
	prior   float64
	free    bool // no argument is read off a result
	args    []argument
}

// argument is an argument of a follow-up's calls.
type argument struct {
	name    []byte // as JSON
	binding valuemodel.Binding
	text    string // the binding as it is written
	fixed   []byte // a constant, as JSON
	fans    int    // how far the binding leads to any number of values; 0: to one
}

// What a step adds to how far a binding leads. A list that is named is better to go
// by than what is found anywhere, which may also stand once beside the list.
const (
	anywhere    = 1
	eachElement = 1 << 8
)

// edges are the follow-ups of the tools that were called.
type edges struct {
	of     map[*valuemodel.Model][]edge
	limits map[string]int // edge → calls for one answer
}

// after returns the follow-ups of a tool.
func (e *edges) after(m *valuemodel.Model) []edge {
	if known, ok := e.of[m]; ok {
		return known
	}
	if e.of == nil || len(e.of) >= maxModels {
		e.of, e.limits = map[*valuemodel.Model][]edge{}, map[string]int{}
	}
	var all []edge
	for i := range m.FollowUps {
		if f, ok := ready(m, &m.FollowUps[i]); ok {
			all = append(all, f)
			e.limits[f.name] = f.max
		}
	}
	e.of[m] = all
	return all
}

// max is how many calls for one answer an edge allows.
func (e *edges) max(name string) int { return cmp.Or(e.limits[name], defaultMax) }

// edgeName names an edge by the tools that it joins.
func edgeLabel(trigger, tool string) string { return trigger + " → " + tool }

// ready makes a follow-up ready; false if a constant in it is no JSON. Its name
// tells it from others between the same tools by a hash of its bindings: their
// constants may be nobody else's business.
func ready(m *valuemodel.Model, f *valuemodel.FollowUp) (edge, bool) {
	h := fnv.New32a()
	h.Write([]byte(f.Key()))
	e := edge{tool: f.Tool, max: cmp.Or(f.Max, defaultMax), prior: f.Probability, free: true}
	if upstream, tool, split := strings.Cut(f.Tool, "/"); split {
		if e.foreign = upstream != m.Upstream; !e.foreign {
			e.tool = tool
		}
	}
	e.name = fmt.Sprintf("%s #%08x", edgeLabel(m.Tool, f.Tool), h.Sum32())
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		a := argument{name: jsonrpc.AppendString(nil, name), binding: f.Args[name], text: f.Args[name].String()}
		switch a.binding.From {
		case valuemodel.Constant:
			fixed, err := json.Marshal(a.binding.Value)
			if err != nil {
				return edge{}, false
			}
			a.fixed = fixed
		case valuemodel.Result, valuemodel.Text:
			e.free = false
		}
		for _, s := range a.binding.Path {
			switch {
			case s.All:
				a.fans += eachElement
			case s.Deep:
				a.fans += anywhere
			}
		}
		e.args = append(e.args, a)
	}
	return e, true
}
