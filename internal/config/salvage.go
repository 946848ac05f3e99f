package config

import (
	"errors"
	"slices"

	"mcpschedd/internal/plan"
	"mcpschedd/internal/valuemodel"
)

// Salvage returns the configuration to use despite the problems of the file. good is the last
// valid configuration, or nil. A problem in the block of an upstream disables that upstream, one in
// the block of a plan drops that plan, and one in tuned.toml drops that layer. After any other
// problem, good applies to the upstreams that the file still names, with the restrictions of both.
// Without good, or if the file cannot be parsed or has an unknown schema_version, Salvage returns a
// configuration without upstreams.
func (e *Error) Salvage(good *Config) *Config {
	if e.partial == nil {
		return e.withoutUpstreams()
	}
	c := *e.partial
	c.Upstreams = slices.Clone(c.Upstreams)
	elsewhere := false
	for _, p := range e.Problems {
		inPlan := func(n plan.Named) bool { return within(p.Key, join("plans", n.Name)) }
		i := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return within(p.Key, join("upstreams", u.Name)) })
		switch {
		case p.File == TunedPath(c.Path):
			c.Tuned = nil
			c.Models, _ = valuemodel.Compile(c.Tools)
		case i >= 0:
			c.Upstreams[i].Err = errors.Join(c.Upstreams[i].Err, errors.New(p.String()))
		case slices.ContainsFunc(e.partial.Plans, inPlan):
			c.Plans = slices.DeleteFunc(slices.Clone(c.Plans), inPlan)
		default:
			elsewhere = true
		}
	}
	switch {
	case elsewhere && good == nil:
		return e.withoutUpstreams()
	case elsewhere:
		c = restricted(*good, c)
	}
	c.Upstreams = slices.DeleteFunc(c.Upstreams, func(u Upstream) bool { return !validName(u.Name) })
	return &c
}

// withoutUpstreams returns the defaults, without upstreams, with the sections of the file, if it
// could be read, that configure the process, its state and its logs.
func (e *Error) withoutUpstreams() *Config {
	c := Default()
	c.Path, c.Digest = e.path, e.digest
	if e.partial != nil {
		c.Server, c.HTTP, c.Daemon, c.Telemetry, c.Log = e.partial.Server, e.partial.HTTP, e.partial.Daemon, e.partial.Telemetry, e.partial.Log
	}
	return c
}

// restricted returns the last good configuration with the restrictions of the newer one: only the
// upstreams that it names and enables, only the tools and web origins that both allow, and the stricter
// plan.mutations.
func restricted(good, newer Config) Config {
	var kept []Upstream
	for _, u := range newer.Upstreams {
		i := slices.IndexFunc(good.Upstreams, func(g Upstream) bool { return g.Name == u.Name })
		if i < 0 {
			u.Err = errors.Join(u.Err, errors.New("new in a file that has mistakes elsewhere"))
			kept = append(kept, u)
			continue
		}
		g := good.Upstreams[i]
		g.Err = u.Err
		g.Enabled = g.Enabled && u.Enabled
		g.Tools.Also = &u.Tools
		kept = append(kept, g)
	}
	good.Upstreams = kept
	strictness := []string{"allow", "confirm", "deny"}
	if slices.Index(strictness, newer.Plan.Mutations) > slices.Index(strictness, good.Plan.Mutations) {
		good.Plan.Mutations = newer.Plan.Mutations
	}
	good.HTTP.AllowedOrigins = slices.DeleteFunc(slices.Clone(good.HTTP.AllowedOrigins), func(o string) bool {
		return !slices.Contains(newer.HTTP.AllowedOrigins, o)
	})
	good.Digest, good.Warnings = newer.Digest, newer.Warnings
	return good
}
