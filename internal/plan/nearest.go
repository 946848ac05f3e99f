package plan

import (
	"strings"

	"mcpschedd/internal/nearest"
)

// names are the known names, used to suggest one for an unknown name.
type names struct {
	*nearest.Names
	list string // the first names in the given order
}

// shownNames is the number of names listed if none is similar.
const shownNames = 6

func newNames(all []string) *names {
	list := strings.Join(all[:min(len(all), shownNames)], ", ")
	if len(all) > shownNames {
		list += ", …"
	}
	return &names{nearest.New(all), list}
}

// suggest returns the end of a message about an unknown name: a similar known name, if any.
func (n *names) suggest(name string) string {
	if n == nil {
		return ""
	}
	if near := n.To(name); near != "" {
		return "; did you mean " + quoted(near) + "?"
	}
	return ""
}
