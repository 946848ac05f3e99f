package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/valuemodel"
)

// variablesFolder is the directory of variable files, beside the configuration.
const variablesFolder = "env"

// importPlan is the decision of an import on each server.
type importPlan struct {
	m       *importing
	have    *config.Config
	servers []planned
	moved   []clients.Move    // servers moved by earlier imports
	claims  map[string]string // upstream → summary of its tool annotations, for servers that were asked
}

// planned is the decision on one server.
type planned struct {
	server     *clients.Server
	add        bool   // add it to the configuration
	existing   string // existing upstream that is the same server; "" if none
	stayReason string // reason why it stays with its client; "" if it does not
}

// taken reports whether mcpschedd serves the server, so that its client no longer needs it.
func (p planned) taken() bool { return p.server.Upstream != "" }

// plan decides what to do with the servers that were read. A server counts as present only if
// everything that determines the connection is the same: command or url, arguments, environment
// and headers with variables expanded, folders, and whether it is enabled.
func (m *importing) plan() (*importPlan, error) {
	have, err := m.configured()
	if err != nil {
		return nil, err
	}
	p := &importPlan{m: m, have: have, claims: make(map[string]string)}
	done := make(map[string]planned) // name → decision, for servers of several clients
	trusted := make(map[string]bool)
	servers := m.reader.Servers()
	for i := range servers {
		s := &servers[i]
		for _, name := range m.trust {
			if name == s.Name || name == s.Called() || name == "all" && s.From.Scope != "project" {
				s.Block.Trust, trusted[name] = true, true
			}
		}
		one := planned{server: s, stayReason: s.Stays}
		if first, twice := done[s.Name]; twice {
			one.existing, one.stayReason = first.server.Upstream, first.stayReason
		} else if one.stayReason == "" {
			p.compare(&one)
		}
		if one.add || one.existing != "" {
			s.Upstream = cmp.Or(one.existing, s.Name)
		}
		done[s.Name] = one
		p.servers = append(p.servers, one)
	}
	for _, name := range m.trust {
		if !trusted[name] && name != "all" {
			return nil, usage("--trust: no server %q was read", name)
		}
	}
	for _, s := range p.servers { // rename approved tools to their new names
		for i, tool := range s.server.Approved {
			if s.taken() && p.prefixed() {
				s.server.Approved[i] = s.server.Upstream + "__" + tool
			}
		}
	}
	return p, nil
}

// providerOf returns the provider that the server's configuration identifies; "" if the server is
// unknown, and its tools are neither cached nor prefetched unless it is trusted.
func providerOf(s clients.Server) string {
	r := valuemodel.Recognise(valuemodel.Settings{Command: s.Block.Command, Args: s.Block.Args, URL: s.Block.URL})
	if r.Bare && !s.Block.Trust { // identified only by the name of a program
		return ""
	}
	return r.Provider
}

// compare looks for the same server among the configured upstreams.
func (p *importPlan) compare(one *planned) {
	s := one.server
	for _, u := range p.have.Upstreams {
		if !p.same(u, *s) {
			continue
		}
		if !contains(u.Tools.Deny, s.Block.DenyTools) || len(s.Block.AllowTools) > 0 && !contains(s.Block.AllowTools, u.Tools.Allow) {
			one.stayReason = fmt.Sprintf("upstreams.%s is the same server, but lists tools that the client does not: see its tools.allow and tools.deny", u.Name)
			return
		}
		one.existing = u.Name
		return
	}
	if one.add = !p.has(s.Name); !one.add {
		one.stayReason = fmt.Sprintf("upstreams.%s already exists and is a different server: it was kept, and this one skipped", s.Name)
	}
}

// has reports whether an upstream has that name, ignoring case.
func (p *importPlan) has(name string) bool {
	return slices.ContainsFunc(p.have.Upstreams, func(u config.Upstream) bool { return strings.EqualFold(u.Name, name) })
}

// contains reports whether all contains every element of others.
func contains(all, others []string) bool {
	return !slices.ContainsFunc(others, func(o string) bool { return !slices.Contains(all, o) })
}

