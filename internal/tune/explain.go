package tune

import (
	"cmp"
	"encoding/json"
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// Bounds on how a call is explained.
const (
	mostBack  = 24 // calls before it, as many as a session remembers live
	mostTurns = 10 // turns before it, likewise
	mostSlots = 8  // arguments
	mostWays  = 3  // for one argument
	mostForms = 6  // for one call and one before it
	mostEdges = 1 << 15

	leastSessions = 3   // in which a value is seen that is taken for a constant
	longestFixed  = 100 // bytes of it
)

// explainer finds what calls could have been read off.
type explainer struct {
	secret func(argument, value string) bool
	edges  map[string]*edge
	fixed  map[[3]string]spread // tool, argument and value → how often
	calls  map[string]int       // tool → calls
}

// spread is how often a value was seen.
type spread struct{ n, sessions, last int }

func newExplainer(sessions []session, secret func(argument, value string) bool) *explainer {
	if secret == nil {
		secret = func(string, string) bool { return false }
	}
	x := &explainer{secret: secret, edges: make(map[string]*edge), fixed: make(map[[3]string]spread), calls: make(map[string]int)}
	for i, s := range sessions {
		for k := range s.steps {
			x.count(i, &s.steps[k])
		}
	}
	return x
}

func (x *explainer) count(session int, s *step) {
	if !s.target || s.failed || len(s.args) > mostArguments {
		return
	}
	x.calls[s.tool]++
	for m := range jsonrpc.Members([]byte(s.args)) {
		key := [3]string{s.tool, string(m.Name), string(m.Value)}
		v := x.fixed[key]
		if len(m.Value) > longestFixed || tokenLike(string(m.Value)) || v.n == 0 && len(x.fixed) >= mostEdges {
			continue
		}
		if v.n++; v.sessions == 0 || v.last != session {
			v.sessions++
			v.last = session
		}
		x.fixed[key] = v
	}
}

// constant reports whether an argument has a value so often, in several sessions,
// that it may be that by itself.
func (x *explainer) constant(tool, name, value string) bool {
	v := x.fixed[[3]string{tool, name, value}]
	return v.sessions >= leastSessions && v.n*20 >= x.calls[tool] && !x.secret(name, value)
}

// tokenLike reports whether a value may be a key or a token, which has no place in a
// configuration: long, of letters and digits, and without what parts words or paths.
func tokenLike(value string) bool {
	digits, letters := 0, 0
	for _, c := range value {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters++
		case c == ' ' || c == '/' || c == '.':
			return false
		}
	}
	return digits+letters >= 16 && digits > 0 && letters > 0
}

// session explains the calls of a session by those before them, but for calls of the
// tools that are put aside.
func (x *explainer) session(number int, s []step, aside map[string]bool) {
	found := make([]*contents, len(s))
	for i := range s {
		t := &s[i]
		if !t.target || t.repeat || t.failed || len(t.args) > mostArguments || t.model.Disclosure == valuemodel.ThirdParty {
			continue
		}
		names, values := members(t.args)
		if len(names) > mostSlots {
			continue
		}
		done := make(map[string]bool)
		for k := i - 1; k >= max(0, i-mostBack) && s[k].turn >= t.turn-mostTurns; k-- {
			if s[k].turn == t.turn || s[k].failed || aside[s[k].tool] || upstreamOf(s[k].tool) != upstreamOf(t.tool) {
				continue
			}
			if found[k] == nil {
				found[k] = contentsOf(&s[k])
			}
			x.explain(number, &s[k], t, found[k], names, values, done)
		}
	}
}

// explain counts the edges that lead from one call to another.
func (x *explainer) explain(session int, e, t *step, in *contents, names, values []string, done map[string]bool) {
	ways := make([][]way, len(names))
	for i := range names {
		ways[i] = in.ways(names[i], values[i])
		if x.constant(t.tool, names[i], values[i]) {
			ways[i] = append(ways[i], fixedWay(values[i]))
		}
		if len(ways[i]) == 0 {
			return
		}
	}
	for _, form := range forms(ways) {
		anchored := slices.ContainsFunc(form, func(w way) bool { return w.binding.From != valuemodel.Constant })
		if !anchored && e.turn != t.turn-1 {
			continue
		}
		words := wordsOf(e.tool, t.tool, names, form)
		if done[words] {
			continue
		}
		done[words] = true
		x.support(session, words, e.tool, t.tool, names, form)
	}
}

func (x *explainer) support(session int, words, trigger, tool string, names []string, form []way) {
	e := x.edges[words]
	if e == nil {
		if len(x.edges) >= mostEdges {
			return
		}
		e = &edge{words: words, trigger: trigger, tool: tool, args: make(map[string]valuemodel.Binding, len(names)), last: -1}
		for i, name := range names {
			e.args[name] = form[i].binding
		}
		x.edges[words] = e
	}
	e.support++
	if e.last != session {
		e.last = session
		e.sessions++
	}
}

// forms choose one way for each argument, in up to mostForms manners.
func forms(ways [][]way) [][]way {
	out := [][]way{nil}
	for _, w := range ways {
		var next [][]way
		for _, o := range out {
			for _, one := range w[:min(len(w), mostWays)] {
				if len(next) < mostForms {
					next = append(next, append(slices.Clip(o), one))
				}
			}
		}
		out = next
	}
	return out
}

// way is where a value may come from.
type way struct {
	binding valuemodel.Binding
	text    string // of the binding
}

func wayOf(b valuemodel.Binding) way { return way{b, b.String()} }

func fixedWay(raw string) way {
	var v any
	d := json.NewDecoder(bytesOf(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return way{}
	}
	return wayOf(valuemodel.Binding{Value: v})
}

// members are the names and values of arguments, in the order of their names.
func members(args string) (names, values []string) {
	type member struct{ name, value string }
	var all []member
	for m := range jsonrpc.Members([]byte(args)) {
		all = append(all, member{string(m.Name), string(m.Value)})
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	for _, m := range all {
		names, values = append(names, m.name), append(values, m.value)
	}
	return names, values
}
