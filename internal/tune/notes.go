package tune

import (
	"fmt"
	"slices"
	"strings"

	"mcpschedd/internal/valuemodel"
)

// left is what there was no room for.
type left struct {
	tools, calls, arguments int
	unsaid                  int // calls whose arguments were not recorded
}

// notes say what was left out, and why.
func (m *Miner) notes() []string {
	var out []string
	say := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	say(m.left.tools, fmt.Sprintf("lines left out: they name more than %d tools", mostTools))
	say(m.left.calls, "answers not compared with others: there was no room for them")
	say(m.left.arguments, "calls that no follow-up was read off: there was no room for their arguments")
	say(m.left.unsaid, `calls that no follow-up was read off: their arguments were not recorded, as they are with telemetry.record_arguments = "full"`)
	var missing, wrong []string
	for _, t := range m.byNumber {
		switch {
		case m.missing(t.name):
			missing = append(missing, fmt.Sprintf("%s (%d calls)", quoted(t.name), t.calls))
		case m.groundless(t.name):
			wrong = append(wrong, fmt.Sprintf("%s (%d)", quoted(t.name), t.errors))
		}
	}
	if n := len(missing); n > 0 {
		out = append(out, fmt.Sprintf("left out, as their upstreams do not offer them: %s", listed(missing)))
	}
	if n := len(wrong); n > 0 {
		out = append(out, fmt.Sprintf("left out, as all that they ever answered was errors: %s", listed(wrong)))
	}
	return out
}

const mostListed = 20 // names in one note

// listed is a list of names, in the order of the alphabet.
func listed(names []string) string {
	slices.Sort(names)
	return firstOf(names)
}

// firstOf is a list of names, of which the first are shown.
func firstOf(names []string) string {
	text := strings.Join(names[:min(len(names), mostListed)], ", ")
	if more := len(names) - mostListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// missing reports whether a tool is known not to exist.
func (m *Miner) missing(tool string) bool { return m.o.Missing != nil && m.o.Missing(tool) }

// groundless reports whether nothing may be proposed of a tool: it does not exist, or
// has never answered but with errors.
func (m *Miner) groundless(tool string) bool {
	t := m.tools[tool]
	return m.missing(tool) || t != nil && t.errors > 0 && t.answers == 0
}

// unclassified are the tools that were called and of which nobody says what they do.
func (m *Miner) unclassified() (names []string) {
	for _, t := range m.byNumber {
		k := m.model(t.name)
		unknown := k == unknown || k.Class == valuemodel.Indeterminate && k.Classify == "" && k.Sources["side_effect_class"] == "default"
		if unknown && t.calls > 0 && !m.groundless(t.name) {
			names = append(names, t.name)
		}
	}
	slices.Sort(names)
	return names
}
