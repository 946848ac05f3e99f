package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/valuemodel"
)

// variablesFolder is where files of variables stand, beside the configuration.
const variablesFolder = "env"

// importPlan is what an import does with each server.
type importPlan struct {
	m       *importing
	have    *config.Config
	servers []planned
	kept    []string               // notes on servers that the configuration has
	moved   []clients.Move         // by earlier imports
	claims  map[string]serverClaim // upstream → what it says, of those that were asked
}

// planned is what is done with one server.
type planned struct {
	clients.Server
	add   bool   // it goes into the configuration
	there string // the upstream that it is already; "": none
	stays string // why it stays with its client
}

// taken reports whether mcpschedd has the server, so that its client need not.
func (p planned) taken() bool { return p.stays == "" && (p.add || p.there != "") }

// plan decides what is done with the servers that were read. One is there already only if
// all that it is reached by is the same: command or url, arguments, environment and headers
// as they are once variables are filled in, folders, and whether it is enabled.
func (m *importing) plan() (*importPlan, error) {
	have, err := m.configured()
	if err != nil {
		return nil, err
	}
	p := &importPlan{m: m, have: have, claims: make(map[string]serverClaim)}
	done := make(map[string]planned) // name → what is done with a server that two clients have
	trusted := make(map[string]bool)
	for _, s := range m.reader.Servers() {
		for _, name := range m.trust {
			if name == s.Name || name == s.Called() || name == "all" && s.Scope != "project" {
				s.Trust, trusted[name] = true, true
			}
		}
		one := planned{Server: s, stays: s.Stays}
		if first, twice := done[s.Name]; twice {
			one.there, one.stays = s.Name, first.stays
		} else if one.stays == "" {
			p.compare(&one)
		}
		done[s.Name] = one
		p.servers = append(p.servers, one)
	}
	for _, name := range m.trust {
		if !trusted[name] && name != "all" {
			return nil, usage("--trust: no server %q is read", name)
		}
	}
	return p, nil
}

// known is the provider of which a server is by the words of its configuration; "": none is
// known, and nothing of it is stored or prefetched unless it is trusted.
func (p planned) known() string {
	r := valuemodel.Recognise(valuemodel.Settings{Command: p.Command, Args: p.Args, URL: p.URL})
	if r.Bare && !p.Trust { // only the name of a program says so
		return ""
	}
	return r.Provider
}

// compare looks for a server among the upstreams that there are.
func (p *importPlan) compare(one *planned) {
	mine := p.meaning(one.Server)
	for _, u := range p.have.Upstreams {
		same := mine != nil && reflect.DeepEqual(mine, meaning(u, nil))
		if !same {
			continue
		}
		if !contains(u.Tools.Deny, one.DenyTools) || len(one.AllowTools) > 0 && !contains(one.AllowTools, u.Tools.Allow) {
			one.stays = fmt.Sprintf("upstreams.%s is the same, but offers tools that the client does not: see its tools.allow and tools.deny", u.Name)
			return
		}
		one.there = u.Name
		if u.Name == one.Name {
			p.kept = append(p.kept, fmt.Sprintf("upstreams.%s is there already", u.Name))
		} else {
			p.kept = append(p.kept, fmt.Sprintf("%s is there already, as upstreams.%s", one.Name, u.Name))
		}
		return
	}
	if slices.ContainsFunc(p.have.Upstreams, func(u config.Upstream) bool { return strings.EqualFold(u.Name, one.Name) }) {
		one.stays = fmt.Sprintf("upstreams.%s is there already, and is another: it was kept, and this one left out", one.Name)
		return
	}
	one.add = true
}

// contains reports whether a list has all of others.
func contains(all, others []string) bool {
	return !slices.ContainsFunc(others, func(o string) bool { return !slices.Contains(all, o) })
}

// upstreamMeaning is what two upstreams must have the same of to be one.
type upstreamMeaning struct {
	resolved config.Resolved
	enabled  bool
	folders  []string
}

// meaning is what an upstream comes to; nil if that cannot be told. values stand before its
// file of variables.
func meaning(u config.Upstream, values map[string]string) *upstreamMeaning {
	r, err := u.Resolve(func(name string) (string, bool) {
		if v, ok := values[name]; ok {
			return v, true
		}
		return cmp.Or(os.Getenv(name), "${"+name+"}"), true
	})
	if err != nil {
		return nil
	}
	for name, v := range values {
		if _, ok := r.Env[name]; !ok {
			r.Env[name] = v
		}
	}
	r.Name = ""
	return &upstreamMeaning{r, u.Enabled, u.Folders}
}

// meaning is what a server comes to as an upstream.
func (p *importPlan) meaning(s clients.Server) *upstreamMeaning {
	u, values, err := p.upstream(s)
	if err != nil {
		return nil
	}
	return meaning(u, values)
}

// upstream is a server as the configuration would have it, and the values of its file of
// variables, which is not written yet.
func (p *importPlan) upstream(s clients.Server) (config.Upstream, map[string]string, error) {
	c, err := config.Parse(p.have.Path, clients.TOML([]clients.Server{s}, variablesFolder))
	if err != nil {
		return config.Upstream{}, nil, err
	}
	values := make(map[string]string)
	for _, v := range s.Values {
		values[v.Name] = v.Value
	}
	u := c.Upstreams[0]
	if s.Variables() != nil {
		u.EnvFile = ""
	}
	return u, values, nil
}

