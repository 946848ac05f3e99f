package plan

import (
	"strings"

	"mcpschedd/internal/nearest"
)

// names are those there are, for telling what an unknown one was meant to be.
type names struct {
	*nearest.Names
	first []string // of them, as they were given
	more  bool
}

// shownNames is how many names are told where none is near.
const shownNames = 6

func newNames(all []string) *names {
	first := all[:min(len(all), shownNames)]
	return &names{nearest.New(all), first, len(all) > len(first)}
}

// meant is the end of a message about an unknown name: what it may have been.
func (n *names) meant(name string) string {
	if n == nil {
		return ""
	}
	if near := n.To(name); near != "" {
		return "; did you mean " + quoted(near) + "?"
	}
	return ""
}

// list is the end of a message about an unknown name that is near to none: some of
// those there are.
func (n *names) list() string {
	text := "; there are " + strings.Join(n.first, ", ")
	if n.more {
		text += ", …"
	}
	return text
}
