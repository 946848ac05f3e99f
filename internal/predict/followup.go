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
	defaultMax = 3        // default number of calls per result
	maxModels  = 512      // models with cached compiled follow-ups
	maxFollows = 64       // configured calls per result
	maxFound   = 256      // values of one binding
	maxValue   = 8 << 10  // bytes of one value
	maxWritten = 16 << 10 // bytes of the arguments of one call
)

// followUp is a configured template: its prior is the configured probability, and bindings
// provide its values. It has more than 15 fields as it embeds the template.
type followUp struct {
	template
	edge        string
	foreign     bool // the tool belongs to another upstream
	max         int
	prior       float64
	independent bool // no argument comes from a result
	args        []binding
}

// binding is an argument of a follow-up's calls.
type binding struct {
	valuemodel.Binding
	name   string
	fixed  []byte // JSON of a constant
	fanOut int    // zero if the binding has one value; else larger for more specific lists
}

// Contributions of a step to binding.fanOut. A named list is preferred to members found at
// any depth, which may also occur once beside the list.
const (
	deepFanOut = 1
	listFanOut = 1 << 8
)

// followUps returns the compiled follow-ups of a tool.
func (m *Model) followUps(tool string) []*followUp {
	of := m.opt.Tool(tool).Model
	if known, ok := m.follows[of]; ok || of == nil || len(of.FollowUps) == 0 {
		return known
	}
	if m.follows == nil || len(m.follows) >= maxModels {
		m.follows = map[*valuemodel.Model][]*followUp{}
	}
	var all []*followUp
	for i := range of.FollowUps {
		if f := compile(of, &of.FollowUps[i]); f != nil {
			all = append(all, f)
		}
	}
	m.follows[of] = all
	return all
}

// edgeLabel returns the label of the edge between two tools.
func edgeLabel(trigger, tool string) string { return trigger + " → " + tool }

// compile compiles a follow-up; nil if a constant is not JSON. Its label contains a hash of
// the bindings, which distinguishes follow-ups between the same tools without disclosing
// their constants.
func compile(m *valuemodel.Model, c *valuemodel.FollowUp) *followUp {
	h := fnv.New32a()
	h.Write([]byte(c.Key()))
	f := &followUp{
		edge: fmt.Sprintf("%s #%08x", edgeLabel(m.Tool, c.Tool), h.Sum32()),
		max:  cmp.Or(c.Max, defaultMax), prior: cmp.Or(c.Probability, defaultPrior), independent: true,
	}
	f.template = template{id: seed.num(3).str(f.edge), Trigger: m.Tool, Target: c.Tool, Driver: -1, follow: f}
	if upstream, tool, split := strings.Cut(c.Tool, "/"); split {
		if f.foreign = upstream != m.Upstream; !f.foreign {
			f.Target = tool
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		b := binding{Binding: c.Args[name], name: name}
		switch b.From {
		case valuemodel.Constant:
			var err error
			if b.fixed, err = json.Marshal(b.Value); err != nil {
				return nil
			}
		case valuemodel.Result, valuemodel.Text:
			f.independent = false
		}
		for _, s := range b.Path {
			switch {
			case s.All:
				b.fanOut += listFanOut
			case s.Deep:
				b.fanOut += deepFanOut
			}
		}
		f.args = append(f.args, b)
	}
	return f
}

// follow computes the calls configured to follow an answered call.
func (s *Session) follow(e *event, a *answer) {
	for _, f := range s.m.followUps(e.tool) {
		to := s.m.opt.Tool(f.Target)
		if f.foreign || to.Model == nil || to.Model.Upstream != s.m.upstream { // its bindings are never read
			e.follows = append(e.follows, match{t: &f.template, e: e, size: 1, list: noCall})
			continue
		}
		calls, of := s.m.calls(f, e, a, to)
		for rank, arguments := range calls {
			e.follows = append(e.follows, match{t: &f.template, e: e, rank: rank, size: of, list: noList, arguments: arguments})
		}
	}
	e.follows = e.follows[:min(len(e.follows), maxFollows)]
}

// calls returns the distinct arguments of the calls that a follow-up derives from a result,
// in the order of their list, and the length of that list.
//
// If several arguments have many values, the one that leads through the most lists drives,
// the first by name among equals. Each other argument takes the single value nearest to the
// driving one, in the same element.
func (m *Model) calls(f *followUp, e *event, a *answer, to Tool) (calls []string, of int) {
	if len(f.args) == 0 {
		if to.Schema == nil || m.checks.verdict(to, "{}") != "" {
			return nil, 0 // it has a probability but no arguments
		}
	}
	lists, driver := make([]list, len(f.args)), -1
	for i := range f.args {
		b := &f.args[i]
		if b.fixed != nil {
			continue
		}
		if lists[i] = a.resolve(e, b); len(lists[i].nodes) == 0 {
			return nil, 0
		}
		if b.fanOut > 0 && (driver < 0 || b.fanOut > f.args[driver].fanOut) {
			driver = i
		}
	}
	rows := 1
	if driver >= 0 {
		rows = len(lists[driver].nodes)
	}
	for n := 0; n < rows && len(calls) < f.max; n++ {
		if arguments, ok := f.buildArguments(lists, driver, n, to); ok && !slices.Contains(calls, arguments) {
			calls = append(calls, arguments)
		}
	}
	return calls, rows
}

// buildArguments builds the arguments of one call around the n-th value of the driver; false
// if an argument is missing or ambiguous, or servers may decode the arguments differently.
func (f *followUp) buildArguments(lists []list, driver, n int, to Tool) (string, bool) {
	out := []byte{'{'}
	for i := range f.args {
		b := &f.args[i]
		raw := b.fixed
		switch {
		case raw != nil:
		case b.fanOut == 0:
			raw = lists[i].raw(0)
		case i == driver:
			raw = lists[i].raw(n)
		default:
			raw = lists[i].nearest(&lists[driver], n)
		}
		if raw == nil {
			return "", false
		}
		if b.fixed == nil {
			raw = retyped(raw, to.Schema.TypesAt([]string{b.name}))
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, b.name), ':'), raw...)
	}
	canonical, ok := jsonrpc.AppendCanonical(nil, append(out, '}'))
	return string(canonical), ok && len(canonical) <= maxWritten
}

