package valuemodel

import (
	"fmt"
	"slices"
	"strings"

	"mcpschedd/internal/nearest"
)

// Unmatched finds what the rules say of tools that do not exist. tools are all
// there are, as "upstream/tool".
func (m *Models) Unmatched(tools []string) []Problem {
	all := newToolNames(tools)
	var problems []Problem
	for i, r := range m.rules {
		report := func(key, text string) {
			if text != "" {
				problems = append(problems, Problem{Rule: i, Key: key, Text: text})
			}
		}
		report("", all.missing(m.patterns[i], r.Pattern))
		for n, e := range r.Layer.Invalidates {
			report(fmt.Sprintf("invalidates[%d]", n), all.missing(parsePattern(e.Tool), e.Tool))
		}
		owners := all.owners(m.patterns[i])
		for n, f := range r.Layer.FollowUps {
			report(fmt.Sprintf("follow_up[%d].tool", n), all.missingAfter(owners, f.Tool))
		}
	}
	return problems
}

// toolNames are the tools there are.
type toolNames struct {
	full  []string    // "upstream/tool"
	split [][2]string // upstream, tool
}

func newToolNames(full []string) toolNames {
	t := toolNames{full: full}
	for _, name := range full {
		upstream, tool, _ := strings.Cut(name, "/")
		t.split = append(t.split, [2]string{upstream, tool})
	}
	return t
}

// owners are the upstreams of the tools that a pattern matches; of all, if it
// matches none.
func (t toolNames) owners(p pattern) []string {
	var some, all []string
	for _, s := range t.split {
		all = append(all, s[0])
		if p.matches(s[0], s[1]) {
			some = append(some, s[0])
		}
	}
	if some == nil {
		some = all
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// missing says that no tool is matched; "" if one is.
func (t toolNames) missing(p pattern, written string) string {
	var bare []string
	for _, s := range t.split {
		if p.matches(s[0], s[1]) {
			return ""
		}
		bare = append(bare, s[1])
	}
	switch {
	case !p.exact:
		return fmt.Sprintf("no tool matches %q", written)
	case p.bare:
		return meant(written, nearest.New(bare).To(written))
	}
	return meant(written, nearest.New(t.full).To(written))
}

// missingAfter says that none of these upstreams has a follow-up's tool; "" if
// one has.
func (t toolNames) missingAfter(owners []string, tool string) string {
	if strings.Contains(tool, "/") {
		return t.missing(parsePattern(tool), tool)
	}
	fulls := make(map[string]string) // tool → "upstream/tool"
	var names []string
	for i, s := range t.split {
		if slices.Contains(owners, s[0]) {
			names = append(names, s[1])
			fulls[s[1]] = t.full[i]
		}
	}
	if slices.Contains(names, tool) {
		return ""
	}
	return meant(tool, fulls[nearest.New(names).To(tool)])
}

func meant(written, near string) string {
	if near == "" {
		return fmt.Sprintf("no tool is named %q", written)
	}
	return fmt.Sprintf("no tool is named %q; did you mean %q?", written, near)
}
