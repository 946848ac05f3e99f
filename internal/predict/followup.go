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
	defaultMax    = 3        // default number of calls per result
	maxModels     = 512      // models with cached compiled follow-ups
	maxFollows    = 64       // configured calls per result
	maxFound      = 256      // values of one binding
	maxBoundBytes = 8 << 10  // bytes of one value
	maxWritten    = 16 << 10 // bytes of the arguments of one call
	maxWalked     = 16 << 20 // bytes walked over for one binding
)

// followUp is a configured template: its prior is the configured probability, and bindings
// provide its values. It has more than 15 fields because it embeds the template.
type followUp struct {
	template
	edge        string
	foreign     bool // the tool belongs to another upstream
	max         int
	prior       float64
	independent bool // no argument comes from a result
	args        []binding
	driver      int // index of the argument with a call per value; -1 if none
}

// binding is an argument of a follow-up's calls.
type binding struct {
	valuemodel.Binding
	name   string
	fixed  []byte // JSON of a constant
	fanOut int    // zero if the binding has one value; else larger for more lists
}

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
//
// If several arguments have many values, the one that leads through the most lists drives,
// the first by name among equals. A named list is preferred to members found at any depth,
// which may also occur once beside the list.
func compile(m *valuemodel.Model, c *valuemodel.FollowUp) *followUp {
	h := fnv.New32a()
	h.Write([]byte(c.Key()))
	f := &followUp{
		edge: fmt.Sprintf("%s #%08x", edgeLabel(m.Tool, c.Tool), h.Sum32()),
		max:  cmp.Or(c.Max, defaultMax), prior: cmp.Or(c.Probability, defaultPrior), independent: true, driver: -1,
	}
	f.template = template{id: seed.num(3).str(f.edge), Trigger: m.Tool, Target: c.Tool, Driver: -1, follow: f}
	if upstream, tool, split := strings.Cut(c.Tool, "/"); split {
		if f.foreign = upstream != m.Upstream; !f.foreign {
			f.Target = tool
		}
	}
	for i, name := range slices.Sorted(maps.Keys(c.Args)) {
		b := binding{Binding: c.Args[name], name: name}
		switch b.From {
		case valuemodel.Constant:
			var err error
			if b.fixed, err = json.Marshal(b.Value); err != nil {
				return nil
			}
		case valuemodel.Result:
			f.independent = false
		}
		for _, s := range b.Path {
			switch {
			case s.All:
				b.fanOut += 1 << 8
			case s.Deep:
				b.fanOut++
			}
		}
		if b.fanOut > 0 && (f.driver < 0 || b.fanOut > f.args[f.driver].fanOut) {
			f.driver = i
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
			e.follows = append(e.follows, match{t: &f.template, e: e, size: 1})
			continue
		}
		calls, of := s.m.calls(f, e, a, to)
		for rank, arguments := range calls {
			e.follows = append(e.follows, match{t: &f.template, e: e, rank: rank, size: of, arguments: arguments})
		}
	}
	e.follows = e.follows[:min(len(e.follows), maxFollows)]
}

// calls returns the distinct arguments of the calls that a follow-up derives from a result,
// in the order of the driving list, and the length of that list.
func (m *Model) calls(f *followUp, e *event, a *answer, to Tool) (calls []string, of int) {
	if len(f.args) == 0 && (to.Schema == nil || to.refuses("{}") != "") {
		return nil, 0 // it has a probability but no arguments
	}
	lists := make([]list, len(f.args))
	for i := range f.args {
		if b := &f.args[i]; b.fixed != nil {
			lists[i].found = []found{{raw: b.fixed}}
		} else if lists[i] = a.resolve(e, b); len(lists[i].found) == 0 {
			return nil, 0
		}
	}
	rows := 1
	if f.driver >= 0 {
		rows = len(lists[f.driver].found)
	}
	for n := 0; n < rows && len(calls) < f.max; n++ {
		if arguments, ok := f.buildArguments(lists, n, to); ok && !slices.Contains(calls, arguments) {
			calls = append(calls, arguments)
		}
	}
	return calls, rows
}

// buildArguments builds the arguments of one call around the n-th value of the driver; false
// if an argument is missing or ambiguous, or servers may decode the arguments differently.
func (f *followUp) buildArguments(lists []list, n int, to Tool) (string, bool) {
	out := []byte{'{'}
	for i := range f.args {
		b := &f.args[i]
		raw := lists[i].found[0].raw
		switch {
		case i == f.driver:
			raw = lists[i].found[n].raw
		case b.fanOut > 0:
			raw = lists[i].nearest(&lists[f.driver], n)
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
// a number to a text, as the LLM would.
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

// list is the possible values of one argument.
type list struct {
	from  valuemodel.From
	found []found
	left  int // bytes that may still be walked over
}

// found is a value that a path leads to.
type found struct {
	raw []byte
	at  []int // of each value around it: the index of the member, or for an element the complement
}

// resolve returns the values of a binding in their order, without nulls and empty texts.
func (a *answer) resolve(e *event, b *binding) list {
	l, root := list{from: b.From, left: maxWalked}, []byte(nil)
	switch b.From {
	case valuemodel.Args:
		root = []byte(e.arguments)
	case valuemodel.Result:
		root = a.result()
	}
	if len(root) > 0 {
		l.find(root, b.Path, nil)
	}
	return l
}

// find collects the values that a path leads to from a value.
func (l *list) find(raw []byte, path []valuemodel.Step, at []int) {
	if l.left -= len(raw); l.left < 0 || len(at) > maxDepth || len(l.found) == maxFound {
		return
	}
	if len(path) == 0 {
		if string(raw) != "null" && string(raw) != `""` && len(raw) <= maxBoundBytes {
			l.found = append(l.found, found{raw, at})
		}
		return
	}
	step, i := path[0], 0
	descend := func(child []byte, place int, is bool) {
		inside := append(slices.Clip(at), place)
		if is {
			l.find(child, path[1:], inside)
		}
		if step.Deep {
			l.find(child, path, inside)
		}
		i++
	}
	for m := range jsonrpc.Members(raw) {
		descend(m.Value, i, step.Name != "" && string(m.Name) == step.Name)
	}
	for element := range jsonrpc.Elements(raw) {
		descend(element, ^i, step.Name == "" && (step.All || step.Index == i))
	}
}

// nearest returns the value nearest to the driver's n-th value; nil if there is none or if
// different values are equally near. Values of different list elements never belong together.
func (l *list) nearest(driver *list, n int) []byte {
	var near []byte
	most, one := -1, false
	for _, f := range l.found {
		shared := 0
		if l.from == driver.from {
			at := driver.found[n].at
			for shared < min(len(at), len(f.at)) && at[shared] == f.at[shared] {
				shared++
			}
			if shared < min(len(at), len(f.at)) && at[shared] < 0 {
				continue
			}
		}
		switch {
		case shared > most:
			near, most, one = f.raw, shared, true
		case shared == most:
			one = one && string(near) == string(f.raw)
		}
	}
	if !one {
		return nil
	}
	return near
}
