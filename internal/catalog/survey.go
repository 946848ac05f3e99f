package catalog

import (
	"fmt"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

const (
	// maxToolName is the length of a tool's name with clientPrefix above which some
	// clients drop the tool: 64 is the lowest limit of the model APIs in use, Claude
	// Code's own limit is 128.
	maxToolName  = 64
	clientPrefix = "mcp__mcpschedd__"
)

// SurveyedTool is a tool with its model and the server's annotations.
type SurveyedTool struct {
	Model   *valuemodel.Model
	Hints   valuemodel.Hints
	Hidden  bool   // not allowed by the configuration
	Listed  string // name that clients see; "" if it is not listed
	Warning string // problem with the name; "" if there is none
}

// WithServerClaims returns u with the server's own name, and the server's annotations of a
// tool. offer is the server's last offer, nil if the server was never connected.
func WithServerClaims(u valuemodel.Upstream, offer *upstream.Offer, tool string) (valuemodel.Upstream, valuemodel.Hints) {
	if offer == nil {
		return u, valuemodel.Hints{}
	}
	u.Server = jsonrpc.Text(offer.Server, "name")
	item, _ := offer.Find(upstream.Tools, tool)
	return u, toolHints(item.Raw)
}

// Survey returns the tools in the offer of a lease's server, with the names that clients would see.
func (v *View) Survey(l *Lease, offer *upstream.Offer) (all []SurveyedTool) {
	for _, item := range offer.Lists[upstream.Tools] {
		t := SurveyedTool{Model: v.Tool(l, item.Name).Model, Hints: toolHints(item.Raw), Hidden: !l.Member.Allowed(item.Name)}
		if !t.Hidden {
			t.Listed = v.NameOf(upstream.Tools, Target{l.Name(), item.Name})
			if t.Listed != "" || !v.Catalog.names.taken(upstream.Tools, Target{l.Name(), item.Name}) { // else the status says it
				t.Warning = nameWarning(item.Name, t.Listed)
			}
			if why := t.Model.Lacks(t.Hints); why != "" {
				t.Warning = fmt.Sprintf("no call of tool %q is cached or prefetched: %s", item.Name, why)
			}
		}
		all = append(all, t)
	}
	return all
}

// nameWarning returns a warning about the name under which a tool is listed, or "".
func nameWarning(tool, name string) string {
	switch {
	case name == "":
		return fmt.Sprintf("tool %q is not listed: the limit of names is reached", tool)
	case len(clientPrefix)+len(name) > maxToolName:
		return fmt.Sprintf("tool %q: %d characters with a client's prefix %q, but some clients accept only %d", name, len(clientPrefix)+len(name), clientPrefix, maxToolName)
	}
	return ""
}

// ToolStatus summarizes the tools of an offer of the upstream. It caches the summary, as computing it for
// hundreds of tools is slow.
func (m *Member) ToolStatus(p *Policy, offer *upstream.Offer, settings valuemodel.PrefetchSettings) record.UpstreamStatus {
	known := m.status.Load()
	if known == nil || known.offer != offer {
		known = &cachedStatus{offer, m.countTools(p, offer, settings)}
		m.status.Store(known)
	}
	return known.UpstreamStatus
}

// cachedStatus is the summary of the tools in an offer.
type cachedStatus struct {
	offer *upstream.Offer
	record.UpstreamStatus
}

// countTools counts the tools that may be cached and prefetched. If not all may, it gives the
// reason and the configuration line that most of the others have in their verdicts.
func (m *Member) countTools(p *Policy, offer *upstream.Offer, settings valuemodel.PrefetchSettings) (out record.UpstreamStatus) {
	if offer == nil {
		return record.UpstreamStatus{Why: "its tools are not known yet: no session has used it"}
	}
	type reason struct{ why, line string }
	tools := make(map[reason]int)
	unclassified := reason{"each call of an unclassified tool counts as a write", "mcpschedd check --connect -v prints the lines to paste"}
	var most, local reason
	for _, item := range offer.Lists[upstream.Tools] {
		if !m.Allowed(item.Name) {
			continue
		}
		out.Tools++
		claimed, hints := WithServerClaims(m.Model, offer, item.Name)
		model, v := p.Models.Resolve(claimed, item.Name, hints), p.Models.Verdict(claimed, item.Name, hints, settings)
		if v.Cacheable {
			out.Cacheable++
		}
		if v.Prefetchable {
			out.Prefetchable++
		}
		lines := claimed.Changes(model.Provider)
		i := slices.IndexFunc(lines, func(c valuemodel.Change) bool { return c.Text == v.Change }) // -1 for a line about this tool alone
		switch r := (reason{"not prefetched" + strings.TrimPrefix(v.Prefetched, "no"), v.Change}); {
		case i >= 0 && lines[i].Exclusive && model.Provider != "":
			// exclusive gains little for a known local server, which answers within milliseconds,
			// and people edit the files that it reads.
			local = reason{why: r.why}
			tools[local]++
		case i >= 0:
			if tools[r]++; tools[r] > tools[most] {
				most = r
			}
		case model.Unclassified():
			tools[unclassified]++
		}
	}
	off, line := settings.Off()
	switch {
	case out.Prefetchable == out.Tools:
		return out
	case off != "" && out.Prefetchable == 0:
		out.Why, out.Change = record.PrefetchOff+off, line
		return out
	case tools[most] == 0 && tools[unclassified] > 0:
		most = unclassified
	case tools[most] == 0 && out.Prefetchable == 0:
		most = local
	}
	if n := tools[most]; n > 0 {
		out.Why, out.Change = fmt.Sprintf("%s (%d of its %d tools)", most.why, n, out.Tools), most.line
	}
	return out
}

// NoteUnlisted puts into an upstream's status that some of its tools are not listed.
func (c *Catalog) NoteUnlisted(u *record.UpstreamStatus, p *Policy, m *Member) {
	if n := c.names.unlisted(p, m); n > 0 {
		u.Why = fmt.Sprintf(`%d of its %d tools are not listed, as other servers have their names and [server] name_style is "never"`, n, u.Tools)
		u.Change = `name_style = "auto" in [server]`
	}
}
