package valuemodel

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"mcpschedd/internal/nearest"
)

// Rule is a layer set by the operator for matching tools. It has more than 15 fields because
// it embeds a layer.
type Rule struct {
	Pattern string `block:""` // "NAME/TOOL", a bare name (any upstream), or a glob of either
	Layer
	Source  string            // position, as FILE:LINE
	Sources map[string]string // configuration key of a field → its position; of an absent key Source counts
	Tuned   bool              // written by the tune command; every rule of the operator overrides it
}

// source returns the position of a field's key.
func (r *Rule) source(key string) string { return cmp.Or(r.Sources[key], r.Source) }

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
	ordered []compiledRule   // in ascending precedence
	edges   func() edgeIndex // of all rules and all providers, computed on first use
}

// compiledRule is a rule with its parsed pattern. It has more than 15 fields because it embeds the rule.
type compiledRule struct {
	Rule
	pattern
}

// Compile compiles the operator's rules, which are in file order. If it returns problems,
// the models must not be used.
func Compile(rules []Rule) (_ *Models, problems []Problem) {
	m := &Models{rules: slices.Clone(rules)}
	for i, r := range rules {
		p := parsePattern(r.Pattern)
		problems = append(problems, check(i, p, r)...)
		if r.Tuned {
			p.form = tunedRule
		}
		m.ordered = append(m.ordered, compiledRule{r, p})
	}
	slices.SortStableFunc(m.ordered, func(a, b compiledRule) int { // of equal ones, the later in the file wins
		return cmp.Or(cmp.Compare(a.form, b.form), cmp.Compare(a.literals, b.literals))
	})
	m.edges = sync.OnceValue(func() edgeIndex {
		all := loadSummary().edges()
		for _, r := range m.rules {
			all = append(all, r.Layer.Invalidates...)
		}
		return newEdgeIndex(all)
	})
	return m, problems
}

// check returns the problems of a rule.
func check(i int, p pattern, r Rule) (found []Problem) {
	report := func(key, format string, args ...any) {
		found = append(found, Problem{Rule: i, Key: key, Text: fmt.Sprintf(format, args...)})
	}
	const want = `want "TOOL", "NAME/TOOL" or a glob such as "github/get_*", have %q`
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
		if p := parsePattern(f.Tool); p.form == globPattern || !p.valid() {
			report(fmt.Sprintf("follow_up[%d].tool", n), `want "TOOL" or "NAME/TOOL", have %q`, f.Tool)
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

// Same reports whether both have the same rules, on whatever lines. Results cached under one
// may then be served under the other.
func (m *Models) Same(n *Models) bool {
	return slices.EqualFunc(m.ordered, n.ordered, func(a, b compiledRule) bool {
		a.Source, a.Sources, b.Source, b.Sources = "", nil, "", nil
		return reflect.DeepEqual(a, b)
	})
}

// Unmatched returns the rules, edges and follow-ups that name no existing tool. tools
// are all tools, as "NAME/TOOL".
func (m *Models) Unmatched(tools []string) (problems []Problem) {
	names := slices.Clone(tools)
	for _, full := range tools {
		_, tool, _ := strings.Cut(full, "/")
		names = append(names, tool)
	}
	for i, r := range m.rules {
		report := func(key, written string) {
			p := parsePattern(written)
			if slices.ContainsFunc(tools, func(full string) bool {
				upstream, tool, _ := strings.Cut(full, "/")
				return p.matches(upstream, tool)
			}) {
				return
			}
			text := fmt.Sprintf("no tool matches %q", written)
			if p.form != globPattern {
				text += nearest.Question(written, names)
			}
			problems = append(problems, Problem{Rule: i, Key: key, Pattern: written, Text: text})
		}
		report("", r.Pattern)
		for n, e := range r.Layer.Invalidates {
			report(fmt.Sprintf("invalidates[%d]", n), e.Tool)
		}
		for n, f := range r.Layer.FollowUps {
			name := f.Tool
			if p := parsePattern(r.Pattern); !strings.Contains(name, "/") && !IsGlob(p.upstream) {
				name = p.upstream + "/" + name // a bare name means the same upstream
			}
			report(fmt.Sprintf("follow_up[%d].tool", n), name)
		}
	}
	return problems
}
