package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcpschedd/internal/config"
	"mcpschedd/internal/nearest"
)

// The functions of this file look up the names of servers and tools that a command line has.

// suggest adds a hint to the error of an unknown name: the most similar name of all behind a prefix, or
// else otherwise.
func suggest(err error, prefix, name string, all []string, otherwise string) error {
	if near := nearest.To(name, all); near != "" {
		return hinted{misused{err}, "did you mean " + prefix + near + "?"}
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
	return config.Upstream{}, suggest(fmt.Errorf("%s has no server %q", c.Path, name), "", name, names, "there are: "+strings.Join(names, ", "))
}

// leftOut returns that the filter of an upstream leaves out a tool, with the filter's position.
func leftOut(c *config.Config, upstream, tool string) string {
	return c.Problem(config.Key("upstreams", upstream, "tools"), "leaves out %q, so clients do not see it", tool).String()
}

// hasUpstream reports whether an upstream of that name is configured.
func hasUpstream(c *config.Config, name string) bool {
	return slices.ContainsFunc(c.Upstreams, func(u config.Upstream) bool { return u.Name == name })
}

// enabledNames returns the names of the enabled upstreams.
func enabledNames(c *config.Config) (names []string) {
	for _, u := range c.Upstreams {
		if u.Enabled {
			names = append(names, u.Name)
		}
	}
	return names
}

// withoutClientPrefix returns the name of a tool without what Claude Code puts before it: mcp__, and the name
// under which it has the proxy.
func withoutClientPrefix(c *config.Config, name string) string {
	rest, ok := strings.CutPrefix(name, "mcp__")
	if !ok || hasUpstream(c, "mcp") {
		return name
	}
	if entry, tool, ok := strings.Cut(rest, "__"); ok && !hasUpstream(c, entry) {
		return tool
	}
	return rest
}

// checkEnabled returns an error if name begins with the name of a disabled upstream.
func checkEnabled(c *config.Config, name string) error {
	for _, u := range c.Upstreams {
		if !u.Enabled && (strings.HasPrefix(name, u.Name+"/") || strings.HasPrefix(name, u.Name+"__")) {
			return hinted{misused{fmt.Errorf("server %q is disabled", u.Name)}, "mcpschedd enable " + u.Name}
		}
	}
	return nil
}

// noUpstream returns the error of a configuration without upstreams.
func noUpstream(c *config.Config) error {
	if c.Path == "" {
		return hinted{misused{errors.New("no configuration: neither XDG_CONFIG_HOME nor HOME is an absolute path")}, "set HOME, or name the file by --config"}
	}
	return hinted{misused{fmt.Errorf("no server is configured in %s", c.Path)}, toBegin}
}

// toBegin is the hint if nothing is configured.
const toBegin = "mcpschedd import moves a client's servers here, mcpschedd add adds one"
