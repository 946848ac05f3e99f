package main

import (
	"fmt"
	"strings"
	"unicode"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// linesToPaste returns configuration lines for the unclassified tools of an upstream.
func linesToPaste(c *config.Config, models *valuemodel.Models, u valuemodel.Upstream, tools []proxy.SurveyedTool) string {
	var b, lines strings.Builder
	claimed, known := "", 0 // the provider that only the server claims to be, and how many of the tools its table has
	for _, t := range tools {
		if t.Model.Upstream != u.Name || t.Hidden || !t.Model.Unclassified() {
			continue
		}
		text, provider := suggestion(c, models, u, u.Name+"/"+t.Model.Tool, t)
		if lines.WriteString(text); provider != "" {
			claimed, known = provider, known+1
		}
	}
	if lines.Len() == 0 {
		return ""
	}
	fmt.Fprintf(&b, "\n# %s: these tools are unclassified, so each call of them counts as a write. Check these lines before you paste them:\n", u.Name)
	if known > 0 {
		fmt.Fprintf(&b, "# (Its own name is that of a %q server. If it is one, provider = %q in [%s] classifies %d of these tools.)\n", claimed, claimed, config.Key("upstreams", u.Name), known)
	}
	return b.String() + lines.String()
}

// suggestion returns the lines for one tool, under its name in the configuration, and the
// provider that its server claims to be if that provider's table has the tool. The lines are
// comments if nothing can be suggested or a block for the tool exists. There are no lines for a
// name that is unprintable or a glob, as pasting it could affect other tools.
func suggestion(c *config.Config, models *valuemodel.Models, u valuemodel.Upstream, name string, t proxy.SurveyedTool) (lines, claimed string) {
	if strings.ContainsFunc(t.Model.Tool, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`*?[\`, r) }) {
		return fmt.Sprintf("# (Nothing to paste for %q: its name is not printable, or is a glob.)\n", t.Model.Tool), ""
	}
	class, why := valuemodel.Suggest(t.Model.Tool), "suggested by its name"
	u.Provider = t.Model.Provider // as if the operator had set what the server claims
	if vouched := models.Resolve(u, t.Model.Tool, t.Hints); vouched.Class != t.Model.Class {
		class, claimed = vouched.Class, vouched.Provider
		why = "from the table of provider " + claimed + ", which the server only claims to be"
	}
	key := config.Key("tools", name)
	mark := ""
	if class == valuemodel.Indeterminate {
		mark, class, why = "#", valuemodel.ReadOnly, "only if true: its name does not tell"
	}
	if at := c.Where(key); at != "" {
		mark, why = "#", "for the block at "+at+"; "+why
	}
	return fmt.Sprintf("%s[%s]\n%sside_effect_class = %q   # %s; %s\n", mark, key, mark, class, why, annotations(t.Hints)), claimed
}

// annotations describes a server's annotations of a tool.
func annotations(h valuemodel.Hints) string {
	var hints []string
	if h.ReadOnly != nil {
		hints = append(hints, fmt.Sprintf("readOnlyHint = %t", *h.ReadOnly))
	}
	if h.Destructive != nil {
		hints = append(hints, fmt.Sprintf("destructiveHint = %t", *h.Destructive))
	}
	if len(hints) == 0 {
		return "no annotation"
	}
	return "annotation " + strings.Join(hints, ", ")
}
