package plan

import "mcpschedd/internal/nearest"

// names are those there are, for telling what an unknown one was meant to be.
type names struct{ *nearest.Names }

func newNames(all []string) *names { return &names{nearest.New(all)} }

// has reports whether a name is one of them.
func (n *names) has(name string) bool { return n.Has(name) }

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
