package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/state"
)

// claimTimeout is how long an unknown server may take to list its tools. A package that has never
// run may have to be downloaded first.
const claimTimeout = 10 * time.Second

// readAnnotations starts all unknown servers concurrently, reads their tool annotations and ends
// them. A server in a file that no client reads by itself is not started before it is imported.
func (p *importPlan) readAnnotations(ctx context.Context) {
	var servers []clients.Server
	for _, s := range p.servers {
		if s.unknown() && !s.server.Block.Disabled && !p.m.noStart && (p.m.write || p.m.kept(s.server.From.File)) {
			servers = append(servers, *s.server)
		}
	}
	if len(servers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	c := *p.have
	c.Upstreams = nil
	o := options(&c, state.Dir{}, slog.New(slog.DiscardHandler))
	for _, s := range servers {
		u, values, err := p.upstream(s)
		if err != nil {
			p.claims[s.Name] = notAsked + err.Error()
			continue
		}
		r, err := resolved(u, values, os.LookupEnv)
		o.Upstreams = append(o.Upstreams, wireResolved(ownWorkplace(), &c, u, r, err, state.Dir{}))
	}
	var found []proxy.Surveyed
	withProxy(o, func(srv *proxy.Server) { found = srv.Survey(ctx) })
	for _, f := range found {
		tools, readOnly := 0, 0
		for _, t := range f.Tools {
			if t.Hidden {
				continue
			}
			tools++
			if t.Hints.ReadOnly != nil && *t.Hints.ReadOnly {
				readOnly++
			}
		}
		text := plural(tools, "tool") + ", none annotated read-only"
		switch {
		case f.Offer == nil:
			text, _, _ = strings.Cut(notAsked+reason(f.Problem), "\n") // without the lines of its stderr
		case readOnly > 0:
			text = fmt.Sprintf("%s, %d annotated read-only; %s trusts that", plural(tools, "tool"), readOnly, p.trustSetting(f.Upstream))
		}
		p.claims[f.Upstream] = text
	}
}

const notAsked = "its annotations cannot be read: "

// trustSetting returns the setting or flag that trusts a server.
func (p *importPlan) trustSetting(name string) string {
	if p.m.write {
		return "trust = true in [" + config.Key("upstreams", name) + "]"
	}
	i := slices.IndexFunc(p.servers, func(s planned) bool { return s.server.Name == name })
	return "--trust " + p.servers[i].server.Called()
}

// kept reports whether a path is one of the user's client files. The client starts the servers in
// it anyway.
func (m *importing) kept(path string) bool {
	return slices.ContainsFunc(clients.All, func(c *clients.Client) bool { return slices.Contains(c.Places(m.machine()), path) })
}
