package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// mostClasses is of how many tools lines are given.
const mostClasses = 100

// classes are the lines, as comments, that say what the tools do of which nobody says
// it: until somebody does, nothing is guessed at them, and little else is worth
// proposing.
func (t *tuning) classes(tools []string) string {
	if len(tools) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Nobody says what these %d tools do, so each call of them counts as a write, and\n# none is guessed at. To take out of the comments, once checked:\n", len(tools))
	for _, tool := range tools[:min(len(tools), mostClasses)] {
		b.WriteString(t.class(tool))
	}
	if more := len(tools) - mostClasses; more > 0 {
		fmt.Fprintf(&b, "# (And %d more.)\n", more)
	}
	return b.String()
}

// class is the lines for one tool. What a name that does not print, or is a pattern for
// others, seems to be is not what it is once pasted.
func (t *tuning) class(tool string) string {
	if strings.ContainsFunc(tool, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`*?[\`, r) }) {
		return fmt.Sprintf("# (Nothing to paste for %q: its name does not print, or stands for others.)\n", tool)
	}
	class, why := t.suggest(tool)
	if class == valuemodel.Indeterminate {
		class, why = valuemodel.ReadOnly, "only if so: its name does not tell"
	}
	key := config.Key("tools", tool)
	if at := t.config.Where(key); at != "" {
		why = "for the block at " + at + "; " + why
	}
	return fmt.Sprintf("# [%s]\n# side_effect_class = %q   # %s\n", key, class, why)
}

// suggest is what a tool may do: as the provider has it that its server claims to be,
// or by its name alone.
func (t *tuning) suggest(tool string) (valuemodel.Class, string) {
	owner, name, ok := strings.Cut(tool, "/")
	if !ok {
		return valuemodel.Suggest(tool), "suggested by its name"
	}
	i := slices.IndexFunc(t.upstreams, func(k lastKnown) bool { return k.name() == owner })
	if i >= 0 {
		m := t.model(tool)
		if vouched := vouchedFor(t.models, t.upstreams[i].Model, proxy.SurveyedTool{Model: m}); vouched.Class != m.Class {
			return vouched.Class, fmt.Sprintf("as provider %s has it, which the server only claims to be: provider = %q in [%s]", vouched.Provider, vouched.Provider, config.Key("upstreams", owner))
		}
	}
	return valuemodel.Suggest(name), "suggested by its name"
}
