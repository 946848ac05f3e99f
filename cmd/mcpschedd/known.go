package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/config"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// suggest adds a hint to the error of an unknown name: the most similar name of all, or else
// otherwise.
func suggest(err error, name string, all []string, otherwise string) error {
	if near := nearest.New(all).To(name); near != "" {
		return hinted{misused{err}, "did you mean " + near + "?"}
	}
	return hinted{misused{err}, otherwise}
}

// upstreamNamed returns the configured upstream of that name.
func upstreamNamed(c *config.Config, name string) (config.Upstream, error) {
	names := make([]string, len(c.Upstreams))
	for i, u := range c.Upstreams {
		if u.Name == name {
			return u, nil
		}
		names[i] = u.Name
	}
	if len(names) == 0 {
		return config.Upstream{}, noUpstream(c)
	}
	return config.Upstream{}, suggest(fmt.Errorf("%s has no upstream %q", c.Path, name), name, names, "there are: "+strings.Join(names, ", "))
}

// disabled returns an error if name begins with the name of a disabled upstream.
func disabled(c *config.Config, name string) error {
	for _, u := range c.Upstreams {
		if !u.Enabled && (strings.HasPrefix(name, u.Name+"/") || strings.HasPrefix(name, u.Name+"__")) {
			return hinted{misused{fmt.Errorf("upstream %q is disabled", u.Name)}, "mcpschedd enable " + u.Name}
		}
	}
	return nil
}

// noUpstream returns the error of a configuration without upstreams.
func noUpstream(c *config.Config) error {
	return hinted{misused{fmt.Errorf("no server is configured in %s", orDefaults(c.Path))}, toBegin}
}

// toBegin is the hint if nothing is configured.
const toBegin = "mcpschedd import moves a client's servers here, mcpschedd add adds one"

// lastKnown is a configured upstream with its last known offer.
type lastKnown struct {
	proxy.Upstream
	offer *upstream.Offer // nil if unknown
}

func (k lastKnown) name() string { return k.Spec.Name }

// tools returns the names of its known tools.
func (k lastKnown) tools() []string {
	if k.offer == nil {
		return nil
	}
	var names []string
	for _, item := range k.offer.Lists[upstream.Tools] {
		names = append(names, item.Name)
	}
	return names
}

func (k lastKnown) has(tool string) bool { return slices.Contains(k.tools(), tool) }

// notes returns facts about a tool that its model does not show.
func (k lastKnown) notes(tool string) []string {
	var notes []string
	if k.offer == nil {
		notes = append(notes, fmt.Sprintf("upstream %q: annotations unknown, as it was never connected; mcpschedd check --connect fetches them", k.name()))
	}
	if !k.Allows(tool) {
		notes = append(notes, fmt.Sprintf("upstream %q: its key tools leaves out %q, so clients do not see it", k.name(), tool))
	}
	return notes
}

// lastKnowns reads the last known offers. An unreadable one is ignored.
func lastKnowns(upstreams []proxy.Upstream) []lastKnown {
	all := make([]lastKnown, len(upstreams))
	for i, u := range upstreams {
		all[i].Upstream = u
		if offer, err := u.Store.LastOffer(); err == nil {
			all[i].offer = offer
		}
	}
	return all
}

// find returns the tool named by "upstream/tool", by "upstream__tool" as clients see it, or by a
// name that only one upstream has or may have.
func find(all []lastKnown, name string) (lastKnown, string, error) {
	for _, separator := range []string{"/", "__"} {
		owner, tool, _ := strings.Cut(name, separator)
		i := slices.IndexFunc(all, func(k lastKnown) bool { return k.name() == owner && tool != "" })
		if i < 0 {
			continue
		}
		if all[i].offer != nil && !all[i].has(tool) {
			return lastKnown{}, "", unknownTool(all[i:i+1], name, fmt.Errorf("upstream %q has no tool %q", owner, tool))
		}
		return all[i], tool, nil
	}
	of := slices.DeleteFunc(slices.Clone(all), func(k lastKnown) bool { return !k.has(name) })
	if len(of) == 0 && !namesUpstream(all, name) {
		of = slices.DeleteFunc(slices.Clone(all), func(k lastKnown) bool { return k.offer != nil })
	}
	switch {
	case len(of) > 1 && !slices.ContainsFunc(of, func(k lastKnown) bool { return k.offer != nil }):
		return lastKnown{}, "", unknownTool(all, name, fmt.Errorf("it is not known yet which server has a tool %q", name))
	case len(of) == 0:
		return lastKnown{}, "", unknownTool(all, name, fmt.Errorf("no server has a tool %q", name))
	case len(of) == 1:
		return of[0], name, nil
	}
	var names []string
	for _, k := range of {
		names = append(names, k.name()+"/"+name)
	}
	return lastKnown{}, "", hinted{misused{fmt.Errorf("%q may be a tool of several servers", name)}, "name one: " + strings.Join(names, ", ")}
}

// namesUpstream reports whether a name more likely begins with a misspelt upstream than is a
// tool's own name.
func namesUpstream(all []lastKnown, name string) bool {
	owner, _, divided := strings.Cut(name, "__")
	return strings.Contains(name, "/") || divided && nearest.New(upstreamNames(all)).To(owner) != ""
}

func upstreamNames(all []lastKnown) []string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.name()
	}
	return names
}

// unknownTool adds a hint to the error of an unknown tool.
func unknownTool(all []lastKnown, name string, err error) error {
	written := make(map[string]string) // accepted form → upstream/tool
	for _, k := range all {
		for _, tool := range k.tools() {
			full := k.name() + "/" + tool
			written[full], written[k.name()+"__"+tool], written[tool] = full, full, full
		}
	}
	if near := nearest.New(slices.Collect(maps.Keys(written))).To(name); near != "" {
		return hinted{misused{err}, fmt.Sprintf("did you mean %q?", written[near])}
	}
	owner, _, _ := strings.Cut(strings.ReplaceAll(name, "__", "/"), "/")
	if near := nearest.New(upstreamNames(all)).To(owner); near != "" && near != owner {
		return hinted{misused{err}, fmt.Sprintf("did you mean the server %q?", near)}
	}
	return hinted{misused{err}, "mcpschedd check --connect lists the tools of every server"}
}