// retyped converts a value to the type in the tool's schema: a numeric text to a number, or
// a number to a text, as the model would.
func retyped(raw []byte, wants []string) []byte {
	wantsText := slices.Contains(wants, "string")
	wantsNumber := slices.Contains(wants, "number") || slices.Contains(wants, "integer")
	switch c := raw[0]; {
	case wantsText == wantsNumber:
	case wantsText && (c == '-' || isDigit(c)):
		return slices.Concat([]byte{'"'}, raw, []byte{'"'})
	case wantsNumber && c == '"' && isNumber(string(raw[1:len(raw)-1])):
		return raw[1 : len(raw)-1]
	}
	return raw
}

// list is the possible values of one argument, as nodes of a document.
type list struct {
	*document
	from  valuemodel.From
	nodes []int32
	cut   bool // there may be more nodes
}

// resolve returns the values of a binding in document order, without nulls and empty texts.
func (a *answer) resolve(e *event, b *binding) list {
	l := list{from: b.From}
	switch b.From {
	case valuemodel.Args:
		l.document = parse([]byte(e.arguments))
	case valuemodel.Text:
		l.document = a.textDocument()
	default:
		l.document = a.result()
	}
	if l.document == nil {
		return l
	}
	l.cut = l.document.cut
	for i := range l.document.nodes {
		id := int32(i)
		if !l.matches(id, b.Path) {
			continue
		}
		raw := l.document.raw(id)
		if l.document.nodes[i].to == 0 || string(raw) == "null" || string(raw) == `""` || len(raw) > maxValue {
			continue
		}
		if len(l.nodes) == maxFound {
			l.cut = true
			break
		}
		l.nodes = append(l.nodes, id)
	}
	return l
}

// matches reports whether a path leads to a node.
func (l *list) matches(id int32, path []valuemodel.Step) bool {
	n := &l.document.nodes[id]
	if len(path) == 0 || n.parent < 0 {
		return len(path) == 0 && n.parent < 0
	}
	step, before := path[len(path)-1], path[:len(path)-1]
	switch {
	case step.Name == "":
		up := &l.document.nodes[n.parent]
		long := step.Max > 0 && (int(up.size) > step.Max || l.document.cut) // the list may be longer than its truncated text
		return n.name == nil && !long && (step.All || step.Index == int(n.index)) && l.matches(n.parent, before)
	case string(n.name) != step.Name || n.name == nil:
		return false
	case !step.Deep:
		return l.matches(n.parent, before)
	}
	for up := n.parent; up >= 0; up = l.document.nodes[up].parent {
		if l.matches(up, before) {
			return true
		}
	}
	return false
}

func (l *list) raw(n int) []byte { return l.document.raw(l.nodes[n]) }

// nearest returns the value nearest to the driver's n-th node; nil if there is none or if
// different values are equally near. Values of different list elements never belong together.
func (l *list) nearest(driver *list, n int) []byte {
	var near []byte
	most, one, last := -1, false, 0
	for i, id := range l.nodes {
		shared, apart := 0, false
		if l.from == driver.from {
			shared, apart = l.document.commonAncestor(id, driver.nodes[n])
		}
		switch raw := l.raw(i); {
		case apart || shared < most:
		case shared > most:
			near, most, one, last = raw, shared, true, i
		default:
			one, last = one && string(near) == string(raw), i
		}
	}
	if !one || l.cut && last == len(l.nodes)-1 {
		return nil
	}
	return near
}

// commonAncestor returns the depth of the innermost value that contains two nodes, and
// whether it is an array.
func (d *document) commonAncestor(a, b int32) (depth int, apart bool) {
	var around []int32
	for ; a >= 0; a = d.nodes[a].parent {
		around = append(around, a)
	}
	for ; b >= 0; b = d.nodes[b].parent {
		if i := slices.Index(around, b); i >= 0 {
			return len(around) - i, d.nodes[b].kind == array
		}
	}
	return 0, false
}
