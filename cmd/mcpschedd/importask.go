package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/state"
	"mcpschedd/internal/upstream"
)

// serverClaim is what a server of which nothing is known says of its own tools.
type serverClaim struct {
	Name     string `json:"name"` // of the upstream
	Tools    int    `json:"tools"`
	ReadOnly int    `json:"read_only"`         // of these, those that it says only read
	Problem  string `json:"problem,omitempty"` // why it could not be asked
}

// claimTimeout is how long an unknown server may take to list its tools: a package that was
// never run may have to be fetched first.
const claimTimeout = 10 * time.Second

// ask starts the servers of which nothing is known, all at once, asks each for its tools and
// ends it. A server that no client starts by itself, as it stands in a file that was only
// named, is not started before it is taken over.
func (p *importPlan) ask(ctx context.Context) {
	var servers []planned
	for _, s := range p.servers {
		if s.unknown() && !s.Disabled && !p.m.noStart && (p.m.write || p.m.kept(s.File)) {
			servers = append(servers, s)
		}
	}
	if len(servers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	c := *p.have
	c.Upstreams = nil
	o := options(&c, state.Dir{}, quiet)
	for _, s := range servers {
		u, values, err := p.upstream(s.Server)
		if err != nil {
			p.claims[s.Name] = serverClaim{Name: s.Name, Problem: err.Error()}
			continue
		}
		r, err := u.Resolve(func(name string) (string, bool) {
			if v, ok := values[name]; ok {
				return v, true
			}
			return os.LookupEnv(name)
		})
		if err == nil {
			maps.Copy(values, r.Env) // as from its file of variables, which may not be there yet
			r.Env = values
		}
		wired := wireResolved(&c, u, r, err, state.Dir{})
		wired.Store = upstream.Store{}
		o.Upstreams = append(o.Upstreams, wired)
	}
	guard := upstream.NewGuard(quiet)
	defer guard.Close()
	srv := proxy.New(o, guard)
	defer srv.Close()
	for _, f := range srv.Survey(ctx) {
		claim := serverClaim{Name: f.Upstream}
		if f.Offer == nil {
			claim.Problem, _, _ = strings.Cut(reason(f.Problem), "\n") // without what it wrote to stderr
		}
		for _, t := range f.Tools {
			if t.Hidden {
				continue
			}
			claim.Tools++
			if t.Hints.ReadOnly != nil && *t.Hints.ReadOnly {
				claim.ReadOnly++
			}
		}
		p.claims[f.Upstream] = claim
	}
}

// askAll asks for several plans at once.
func askAll(ctx context.Context, plans []*importPlan) {
	var all sync.WaitGroup
	for _, p := range plans {
		all.Go(func() { p.ask(ctx) })
	}
	all.Wait()
}

// kept reports whether a file is one that a client keeps for its user, who runs its servers
// anyway.
func (m *importing) kept(path string) bool {
	return slices.ContainsFunc(clients.All, func(c *clients.Client) bool { return slices.Contains(c.Places(m.machine()), path) })
}

// unknown reports whether nothing is known of a server that is taken over.
func (p planned) unknown() bool { return p.add && !p.Trust && p.known() == "" }

// claim is what a server says of its tools, and how it is believed; "": it was not asked.
func (p *importPlan) claim(s planned) string {
	claim, asked := p.claims[s.Name]
	believe := "--trust " + s.Called() + " believes it"
	if p.m.write {
		believe = "trust = true in [" + config.Key("upstreams", s.Name) + "] believes it"
	}
	switch {
	case !asked:
		return ""
	case claim.Problem != "":
		return "could not be asked what its tools do: " + claim.Problem
	case claim.ReadOnly == 0:
		return plural(claim.Tools, "tool") + ", of none of which it says that it only reads"
	}
	return fmt.Sprintf("%s, says that %d only read; %s", plural(claim.Tools, "tool"), claim.ReadOnly, believe)
}

// tellUnknown prints of each unknown server what it says of its tools.
func (p *importPlan) tellUnknown() {
	for _, s := range p.servers {
		if claim := p.claim(s); claim != "" {
			fmt.Fprintf(p.m.stderr, "mcpschedd: note: %s\n", clients.OneLine("nothing is known of "+s.Called()+", so that its answers are only passed on: "+claim))
		} else if s.unknown() {
			fmt.Fprintf(p.m.stderr, "mcpschedd: note: %s\n", clients.OneLine("nothing is known of "+s.Called()+
				", so that its answers are only passed on: mcpschedd check --connect shows what it says of its tools, and --trust "+s.Called()+" believes it"))
		}
	}
}
