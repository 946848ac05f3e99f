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
	"regexp"
	"slices"
	"strings"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/state"
	"mcpschedd/internal/valuemodel"
)

// importPlan is what import or add will do with the servers that were read. It writes nothing.
type importPlan struct {
	have    *config.Config  // to be changed
	reader  *clients.Reader // of the clients' files; its servers say what becomes of them
	sources []string        // the files read, in order
	moved   []clients.Move  // servers moved by earlier imports
	always  bool            // name_style is set to "always": see keepNames
}

// newPlan returns a plan without servers. For withoutToken see [clients.Options].
func newPlan(have *config.Config, withoutToken bool) *importPlan {
	options := clients.Options{Machine: machine(), ReadFile: readBounded, WithoutToken: withoutToken}
	return &importPlan{have: have, reader: clients.NewReader(options)}
}

// loadToEdit reads the configuration to change, or the defaults if the file does not exist yet.
func loadToEdit(file string) (*config.Config, error) {
	have, err := load(file)
	if named := cmp.Or(file, os.Getenv("MCPSCHEDD_CONFIG")); named != "" && errors.Is(err, fs.ErrNotExist) {
		have = config.Default()
		have.Path, err = filepath.Abs(named)
	}
	return have, err
}

// clientFile is a file of a client, and the error of reading it.
type clientFile struct {
	title string // name of the client
	path  string
	err   error // why none of its servers could be read
}

// missing reports whether the file does not exist.
func (f clientFile) missing() bool { return errors.Is(f.err, fs.ErrNotExist) }

// readUsersFiles reads the user's files of clients.
func (p *importPlan) readUsersFiles(all []*clients.Client) (files []clientFile, err error) {
	if machine().Home == "" {
		return nil, hinted{misused{errors.New("no home directory to search for clients")}, "name a file"}
	}
	for _, c := range all {
		for _, path := range c.Places(machine()) {
			files = append(files, clientFile{c.Title, path, p.readFile(path)})
		}
	}
	return files, nil
}

// readFile reads one file, once: clients may share one by links.
func (p *importPlan) readFile(path string) error {
	if includes(p.sources, path) {
		return nil
	}
	f, err := state.OpenFile(path)
	if err != nil {
		return err
	}
	if !f.Exists {
		return fs.ErrNotExist
	}
	if err := p.reader.Read(path, f.Text); err != nil {
		return err
	}
	p.sources = append(p.sources, path)
	return nil
}

// includes reports whether some paths include that of a file, or a link to it.
func includes(all []string, path string) bool {
	return slices.ContainsFunc(all, func(one string) bool { return paths.WithoutLinks(one) == paths.WithoutLinks(path) })
}

// decide decides what to do with each server that was read. trust has names of servers, or "all".
func (p *importPlan) decide(trust []string) error {
	p.reader.Deny()
	p.reader.AssignNames(func(s clients.Server) string {
		if have, same := p.configured(s); same {
			return have.Name
		}
		return ""
	}, func(name string) bool { return p.upstream(name) == nil })
	trusted := make(map[string]bool)
	servers := p.reader.Servers()
	for i := range servers {
		s := &servers[i]
		for _, name := range trust {
			if name == s.Name || name == s.Called || name == "all" && s.From.Scope != "project" {
				s.Block.Trust, trusted[name] = true, true
			}
		}
		p.chooseFile(s)
		first := slices.IndexFunc(servers, func(first clients.Server) bool { return first.Name == s.Name })
		switch {
		case first < i: // several clients have it
			s.Stays, s.File = servers[first].Stays, servers[first].File
		case s.Stays == "":
			s.Stays, s.New = p.stays(*s)
		}
	}
	for _, name := range trust {
		switch u := p.upstream(name); {
		case trusted[name] || name == "all":
		case u != nil:
			return hinted{misused{fmt.Errorf("--trust: %s is already configured", name)}, p.toTrust(u.Name)}
		default:
			return usage("--trust: no server %q was read", name)
		}
	}
	return nil
}

// toTrust says how to trust a server that is configured already.
func (p *importPlan) toTrust(name string) string {
	return fmt.Sprintf("to trust its tool annotations, set trust = true in [upstreams.%s] of %s", name, p.have.Path)
}

