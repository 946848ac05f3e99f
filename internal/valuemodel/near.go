package valuemodel

import (
	"fmt"
	"strings"

	"mcpschedd/internal/nearest"
)

// Unmatched returns the rules, edges and follow-ups that name no existing tool. tools are all
// tools, as "upstream/tool".
func (m *Models) Unmatched(tools []string) []Problem {
	var problems []Problem
	for i, r := range m.rules {
		about := parsePattern(r.Pattern)
		report := func(key string, p pattern, written string) {
			if text := unmatchedText(tools, p, written); text != "" {
				problems = append(problems, Problem{Rule: i, Key: key, Pattern: written, Text: text})
			}
		}
		report("", about, r.Pattern)
		for n, e := range r.Layer.Invalidates {
			report(fmt.Sprintf("invalidates[%d]", n), parsePattern(e.Tool), e.Tool)
		}
		for n, f := range r.Layer.FollowUps {
			name := f.Tool
			if of := about.upstream; !strings.Contains(name, "/") && !strings.ContainsAny(of, `*?[\`) {
				name = of + "/" + name // a bare name means the same upstream
			}
			report(fmt.Sprintf("follow_up[%d].tool", n), parsePattern(name), name)
		}
	}
	return problems
}

// unmatchedText returns the message for a pattern that matches none of the tools; "" if it
// matches one.
func unmatchedText(tools []string, p pattern, written string) string {
	var bare []string
	for _, full := range tools {
		upstream, tool, _ := strings.Cut(full, "/")
		if p.matches(upstream, tool) {
			return ""
		}
		bare = append(bare, tool)
	}
	switch {
	case !p.exact:
		return fmt.Sprintf("no tool matches %q", written)
	case p.bare:
		return noSuchTool(written, nearest.New(bare).To(written))
	}
	return noSuchTool(written, nearest.New(tools).To(written))
}

func noSuchTool(written, near string) string {
	if near == "" {
		return fmt.Sprintf("no tool is named %q", written)
	}
	return fmt.Sprintf("no tool is named %q; did you mean %q?", written, near)
}
