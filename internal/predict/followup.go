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
	defaultMax = 3        // calls for one answer, where a follow-up does not say
	maxModels  = 512      // models that follow-ups are kept compiled of
	maxFollows = 64       // calls configured to follow one answer
	maxFound   = 256      // values that one binding leads to
	maxValue   = 8 << 10  // bytes of one value
	maxWritten = 16 << 10 // bytes of the arguments of one call
)

// followUp is what makes a template a configured one: it begins at the configured
// probability instead of the usual one, and finds its values by bindings. With the fields of
// the template it has more than 15.
type followUp struct {
	template
	edge        string
	foreign     bool // the tool is another upstream's
	max         int
	prior       float64
	independent bool // no argument is read off a result
	args        []binding
}

// binding is an argument of a follow-up's calls.
type binding struct {
	valuemodel.Binding
	name   string
	fixed  []byte // a constant, as JSON
	fanOut int    // how far the binding leads to any number of values; 0: to one
}

// What a step adds to how far a binding leads. A list that is named is better to go
// by than what is found anywhere, which may also stand once beside the list.
const (
	deepFanOut = 1
	listFanOut = 1 << 8
)

// followUps are the compiled follow-ups of a tool.
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

// edgeLabel names an edge by the tools that it joins.
func edgeLabel(trigger, tool string) string { return trigger + " → " + tool }

// compile compiles a follow-up; nil if a constant in it is no JSON. A hash of its bindings
// tells its name from those of others between the same tools: their constants may be private.
func compile(m *valuemodel.Model, c *valuemodel.FollowUp) *followUp {
	h := fnv.New32a()
	h.Write([]byte(c.Key()))
	f := &followUp{
		edge: fmt.Sprintf("%s #%08x", edgeLabel(m.Tool, c.Tool), h.Sum32()),
		max:  cmp.Or(c.Max, defaultMax), prior: cmp.Or(c.Probability, usualPrior), independent: true,
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

// follow works out the calls that are configured to follow one that was answered.
func (s *Session) follow(e *event, a *answer) {
	for _, f := range s.m.followUps(e.tool) {
		to := s.m.opt.Tool(f.Target)
		if f.foreign || to.Model == nil || to.Model.Upstream != s.m.upstream { // what it binds is not even looked at
			e.follows = append(e.follows, match{t: &f.template, e: e, size: 1, list: unbound})
			continue
		}
		calls, of := s.m.calls(f, e, a, to)
		for rank, arguments := range calls {
			e.follows = append(e.follows, match{t: &f.template, e: e, rank: rank, size: of, list: noList, arguments: arguments})
		}
	}
	e.follows = e.follows[:min(len(e.follows), maxFollows)]
}

// calls are the arguments of the calls that a follow-up makes of an answer, each once, in
// the order of the list they come from, and how long that list is.
//
// Of several arguments that may each be many things, the one that leads through
// the most lists drives; of equals the first by name. Of the others is taken what
// stands nearest to it, in the same element, if that is one thing.
func (m *Model) calls(f *followUp, e *event, a *answer, to Tool) (calls []string, of int) {
	if len(f.args) == 0 {
		if to.Schema == nil || m.checks.of(to, "{}") != "" {
			return nil, 0 // it says how often the tool follows, not with what
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

// write puts the arguments of one call together around the n-th value of the driver; false
// if one of them is missing or not alone, or two servers may read them as two things.
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

// retyped is a value as a tool wants it: a number for a text that is one, or the other way
// round. That is what the model would write, too.
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

// list is what one argument may be: nodes of a document.
type list struct {
	*document
	from  valuemodel.From
	nodes []int32
	cut   bool // there may be more
}

// find is what a binding leads to, in the order of the document. null is nothing, and so
// is an empty text: it names nothing.
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

// leads reports whether a path leads to a node.
func (l *list) matches(id int32, path []valuemodel.Step) bool {
	n := &l.document.nodes[id]
	if len(path) == 0 || n.parent < 0 {
		return len(path) == 0 && n.parent < 0
	}
	step, before := path[len(path)-1], path[:len(path)-1]
	switch {
	case step.Name == "":
		up := &l.document.nodes[n.parent]
		long := step.Max > 0 && (int(up.size) > step.Max || l.document.cut) // what is not there was cut off
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

// beside is the one value that stands nearest to a node of the driver's; nil if there is
// none, or several different ones do. Values of two elements of a list are never together.
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

// together says how deep the innermost value is that two nodes both stand in, and whether
// that is a list.
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
