package main

import (
	"fmt"
	"strings"

	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// mostClasses is of how many tools lines are given.
const mostClasses = 100

// classes are the lines, as comments, that say what those tools do of which no layer says
// it: until one does, nothing is prefetched of them, and little else is worth
// proposing.
func (t *tuning) classes(tools []string) string {
	if len(tools) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Nothing says what these %d tools do, so each call of them counts as a write, and\n# none is prefetched. To take out of the comments, once checked:\n", len(tools))
	for _, tool := range tools[:min(len(tools), mostClasses)] {
		b.WriteString(t.class(tool))
	}
	if more := len(tools) - mostClasses; more > 0 {
		fmt.Fprintf(&b, "# (And %d more.)\n", more)
	}
	return b.String()
}

// class is the lines for one tool, as comments.
func (t *tuning) class(tool string) string {
	owner, name, ok := strings.Cut(tool, "/")
	if !ok {
		owner, name = "", tool
	}
	found := proxy.SurveyedTool{Model: t.model(tool)}
	class, why := valuemodel.Suggest(name), "suggested by its name"
	if k, known := t.upstream(owner); known {
		_, found.Hints = proxy.Said(k.Model, k.offer, name)
		if vouched := vouchedFor(t.models, k.Model, found); vouched.Class != found.Model.Class {
			class, why = vouched.Class, "as provider "+vouched.Provider+" has it, which the server only claims to be"
		}
	}
	var b strings.Builder
	for line := range strings.Lines(suggestion(t.config, found, class, why)) {
		b.WriteString("# " + strings.TrimLeft(line, "# "))
	}
	return b.String()
}