// configured is the configuration that is written to; one that does not exist yet is
// the defaults.
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
		return nil, hinted{misused{errors.New("there is no place for a configuration: neither XDG_CONFIG_HOME nor HOME is set")}, "name one with --config"}
	}
	return c, nil
}

// blocks are the servers that go into the configuration.
func (p *importPlan) blocks() []clients.Server {
	var all []clients.Server
	for _, s := range p.servers {
		if s.add {
			all = append(all, s.Server)
		}
	}
	return all
}

// called is the upstream that a server is; "": it stays with its client.
func (p *importPlan) called(s clients.Server) string {
	for _, one := range p.servers {
		if one.Name == s.Name && one.File == s.File && one.Pointer == s.Pointer && one.taken() {
			return cmp.Or(one.there, one.Name)
		}
	}
	return ""
}

// prefixed reports whether tools will be called upstream__tool.
func (p *importPlan) prefixed() bool {
	enabled := 0
	for _, u := range p.have.Upstreams {
		if u.Enabled {
			enabled++
		}
	}
	for _, s := range p.servers {
		if s.add && !s.Disabled {
			enabled++
		}
	}
	style := p.have.Server.NameStyle
	return style == "always" || style != "never" && enabled != 1
}

// rewrites are the rules of the clients that name tools of servers that are taken.
func (p *importPlan) rewrites() []clients.Rewrite {
	return p.m.reader.Rewrites(p.m.machine(), append(p.m.reader.Moves(p.called), p.moved...), p.prefixed())
}

// rules say by which names they would hold, and of which tools the client has to be told
// again that it need not ask.
func (p *importPlan) rules() []string {
	var all []string
	for _, r := range p.rewrites() {
		if p.m.permissions && !r.Checked {
			continue
		}
		how := "--permissions writes it"
		if p.m.write {
			how = "import --permissions writes it"
		}
		if r.Checked {
			how = "to be changed by hand, as the file is shared"
		}
		all = append(all, clients.OneLine(fmt.Sprintf("%s (%s)", renames(r.Path, r.Renamed), how)))
	}
	for _, s := range p.servers {
		if names := p.approved(s.Server); len(names) > 0 && s.taken() && !p.m.permissions {
			all = append(all, clients.OneLine(fmt.Sprintf("%s: %s ran without being asked about, and no longer do: --write --permissions writes \"autoApprove\" for mcpschedd", s.Called(), strings.Join(names, ", "))))
		}
	}
	return all
}

// approved are the tools of a server that its client does not ask about, as they are called
// from now on.
func (p *importPlan) approved(s clients.Server) []string {
	var all []string
	for _, tool := range s.Approved {
		if p.prefixed() {
			tool = p.called(s) + "__" + tool
		}
		all = append(all, tool)
	}
	return all
}

func (p *importPlan) report() importReport {
	r := importReport{
		Sources: p.m.sources, Servers: p.m.reader.Servers(), Notes: p.m.reader.Notes(), Self: p.m.reader.Self(), Kept: p.kept,
	}
	for _, name := range slices.Sorted(maps.Keys(p.claims)) {
		r.Unknown = append(r.Unknown, p.claims[name])
	}
	return r
}

// list prints one line a server.
func (p *importPlan) list(w io.Writer) {
	for _, s := range p.servers {
		what := "would be taken over"
		if provider := s.known(); provider != "" {
			what += ", and is known (" + provider + ")"
		}
		switch {
		case s.stays != "":
			what = "stays: " + s.stays
		case s.there != "":
			what = "is upstreams." + s.there + " already"
		}
		if s.Scope == "local" || s.Scope == "project" {
			what += " (for " + strings.Join(s.Folders, ", ") + " alone)"
		}
		if claim := p.claim(s); claim != "" {
			what += "; " + claim
		}
		fmt.Fprintln(w, clients.OneLine("  "+s.Called()+": "+what))
	}
	for _, n := range p.m.reader.Notes() {
		fmt.Fprintln(w, "  "+n.String())
	}
}

// tell prints what was left out, what stays, and what was not understood.
func (m *importing) tell(p *importPlan) {
	for _, n := range m.reader.Notes() {
		kind := "note"
		if n.Wrong {
			kind = "warning"
		}
		fmt.Fprintf(m.stderr, "mcpschedd: %s: %s\n", kind, n)
	}
	for _, s := range p.servers {
		if s.stays != "" {
			fmt.Fprintf(m.stderr, "mcpschedd: note: %s\n", clients.OneLine(s.Called()+" stays with its client: "+s.stays))
		}
	}
	for _, k := range p.kept {
		fmt.Fprintf(m.stderr, "mcpschedd: note: %s\n", clients.OneLine(k))
	}
	if !slices.ContainsFunc(p.servers, planned.taken) {
		fmt.Fprintln(m.stderr, "mcpschedd: nothing to import")
	}
}
