package predict

import (
	"bytes"
	"slices"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// follow works out what is configured to follow a call that was answered: what may
// be made, and what no rule allows. free says that no argument of the call itself
// was read off a result. What is beyond the calls that a follow-up may make comes
// last: another may make it.
func (f *Model) follow(t trigger, r Result, free bool) (out []Proposal, refused []Candidate) {
	var beyond []Proposal
	m := f.o.Tool(t.tool).Model
	if m == nil || len(m.FollowUps) == 0 {
		return nil, nil
	}
	in := source{arguments: []byte(t.arguments), answer: r}
	for _, e := range f.edges.after(m) {
		to := f.subject(e.tool)
		if reason := f.elsewhere(&e, to); reason != "" { // what it binds is not even looked at
			refused = append(refused, Candidate{Key: call.Key{Tool: e.tool}, P: e.prior, Why: Why{Edge: e.name, Configured: true}, Reason: reason})
			continue
		}
		calls, of := f.calls(&e, to, &in)
		rank := 0
		for _, arguments := range calls {
			g := e.guess(to, arguments)
			g.Why.Free = free && e.free
			if g.Reason = f.reason(&g, &to.standing); g.Reason != "" {
				refused = append(refused, g)
				continue
			}
			p := Proposal{
				Tool: e.tool, Arguments: arguments, Edge: e.name, Rank: rank, Of: of, Prior: e.prior, Free: g.Why.Free,
			}
			if rank < e.max {
				out = append(out, p)
			} else {
				beyond = append(beyond, p)
			}
			rank++
		}
	}
	if !f.o.Learn { // else what was learned says of them what it knows: to propose them would only forbid them
		out = append(out, beyond...)
	}
	f.stats.Proposed += len(out)
	f.stats.Refused += len(refused)
	if in.looked && in.result.json == nil && !r.Unread {
		f.stats.NotJSON++
	}
	return out, refused
}

// elsewhere is why a follow-up leads to no tool of this upstream; "" if it does.
func (f *Model) elsewhere(e *edge, to *subject) enrich.Reason {
	switch {
	case e.foreign:
		return enrich.Origin
	case to.Model == nil:
		return enrich.NotSpeculatable
	case to.Model.Upstream != f.upstream:
		return enrich.Origin
	}
	return ""
}

func (e *edge) guess(to *subject, arguments string) Candidate {
	g := to.sample
	g.Key.Arguments, g.P = arguments, e.prior
	g.Why = Why{Edge: e.name, Max: e.max, Configured: true}
	return g
}

// Calls are the calls that each of a model's follow-ups makes of a call and its
// answer: what a session would propose if nothing were known of the tools that they
// lead to. It is for trying follow-ups on what was recorded.
func Calls(m *valuemodel.Model, arguments string, answer Result) []Made {
	f := &Model{}
	in := source{arguments: []byte(arguments), answer: answer}
	all := make([]Made, len(m.FollowUps))
	for i := range m.FollowUps {
		e, ok := ready(m, &m.FollowUps[i])
		switch {
		case !ok || e.foreign:
		case len(e.args) == 0:
			all[i] = Made{[]string{"{}"}, 1}
		default:
			all[i].Arguments, all[i].Of = f.calls(&e, &subject{}, &in)
		}
	}
	return all
}

// Made is what a follow-up makes of one answer.
type Made struct {
	Arguments []string // of its calls, canonical, in the order of the list that they come from
	Of        int      // how long that list is
}

// calls are the arguments of the calls that a follow-up makes, each once, in the
// order of the list they come from, and how long that list is.
func (f *Model) calls(e *edge, to *subject, in *source) (calls []string, of int) {
	if len(e.args) == 0 && !f.takesNothing(to) {
		return nil, 0 // it says how often the tool follows, not with what
	}
	rows, of := e.rows(in)
	for row := range rows {
		arguments, ok := "", row != nil
		if ok {
			arguments, ok = f.arguments(e, to, row)
		}
		switch {
		case !ok:
			f.stats.Binding++
		case !slices.Contains(calls, arguments):
			calls = append(calls, arguments)
		}
		if len(calls) >= max(e.max, thoughtOf) {
			break
		}
	}
	return calls, of
}

// takesNothing reports whether a tool is known to take a call without arguments.
func (f *Model) takesNothing(to *subject) bool {
	return to.Schema != nil && f.checked.of(to.Tool, "{}").reason != enrich.Schema
}

// arguments is the canonical object of a call's arguments. Where the tool wants a
// text for a number that an answer gives, or the other way round, it gets it: that
// is what the model would write, too. Constants stay as configured.
func (f *Model) arguments(e *edge, to *subject, row [][]byte) (string, bool) {
	arguments, ok := e.object(row)
	if !ok || to.Schema == nil {
		return arguments, ok
	}
	as, other := arguments, slices.Clone(row)
	for range maxRetyped + 1 {
		v := f.checked.of(to.Tool, as)
		if v.reason != enrich.Schema {
			return as, true
		}
		if v.fault == nil || len(v.fault.Path) != 1 || !e.retype(other, v.fault.Path[0], to.Schema.Wants(v.fault.Path)) {
			break
		}
		if as, ok = e.object(other); !ok {
			break
		}
	}
	return arguments, true
}

// object writes the arguments of a call; false if they are too long, or two servers
// may read them as two things.
func (e *edge) object(row [][]byte) (string, bool) {
	out := []byte{'{'}
	for i, raw := range row {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, e.args[i].name...), ':')
		out = append(out, raw...)
	}
	canonical, ok := jsonrpc.AppendCanonical(nil, append(out, '}'))
	return string(canonical), ok && len(canonical) <= maxWritten
}

const (
	maxWritten = 16 << 10 // bytes of a guess's arguments
	maxRetyped = 3        // arguments that may be wanted as the other type
)

// retype writes the argument of that name as the other type; false if that is not
// wanted, or its own type is.
func (e *edge) retype(row [][]byte, member string, wants []string) bool {
	name := jsonrpc.AppendString(nil, member)
	i := slices.IndexFunc(e.args, func(a argument) bool { return bytes.Equal(a.name, name) })
	if i < 0 || e.args[i].fixed != nil {
		return false
	}
	text := slices.Contains(wants, "string")
	number := slices.Contains(wants, "number") || slices.Contains(wants, "integer")
	as := retype(row[i])
	if as == nil || text == number || text != (as[0] == '"') {
		return false
	}
	row[i] = as
	return true
}

// retype writes a number as a text, and a text that is a number as one; nil for
// anything else.
func retype(raw []byte) []byte {
	switch c := raw[0]; {
	case c == '-' || c >= '0' && c <= '9':
		return slices.Concat([]byte{'"'}, raw, []byte{'"'})
	case c == '"' && len(raw) > 2 && len(raw) < 32:
		inside := raw[1 : len(raw)-1]
		if d := inside[0]; (d == '-' || d >= '0' && d <= '9') && jsonrpc.Valid(inside) {
			return inside
		}
	}
	return nil
}
