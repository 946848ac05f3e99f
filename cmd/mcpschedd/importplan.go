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

// configured reads the configuration to change, or the defaults if the file does not exist yet.
func (m *importing) configured() (err error) {
	m.have, err = load(m.config)
	if named := cmp.Or(m.config, os.Getenv("MCPSCHEDD_CONFIG")); named != "" && errors.Is(err, fs.ErrNotExist) {
		m.have = config.Default()
		m.have.Path, err = filepath.Abs(named)
	}
	if err == nil && m.have.Path == "" && m.write {
		return hinted{misused{errors.New("no place for the configuration: neither XDG_CONFIG_HOME nor HOME is set")}, "name one with --config"}
	}
	return err
}

// decide decides what to do with each server that was read.
func (m *importing) decide() error {
	if err := m.configured(); err != nil {
		return err
	}
	trusted := make(map[string]bool)
	servers := m.reader.Servers()
	for i := range servers {
		s := &servers[i]
		for _, name := range m.trust {
			if name == s.Name || name == s.Called() || name == "all" && s.From.Scope != "project" {
				s.Block.Trust, trusted[name] = true, true
			}
		}
		m.chooseFile(s)
		first := slices.IndexFunc(servers, func(first clients.Server) bool { return first.Name == s.Name })
		switch {
		case first < i: // several clients have it
			s.Stays, s.File = servers[first].Stays, servers[first].File
		case s.Stays != "" || m.same(*s):
		case m.has(s.Name):
			s.Stays = fmt.Sprintf("upstreams.%s already exists and is a different server: it was kept, and this one skipped", s.Name)
		default:
			s.New = true
		}
		if s.Stays == "" {
			s.Upstream = s.Name
		}
	}
	for _, name := range m.trust {
		if !trusted[name] && name != "all" {
			return usage("--trust: no server %q was read", name)
		}
	}
	return nil
}

// chooseFile chooses the file of the server's variables: that of the upstream of the same name, else
// a file that does not exist or has the same text. Variables of a removed upstream are not overwritten.
func (m *importing) chooseFile(s *clients.Server) {
	text := s.VariablesText()
	if i := m.upstream(s.Name); i >= 0 {
		s.File = cmp.Or(m.have.Upstreams[i].EnvFile, s.File)
		return
	}
	first := s.File
	for n := 2; text != nil; n++ {
		if have, err := os.ReadFile(m.beside(s.File)); err != nil || bytes.Equal(have, text) {
			break
		}
		s.File = fmt.Sprintf("%s.%d.env", strings.TrimSuffix(first, ".env"), n) // no upstream has such a name
	}
	if s.File != first {
		s.Notes = append(s.Notes, fmt.Sprintf("%s has other variables and was left unchanged: those of this server are in %s", first, s.File))
	}
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

// upstream returns the index of the upstream with that name, ignoring case; -1 if there is none.
func (m *importing) upstream(name string) int {
	return slices.IndexFunc(m.have.Upstreams, func(u config.Upstream) bool { return strings.EqualFold(u.Name, name) })
}

func (m *importing) has(name string) bool { return m.upstream(name) >= 0 }

// same reports whether the configuration has the server under its name, with the same entry and
// the same variables file.
func (m *importing) same(s clients.Server) bool {
	i := m.upstream(s.Name)
	c, err := config.Parse(m.have.Path, clients.TOML([]clients.Server{s}))
	if i < 0 || err != nil || m.have.Upstreams[i].Name != s.Name {
		return false
	}
	if want := s.VariablesText(); want != nil {
		if have, err := os.ReadFile(m.beside(s.File)); err != nil || !bytes.Equal(have, want) {
			return false
		}
	}
	return reflect.DeepEqual(entryOf(m.have.Upstreams[i]), entryOf(c.Upstreams[0]))
}

// entryOf returns the settings of an upstream that clients have too.
func entryOf(u config.Upstream) config.Upstream {
	return config.Upstream{
		Command: u.Command, Args: u.Args, Cwd: u.Cwd, Env: u.Env, EnvFile: u.EnvFile, URL: u.URL, Transport: u.Transport,
		Headers: u.Headers, Enabled: u.Enabled, Folders: u.Folders, Tools: u.Tools,
	}
}

// beside returns the path of a file whose name is relative to the configuration.
func (m *importing) beside(name string) string {
	return filepath.Join(filepath.Dir(m.have.Path), filepath.FromSlash(name))
}

// newServers returns the servers to add to the configuration.
func (m *importing) newServers() (all []clients.Server) {
	for _, s := range m.reader.Servers() {
		if s.New {
			all = append(all, s)
		}
	}
	return all
}

// added returns the blocks of the servers to add to the configuration, under a comment with their
// source; nil if there are none.
func (m *importing) added() []byte {
	blocks := clients.TOML(m.newServers())
	if len(blocks) == 0 || m.sources == nil { // the server is from the command line
		return blocks
	}
	return fmt.Appendf(nil, "%s\n%s", clients.Comment("From "+strings.Join(m.sources, " and ")+", by mcpschedd import."), blocks)
}

// prefixed reports whether tools will be listed as upstream__tool.
func (m *importing) prefixed() bool {
	enabled := 0
	for _, u := range m.have.Upstreams {
		if u.Enabled {
			enabled++
		}
	}
	for _, s := range m.newServers() {
		if !s.Block.Disabled {
			enabled++
		}
	}
	style := m.have.Server.NameStyle
	return style == "always" || style != "never" && enabled != 1
}

// rewrites returns the changes to clients' rules that name tools of servers that mcpschedd serves.
func (m *importing) rewrites() []clients.Change {
	return m.reader.Rewrites(m.moved, m.prefixed())
}

// rules describes rules that need new names, and tools that need to be approved again.
func (m *importing) rules() (all []string) {
	for _, c := range m.rewrites() {
		switch {
		case c.Shared:
			all = append(all, renames(c)+" (change this by hand, as the file is shared)")
		case !m.permissions:
			all = append(all, renames(c)+" (import --permissions applies this)")
		}
	}
	return all
}

// renames describes the new names in a file's rules.
func renames(c clients.Change) string {
	var names []string
	for _, n := range c.Renamed {
		names = append(names, n.From+" is now "+n.To)
	}
	return c.Path + ": " + strings.Join(names, ", ")
}

// printNotes prints notes on the files, and on the servers that are not imported or unknown.
func (m *importing) printNotes() {
	for _, n := range m.reader.Notes() {
		kind := "note"
		if n.Wrong {
			kind = "warning"
		}
		say(m.stderr, "%s: %s", kind, n)
	}
	taken := false
	for _, s := range m.reader.Servers() {
		taken = taken || s.Upstream != ""
		switch {
		case s.Stays != "":
			say(m.stderr, "note: %s stays with its client: %s", s.Called(), s.Stays)
		case !s.New && m.has(s.Name):
			say(m.stderr, "note: %s is already configured as upstreams.%s", s.Called(), s.Name)
		case s.New && !s.Block.Trust && providerOf(s) == "":
			say(m.stderr, "note: %s is an unknown server, so its calls only pass through: mcpschedd check --connect shows its tool annotations, and --trust %[1]s or trust = true trusts them", s.Called())
		}
	}
	if !taken {
		say(m.stderr, "nothing to import")
	}
}
