package valuemodel

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// Rule is a layer set by the operator for matching tools.
type Rule struct {
	Pattern string // "upstream/tool", a bare name (any upstream), or a glob of either
	Source  string // position, as FILE:LINE
	Layer   Layer
	Tuned   bool // written by the tune command; every rule of the operator overrides it
}

// Problem is a mistake in a rule.
type Problem struct {
	Rule    int    // index of the rule
	Key     string // configuration key of the field; "" for the rule as a whole
	Pattern string // that matches no tool; set by [Models.Unmatched] only
	Text    string
}

// Models are the operator's rules, compiled for merging with the other layers.
type Models struct {
	rules   []Rule
	ordered []compiledRule // in ascending precedence
	edges   func() edges   // of all rules and all providers, computed on first use
}

// compiledRule is a rule with its parsed pattern.
type compiledRule struct {
	Rule
	pattern
}

// Compile compiles the operator's rules, which are in file order. If it returns problems,
// the models must not be used.
func Compile(rules []Rule) (*Models, []Problem) {
	m := &Models{rules: slices.Clone(rules)}
	var problems []Problem
	for i, r := range rules {
		p := parsePattern(r.Pattern)
		problems = append(problems, check(i, p, r)...)
		if r.Tuned {
			p.exact, p.literals = false, lowestSpecificity
		}
		m.ordered = append(m.ordered, compiledRule{r, p})
	}
	slices.SortStableFunc(m.ordered, func(a, b compiledRule) int { return precedence(a.pattern, b.pattern) })
	m.edges = sync.OnceValue(func() edges { return index(allEdges(m.rules)) })
	return m, problems
}

// allEdges returns the distinct edges of all providers and rules.
func allEdges(rules []Rule) []Edge {
	seen := make(map[string]bool)
	all := appendEdges(nil, seen, loadSummary().edges())
	for _, r := range rules {
		all = appendEdges(all, seen, r.Layer.Invalidates)
	}
	return all
}

// check returns the problems of a rule.
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
		report("speculate", "true has no effect: side_effect_class is %s, and only read-only calls are prefetched", l.Class)
	}
	if l.Classify != "" && l.Class != Indeterminate {
		report("classify", "a tool that is %s has no read-only calls; omit side_effect_class or set it to indeterminate", l.Class)
	}
	return found
}

// rulesOf returns the rules that match a tool, in ascending precedence.
func (m *Models) rulesOf(upstream, tool string) (about []compiledRule) {
	for _, r := range m.ordered {
		if r.matches(upstream, tool) {
			about = append(about, r)
		}
	}
	return about
}

// Same reports whether both have the same rules at the same positions. Results cached under
// one may then be served under the other.
func (m *Models) Same(n *Models) bool { return reflect.DeepEqual(m.rules, n.rules) }
