package main

import (
	"bytes"
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
	moved   []clients.Move // servers moved by earlier imports
}

// planned is the decision on one server.
type planned struct {
	*clients.Server
	add    bool   // add it to the configuration
	exists bool   // the configuration has it
	stays  string // reason why it stays with its client; "" if it does not
}

// taken reports whether mcpschedd serves the server, so that its client no longer needs it.
func (p planned) taken() bool { return p.Upstream != "" }

// decision describes what an import would do with the server.
func (p planned) decision() string {
	what := "would be imported"
	if provider := providerOf(*p.Server); provider != "" {
		what += ", known (" + provider + ")"
	}
	switch {
	case p.stays != "":
		what = "stays: " + p.stays
	case p.exists:
		what = "already configured as upstreams." + p.Name
	}
	if folders := p.Block.Folders; len(folders) > 0 {
		what += " (only in " + strings.Join(folders, ", ") + ")"
	}
	return what
}

// plan decides what to do with the servers that were read.
func (m *importing) plan() (*importPlan, error) {
	have, err := m.configured()
	if err != nil {
		return nil, err
	}
	p := &importPlan{m: m, have: have}
	trusted := make(map[string]bool)
	servers := m.reader.Servers()
	for i := range servers {
		s := &servers[i]
		for _, name := range m.trust {
			if name == s.Name || name == s.Called() || name == "all" && s.From.Scope != "project" {
				s.Block.Trust, trusted[name] = true, true
			}
		}
		one := planned{Server: s, stays: s.Stays}
		if at := slices.IndexFunc(p.servers, func(first planned) bool { return first.Name == s.Name }); at >= 0 { // several clients have it
			one.exists, one.stays = p.servers[at].exists, p.servers[at].stays
		} else if one.stays == "" {
			one.exists = p.same(*s)
			if one.add = !one.exists; one.add && p.has(s.Name) {
				one.add, one.stays = false, fmt.Sprintf("upstreams.%s already exists and is a different server: it was kept, and this one skipped", s.Name)
			}
		}
		if one.stays == "" {
			s.Upstream = s.Name
		}
		p.servers = append(p.servers, one)
	}
	for _, name := range m.trust {
		if !trusted[name] && name != "all" {
			return nil, usage("--trust: no server %q was read", name)
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

// has reports whether an upstream has that name, ignoring case.
func (p *importPlan) has(name string) bool {
	return slices.ContainsFunc(p.have.Upstreams, func(u config.Upstream) bool { return strings.EqualFold(u.Name, name) })
}

// same reports whether the configuration has the server under its name, with the same entry and
// the same variables file.
func (p *importPlan) same(s clients.Server) bool {
	i := slices.IndexFunc(p.have.Upstreams, func(u config.Upstream) bool { return u.Name == s.Name })
	c, err := config.Parse(p.have.Path, clients.TOML([]clients.Server{s}, variablesFolder))
	if i < 0 || err != nil {
		return false
	}
	if name, want := s.VariablesFile(variablesFolder); want != nil {
		if have, err := os.ReadFile(p.beside(name)); err != nil || !bytes.Equal(have, want) {
			return false
		}
	}
	return reflect.DeepEqual(entryOf(p.have.Upstreams[i]), entryOf(c.Upstreams[0]))
}

// entryOf returns the settings of an upstream that clients have too.
func entryOf(u config.Upstream) config.Upstream {
	return config.Upstream{
		Command: u.Command, Args: u.Args, Cwd: u.Cwd, Env: u.Env, EnvFile: u.EnvFile, URL: u.URL, Transport: u.Transport,
		Headers: u.Headers, Enabled: u.Enabled, Folders: u.Folders, Tools: u.Tools,
	}
}

// beside returns the path of a file whose name is relative to the configuration.
func (p *importPlan) beside(name string) string {
	return filepath.Join(filepath.Dir(p.have.Path), filepath.FromSlash(name))
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
			all = append(all, *s.Server)
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
		if s.add && !s.Block.Disabled {
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
		how := "import --permissions applies this"
		if r.Checked {
			how = "change this by hand, as the file is shared"
		} else if p.m.permissions {
			continue
		}
		all = append(all, fmt.Sprintf("%s: %s (%s)", r.Path, renames(r.Renamed), how))
	}
	return all
}

// renames describes the new names in a file's rules.
func renames(all []clients.Rename) string {
	var names []string
	for _, n := range all {
		names = append(names, n.From+" is now "+n.To)
	}
	return strings.Join(names, ", ")
}

// printNotes prints notes on the files, and on the servers that are not imported or unknown.
func (p *importPlan) printNotes() {
	for _, n := range p.m.reader.Notes() {
		kind := "note"
		if n.Wrong {
			kind = "warning"
		}
		say(p.m.stderr, "%s: %s", kind, n)
	}
	for _, s := range p.servers {
		switch {
		case s.stays != "":
			say(p.m.stderr, "note: %s stays with its client: %s", s.Called(), s.stays)
		case s.exists:
			say(p.m.stderr, "note: %s is already configured as upstreams.%s", s.Called(), s.Name)
		case s.add && !s.Block.Trust && providerOf(*s.Server) == "":
			say(p.m.stderr, "note: %s is an unknown server, so its calls only pass through: mcpschedd check --connect shows its tool annotations, and --trust %[1]s or trust = true trusts them", s.Called())
		}
	}
	if !slices.ContainsFunc(p.servers, planned.taken) {
		say(p.m.stderr, "nothing to import")
	}
}
