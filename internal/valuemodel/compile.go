package valuemodel

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// Rule is one of the operator's layers.
type Rule struct {
	Pattern string // "upstream/tool", a bare name (of any upstream), or a glob of either
	Source  string // where it stands, FILE:LINE
	Layer   Layer
	Tuned   bool // measured and not said by the operator: it gives way to every rule that is
}

// Problem is what a rule says that cannot be meant.
type Problem struct {
	Rule    int    // its place among the rules
	Key     string // the field, as the configuration names it; "": the rule as a whole
	Pattern string // of the tools that do not exist, for [Models.Unmatched]
	Text    string
}

// Models are the operator's layers, ready to be merged with the others.
type Models struct {
	rules   []Rule
	ordered []ruling     // the rules, the one that gives way first
	edges   func() edges // of every rule and every provider; worked out when first asked for
}

// ruling is a rule, and the tools that it is about.
type ruling struct {
	Rule
	pattern
}

// Compile makes models of the operator's rules, in the order of their file. What
// cannot be meant is listed; the models should then not be used.
func Compile(rules []Rule) (*Models, []Problem) {
	m := &Models{rules: slices.Clone(rules)}
	var problems []Problem
	for i, r := range rules {
		p := parsePattern(r.Pattern)
		problems = append(problems, check(i, p, r)...)
		if r.Tuned {
			p.exact, p.literals = false, beforeAll
		}
		m.ordered = append(m.ordered, ruling{r, p})
	}
	slices.SortStableFunc(m.ordered, func(a, b ruling) int { return precedence(a.pattern, b.pattern) })
	m.edges = sync.OnceValue(func() edges { return index(allEdges(m.rules)) })
	return m, problems
}

// allEdges are those of every provider and every rule, each once.
func allEdges(rules []Rule) []Edge {
	seen := make(map[string]bool)
	all := appendEdges(nil, seen, summarised().edges())
	for _, r := range rules {
		all = appendEdges(all, seen, r.Layer.Invalidates)
	}
	return all
}

// check finds what a rule says that cannot be meant.
func check(i int, p pattern, r Rule) []Problem {
	var found []Problem
	report := func(key, format string, args ...any) {
		found = append(found, Problem{Rule: i, Key: key, Text: fmt.Sprintf(format, args...)})
	}
	const want = `want "tool", "upstream/tool" or a glob such as "github/get_*", have %q`
	if !p.valid() {
		report("", want, r.Pattern)
	}
	l := r.Layer
	for n, e := range l.Invalidates {
		if !parsePattern(e.Tool).valid() {
			report(fmt.Sprintf("invalidates[%d]", n), want, e.Tool)
		}
	}
	for n, f := range l.FollowUps {
		if p := parsePattern(f.Tool); !p.exact || !p.valid() {
			report(fmt.Sprintf("follow_up[%d].tool", n), `want "tool" or "upstream/tool", have %q`, f.Tool)
		}
	}
	if l.Class == "" || l.Class.Reads() {
		return found
	}
	if isTrue(l.Speculate) && l.Classify == "" {
		report("speculate", "true has no effect: side_effect_class is %s, and only reads are made on a guess", l.Class)
	}
	if l.Classify != "" && l.Class != Indeterminate {
		report("classify", "no call of a tool that is %s only reads; leave side_effect_class out, or say indeterminate", l.Class)
	}
	return found
}

// rulesOf returns the rules about a tool, the one that gives way first.
func (m *Models) rulesOf(upstream, tool string) (about []ruling) {
	for _, r := range m.ordered {
		if r.matches(upstream, tool) {
			about = append(about, r)
		}
	}
	return about
}

// Same reports whether both have the same rules at the same places: answers stored under one may
// then be served under the other.
func (m *Models) Same(n *Models) bool { return reflect.DeepEqual(m.rules, n.rules) }