// chooseFile chooses the file of the server's variables: that of the upstream of the same name, else
// a file that does not exist or has the same text. Variables of a removed upstream are not overwritten.
func (p *importPlan) chooseFile(s *clients.Server) {
	text := s.VariablesText()
	if u := p.upstream(s.Name); u != nil {
		s.File = cmp.Or(u.EnvFile, s.File)
		return
	}
	first := s.File
	for n := 2; text != nil; n++ {
		if have, err := os.ReadFile(p.beside(s.File)); err != nil || bytes.Equal(have, text) {
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

// upstream returns the configured upstream with that name, ignoring case; nil if there is none.
func (p *importPlan) upstream(name string) *config.Upstream {
	for i := range p.have.Upstreams {
		if u := &p.have.Upstreams[i]; strings.EqualFold(u.Name, name) {
			return u
		}
	}
	return nil
}

// stays returns why the server must stay with its client, and whether it is new. A configured one
// stays if the client would lose it, or what is special about it there.
func (p *importPlan) stays(s clients.Server) (why string, isNew bool) {
	switch have, same := p.configured(s); {
	case have == nil:
		return "", true
	case !have.Enabled && !s.Block.Disabled:
		return fmt.Sprintf("upstreams.%s is the same server and disabled: mcpschedd enable %[1]s", have.Name), false
	case !same:
		return fmt.Sprintf("upstreams.%s is the same server with other settings (%s): make them equal, or rename the client's server to import it apart", have.Name, strings.Join(p.differences(have, s), ", ")), false
	}
	return "", false
}

// configured returns the upstream that is the server: it has its name, perhaps with a number, and
// runs the same command or has the same URL. same reports whether it has the same settings too, except
// for denied tools; such an upstream is preferred, most of all one that denies the same tools. have is
// nil if there is none.
func (p *importPlan) configured(s clients.Server) (have *config.Upstream, same bool) {
	for i := range p.have.Upstreams {
		u := &p.have.Upstreams[i]
		if !isNamed(u, s) || !p.runs(u, s) {
			continue
		}
		switch isSame := p.differences(u, s) == nil; {
		case isSame && slices.Equal(u.Tools.Deny, s.Block.DenyTools):
			return u, true
		case have == nil, isSame && !same:
			have, same = u, isSame
		}
	}
	return have, same
}

// isNamed reports whether an upstream has the server's name, perhaps with a number.
func isNamed(u *config.Upstream, s clients.Server) bool {
	number := strings.TrimPrefix(strings.ToLower(u.Name), strings.ToLower(s.Plain()))
	return number == "" || numbered.MatchString(number)
}

// runs reports whether an upstream has the server's command or URL.
func (p *importPlan) runs(u *config.Upstream, s clients.Server) bool {
	b := p.block(s)
	return b.Command == u.Command && slices.Equal(b.Args, u.Args) && b.URL == u.URL
}

// denied returns the tools of an upstream that it does not deny, although a client does for the same server.
// Claude Code's rules apply to each upstream that runs the same, under the same name or with the same settings,
// as Claude Code will be offered them all.
func (p *importPlan) denied(u *config.Upstream) (tools []string) {
	for _, s := range p.reader.Servers() {
		if len(s.Block.DenyTools) == 0 {
			continue
		}
		have, _ := p.configured(s)
		if have == u || s.From.Client == "claude" && p.runs(u, s) && (isNamed(u, s) || p.differences(u, s) == nil) {
			tools = append(tools, s.Block.DenyTools...)
		}
	}
	slices.Sort(tools)
	return slices.DeleteFunc(slices.Compact(tools), func(tool string) bool {
		return slices.ContainsFunc(u.Tools.Deny, func(pattern string) bool { return valuemodel.Glob(pattern, tool) })
	})
}

var numbered = regexp.MustCompile(`^-[0-9]+$`)

// block returns the server's block as the configuration reads it.
func (p *importPlan) block(s clients.Server) config.Upstream {
	c, err := config.Default().Parse(p.have.Path, clients.TOML([]clients.Server{s}))
	if err != nil {
		return config.Upstream{}
	}
	return c.Upstreams[0]
}

// differences returns the settings of an upstream that are not the server's, as far as clients have them.
// The tools denied may differ, since those of all clients are.
func (p *importPlan) differences(have *config.Upstream, s clients.Server) (keys []string) {
	s = s.WithName(have.Name)
	s.File = cmp.Or(have.EnvFile, s.File)
	if want := s.VariablesText(); want != nil && have.EnvFile != "" {
		if text, err := os.ReadFile(p.beside(s.File)); err != nil || !bytes.Equal(text, want) {
			keys = append(keys, "contents of "+s.File)
		}
	}
	u := p.block(s)
	for _, setting := range []struct {
		key       string
		have, new any
	}{
		{"cwd", have.Cwd, u.Cwd}, {"env", have.Env, u.Env}, {"env_file", have.EnvFile, u.EnvFile}, {"transport", have.Transport, u.Transport},
		{"headers", have.Headers, u.Headers}, {"folders", have.Folders, u.Folders}, {"tools.allow", have.Tools.Allow, u.Tools.Allow},
	} {
		if !reflect.DeepEqual(setting.have, setting.new) {
			keys = append(keys, setting.key)
		}
	}
	return keys
}

// beside returns the path of a file with a name relative to the configuration.
func (p *importPlan) beside(name string) string {
	return filepath.Join(filepath.Dir(p.have.Path), filepath.FromSlash(name))
}

// newServers returns the servers to add to the configuration.
func (p *importPlan) newServers() []clients.Server {
	return slices.DeleteFunc(slices.Clone(p.reader.Servers()), func(s clients.Server) bool { return !s.New })
}

// added returns the blocks of the servers to add to the configuration, each with a comment that
// names its source and is removed with it; nil if there are none.
func (p *importPlan) added() []byte {
	servers := p.newServers()
	if p.sources != nil { // otherwise the server is from the command line
		for i := range servers {
			s := &servers[i]
			s.Notes = append([]string{"From " + s.From.File + ", by mcpschedd import."}, s.Notes...)
		}
	}
	return clients.TOML(servers)
}

// prefixed reports whether tools will be listed as NAME__TOOL.
func (p *importPlan) prefixed() bool {
	enabled := len(enabledNames(p.have))
	for _, s := range p.newServers() {
		if !s.Block.Disabled {
			enabled++
		}
	}
	return proxy.Prefixed(p.have.Server.NameStyle, enabled)
}

// rewrites returns the changes to clients' rules that name tools of servers that mcpschedd serves.
func (p *importPlan) rewrites() []clients.Change {
	return p.reader.Rewrites(p.moved, p.prefixed())
}

// keepNames sets name_style to "always", unless the configuration has the key, if rules name tools of servers that
// mcpschedd serves. Otherwise a rule could come to name no tool, or another server's, once servers are added or disabled.
func (p *importPlan) keepNames() {
	if style := &p.have.Server.NameStyle; *style == "auto" && p.have.Positions["server.name_style"] == 0 && len(p.rewrites()) > 0 {
		*style, p.always = "always", true
	}
}

// rules describes rules that need new names and are not changed. permissions means that those in
// files of the user are.
func (p *importPlan) rules(permissions bool) (all []string) {
	for _, c := range p.rewrites() {
		switch {
		case c.Shared:
			all = append(all, renames(c)+" (change this by hand, as the file is shared)")
		case !permissions:
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

// steps returns what the user should do for the servers that are moved, and that have their files of variables.
func (p *importPlan) steps() (all []string) {
	for _, s := range p.reader.Servers() {
		if s.Stays != "" {
			continue
		}
		if advice := p.reader.Advice(s); advice != "" {
			all = append(all, advice)
		}
		if s.New && !s.Block.Disabled && s.Variables.Unset == nil {
			block := p.block(s)
			if _, err := block.Resolve(os.LookupEnv); err != nil { // such as of a variable that is not set
				all = append(all, fmt.Sprintf("set what %s needs to start: %s", s.Name, strings.ReplaceAll(err.Error(), "\n", "; ")))
			}
		}
		for _, u := range s.Variables.Unset {
			all = append(all, fmt.Sprintf("set %s in %s: %s", u.Name, p.beside(s.File), u.Why))
		}
		for _, d := range s.Variables.Defaults {
			if now := os.Getenv(d.Name); now != "" && now != d.Value {
				all = append(all, fmt.Sprintf("check %s in %s: it has the client's default, which overrides the environment's value", d.Name, p.beside(s.File)))
			}
		}
	}
	return all
}
