package config

import (
	"errors"
	"fmt"
	"slices"
)

// Salvage is what can be served although a file has mistakes. One in the block of an upstream
// turns off that upstream, and one in tuned.toml that layer. Any other means that the last
// good configuration holds, for the upstreams that the file still names and with what either
// denies; without one, or where the file cannot be parsed, no upstream is served. good is nil
// if there is none.
func (e *Error) Salvage(good *Config) *Config {
	if e.partial == nil {
		return e.nothing()
	}
	c := *e.partial
	wrong := make(map[string][]error) // upstream → its mistakes
	elsewhere := false
	for _, p := range e.Problems {
		i := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return within(p.Key, join("upstreams", u.Name)) })
		switch {
		case p.File == TunedPath(c.Path):
			c.Tuned = nil
		case i >= 0:
			wrong[c.Upstreams[i].Name] = append(wrong[c.Upstreams[i].Name], errors.New(p.String()))
		default:
			elsewhere = true
		}
	}
	switch {
	case elsewhere && good == nil:
		return e.nothing()
	case elsewhere:
		c = older(*good, c)
	}
	c.Upstreams = slices.Clone(c.Upstreams)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		u.Err = errors.Join(append(wrong[u.Name], u.Err)...)
	}
	c.Upstreams = slices.DeleteFunc(c.Upstreams, func(u Upstream) bool { return !validName(u.Name) })
	return &c
}

// nothing is a configuration without upstreams in the place of the file, kept and logged
// where that says.
func (e *Error) nothing() *Config {
	c := Default()
	c.Path, c.Digest = e.path, e.digest
	if e.partial != nil {
		c.Server, c.HTTP, c.Daemon, c.Telemetry, c.Log = e.partial.Server, e.partial.HTTP, e.partial.Daemon, e.partial.Telemetry, e.partial.Log
	}
	return c
}

// older is the last good configuration in the place of a newer one, as far as that does not
// say less.
func older(good, newer Config) Config {
	var kept []Upstream
	for _, u := range newer.Upstreams {
		i := slices.IndexFunc(good.Upstreams, func(g Upstream) bool { return g.Name == u.Name })
		if i < 0 {
			u.Err = errors.New("new in a file that has mistakes elsewhere")
			kept = append(kept, u)
			continue
		}
		g := good.Upstreams[i]
		g.Enabled = g.Enabled && u.Enabled
		g.Tools.Deny = slices.Concat(g.Tools.Deny, u.Tools.Deny)
		kept = append(kept, g)
	}
	good.Upstreams = kept
	strictness := []string{"allow", "confirm", "deny"}
	if slices.Index(strictness, newer.Plan.Mutations) > slices.Index(strictness, good.Plan.Mutations) {
		good.Plan.Mutations = newer.Plan.Mutations
	}
	good.Digest, good.Warnings = newer.Digest, newer.Warnings
	return good
}

// Summary is the first mistakes on a line each, for readers that have little room.
func (e *Error) Summary() string {
	const most = 3
	text := (&Error{Problems: e.Problems[:min(most, len(e.Problems))]}).Error()
	if more := len(e.Problems) - most; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}
