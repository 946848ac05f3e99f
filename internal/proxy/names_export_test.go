package proxy

import (
	"mcpschedd/internal/upstream"
)

// View lets tests assign and resolve names without running upstreams.
type View struct{ view }

func NewView(only string) View { return View{view{newNames(), only}} }

func policyOf(ups []string, prefix, never bool) *policy {
	p := &policy{prefix: prefix}
	if never {
		p.NameStyle = "never"
	}
	for _, name := range ups {
		p.members = append(p.members, &member{Upstream: Upstream{Spec: upstream.Spec{Name: name}}})
	}
	return p
}

// Show assigns a name to a tool of one of ups.
func (v View) Show(ups []string, prefix, never bool, up, tool string) string {
	return v.nameOf(policyOf(ups, prefix, never), upstream.Tools, target{up, tool})
}

// Resolve returns the tool that a name stands for.
func (v View) Resolve(ups []string, prefix, never bool, name string) (up, tool string, known bool) {
	t, known := v.resolve(policyOf(ups, prefix, never), upstream.Tools, name)
	return t.upstream, t.name, known
}