// same reports whether an upstream and a server resolve to the same settings.
func (p *importPlan) same(u config.Upstream, s clients.Server) bool {
	unset := func(name string) (string, bool) { return cmp.Or(os.Getenv(name), "${"+name+"}"), true }
	of, values, err := p.upstream(s)
	if err != nil || of.Enabled != u.Enabled || !slices.Equal(of.Folders, u.Folders) {
		return false
	}
	a, errA := resolved(of, values, unset)
	b, errB := resolved(u, nil, unset)
	b.Name = a.Name
	return errA == nil && errB == nil && reflect.DeepEqual(a, b)
}

// resolved resolves an upstream with values in place of a variables file that may not exist yet,
// and other variables from env.
func resolved(u config.Upstream, values map[string]string, env func(string) (string, bool)) (config.Resolved, error) {
	r, err := u.Resolve(func(name string) (string, bool) {
		if v, ok := values[name]; ok {
			return v, true
		}
		return env(name)
	})
	for name, v := range values {
		if _, ok := r.Env[name]; !ok && err == nil {
			r.Env[name] = v
		}
	}
	return r, err
}

// upstream returns a server as it would be configured, and the values of its variables file,
// which has not been written yet.
func (p *importPlan) upstream(s clients.Server) (config.Upstream, map[string]string, error) {
	c, err := config.Parse(p.have.Path, clients.TOML([]clients.Server{s}, variablesFolder))
	if err != nil {
		return config.Upstream{}, nil, err
	}
	values := make(map[string]string)
	for _, v := range s.Variables.Values {
		values[v.Name] = v.Value
	}
	u := c.Upstreams[0]
	if _, text := s.VariablesFile(variablesFolder); text != nil {
		u.EnvFile = ""
	}
	return u, values, nil
}

// configured returns the configuration to change, or the defaults if the file does not exist yet.
func (m *importing) configured() (*config.Config, error) {
	c, err := load(m.config)
	if named := cmp.Or(m.config, os.Getenv("MCPSCHEDD_CONFIG")); named != "" && errors.Is(err, fs.ErrNotExist) {
		c = config.Default()
		c.Path, err = filepath.Abs(named)
	}
	if err != nil {
		return nil, err
	}
	if c.Path == "" && m.write {
		return nil, hinted{misused{errors.New("no place for the configuration: neither XDG_CONFIG_HOME nor HOME is set")}, "name one with --config"}
	}
	return c, nil
}

// blocks returns the servers to add to the configuration.
func (p *importPlan) blocks() []clients.Server {
	var all []clients.Server
	for _, s := range p.servers {
		if s.add {
			all = append(all, *s.server)
		}
	}
	return all
}

// prefixed reports whether tools will be listed as upstream__tool.
func (p *importPlan) prefixed() bool {
	enabled := 0
	for _, u := range p.have.Upstreams {
		if u.Enabled {
			enabled++
		}
	}
	for _, s := range p.servers {
		if s.add && !s.server.Block.Disabled {
			enabled++
		}
	}
	style := p.have.Server.NameStyle
	return style == "always" || style != "never" && enabled != 1
}

// rewrites returns the clients' rules that name tools of servers that mcpschedd serves.
func (p *importPlan) rewrites() []clients.Rewrite {
	return p.m.reader.Rewrites(p.moved, p.prefixed())
}

// rules describes rules that need new names, and tools that need to be approved again.
func (p *importPlan) rules() []string {
	var all []string
	for _, r := range p.rewrites() {
		if p.m.permissions && !r.Checked {
			continue
		}
		how := "--permissions applies this"
		if p.m.write {
			how = "import --permissions applies this"
		}
		if r.Checked {
			how = "change this by hand, as the file is shared"
		}
		all = append(all, fmt.Sprintf("%s (%s)", renames(r.Path, r.Renamed), how))
	}
	for _, s := range p.servers {
		if names := s.server.Approved; len(names) > 0 && s.taken() && !p.m.permissions {
			all = append(all, fmt.Sprintf("%s: the client no longer runs %s without asking: --write --permissions writes \"autoApprove\" for mcpschedd", s.server.Called(), strings.Join(names, ", ")))
		}
	}
	return all
}
