package plan

import (
	"strings"

	"mcpschedd/internal/nearest"
)

// names are those there are, for telling what an unknown one was meant to be.
type names struct {
	*nearest.Names
	list string // the first of them, as they were given
}

// shownNames is how many names are told where none is near.
const shownNames = 6

func newNames(all []string) *names {
	list := strings.Join(all[:min(len(all), shownNames)], ", ")
	if len(all) > shownNames {
		list += ", …"
	}
	return &names{nearest.New(all), list}
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
