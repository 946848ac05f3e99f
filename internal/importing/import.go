// Package importing decides what becomes of the servers of MCP clients: each becomes an upstream, is one already,
// or stays with its client. From this follow the changes to all files.
//
//	im := &importing.Import{Config: have, Reader: clients.NewReader(options), Prefixed: catalog.Prefixed}
//	err := im.Read("/home/ann/.cursor/mcp.json")
//	err = im.Decide(nil)
//	changes, err := im.Changes(dir, importing.Parts{Servers: true, Line: []string{"/bin/mcpschedd", "connect"}})
//	copies, err := clients.Apply(dir, im.Sources, changes, time.Now())
//
// It writes nothing: package clients makes the changes and undoes them.
package importing

import (
	"bytes"
	"cmp"
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
	"mcpschedd/internal/state"
	"mcpschedd/internal/valuemodel"
)

// Import is what becomes of the servers that were read. Its methods follow each other as above.
type Import struct {
	Config   *config.Config                             // to be changed
	Reader   *clients.Reader                            // of the clients' files; its servers say what becomes of them
	Prefixed func(nameStyle string, upstreams int) bool // whether the tools of that many upstreams are named NAME__TOOL
	Sources  []string                                   // the files read, in order

	moved []clients.Move // servers moved by earlier imports
}

// Refusal is the error of an import that the user must prepare: Hint says how.
type Refusal struct {
	error
	Hint string
}

// Read reads one file, once: clients may share one by links. It returns [fs.ErrNotExist], or an error of
// [clients.Reader.Read].
func (im *Import) Read(path string) error {
	if slices.ContainsFunc(im.Sources, func(read string) bool { return paths.WithoutLinks(read) == paths.WithoutLinks(path) }) {
		return nil
	}
	f, err := state.OpenFile(path)
	if err != nil {
		return err
	}
	if !f.Exists {
		return fs.ErrNotExist
	}
	if err := im.Reader.Read(path, f.Text); err != nil {
		return err
	}
	im.Sources = append(im.Sources, path)
	return nil
}

// Decide decides what becomes of each server that was read. The tool annotations of those in trust are trusted: it
// has names, or "all".
func (im *Import) Decide(trust []string) error {
	im.Reader.Deny()
	im.Reader.AssignNames(func(s clients.Server) string {
		if have, same := im.configured(s); same {
			return have.Name
		}
		return ""
	}, func(name string) bool { return im.upstream(name) == nil })
	servers := im.Reader.Servers()
	for i := range servers {
		s := &servers[i]
		im.chooseFile(s)
		first := slices.IndexFunc(servers, func(first clients.Server) bool { return first.Name == s.Name })
		switch {
		case first < i: // several clients have it
			s.Stays, s.File = servers[first].Stays, servers[first].File
		case s.Stays == "":
			s.Stays, s.New = im.stays(*s)
		}
	}
	for _, name := range trust {
		found := name == "all"
		for i := range servers {
			if s := &servers[i]; name == s.Name || name == s.Called || name == "all" && s.From.Scope != "project" {
				s.Block.Trust, found = true, true
			}
		}
		if u := im.upstream(name); !found && u != nil {
			return &Refusal{fmt.Errorf("--trust: %s is already configured", name), im.toTrust(u.Name)}
		} else if !found {
			return &Refusal{fmt.Errorf("--trust: no server %q was read", name), "mcpschedd import lists the servers"}
		}
	}
	return nil
}

// chooseFile chooses the file of the server's variables: that of the upstream of the same name, else
// a file that does not exist or has the same text. Variables of a removed upstream are not overwritten.
func (im *Import) chooseFile(s *clients.Server) {
	text := s.VariablesText()
	if u := im.upstream(s.Name); u != nil {
		s.File = cmp.Or(u.EnvFile, s.File)
		return
	}
	first := s.File
	for n := 2; text != nil; n++ {
		if have, err := os.ReadFile(im.beside(s.File)); err != nil || bytes.Equal(have, text) {
			break
		}
		s.File = fmt.Sprintf("%s.%d.env", strings.TrimSuffix(first, ".env"), n) // no upstream has such a name
	}
	if s.File != first {
		s.Notes = append(s.Notes, fmt.Sprintf("%s has other variables and was left unchanged: those of this server are in %s", first, s.File))
	}
}

// stays returns why the server must stay with its client, and whether it is new. A configured one
// stays if the client would lose it, or what is special about it there.
func (im *Import) stays(s clients.Server) (why string, isNew bool) {
	switch have, same := im.configured(s); {
	case have == nil:
		return "", true
	case !have.Enabled && !s.Block.Disabled:
		return fmt.Sprintf("upstreams.%s is the same server and disabled: mcpschedd enable %[1]s", have.Name), false
	case !same:
		return fmt.Sprintf("upstreams.%s is the same server with other settings (%s): make them equal, or rename the client's server to import it apart", have.Name, strings.Join(differences(have, s), ", ")), false
	}
	return "", false
}

// onlyMoved leaves only servers that earlier imports have moved: the tools of others keep their names. A server in
// a file of the user is its client's own, even if it is configured.
func (im *Import) onlyMoved() {
	servers := im.Reader.Servers()
	for i := range servers {
		if s := &servers[i]; s.New || s.From.Scope != "project" || im.upstream(s.Name) == nil {
			s.New, s.Stays = false, "it has not been moved"
		}
	}
}

// newServers returns the servers to add to the configuration.
func (im *Import) newServers() []clients.Server {
	return slices.DeleteFunc(slices.Clone(im.Reader.Servers()), func(s clients.Server) bool { return !s.New })
}

// Blocks returns the blocks of the servers to add to the configuration; nil if there are none.
func (im *Import) Blocks() []byte { return clients.TOML(im.newServers()) }

// beside returns the path of a file with a name relative to the configuration.
func (im *Import) beside(name string) string {
	return filepath.Join(filepath.Dir(im.Config.Path), filepath.FromSlash(name))
}

// upstream returns the configured upstream with that name, ignoring case; nil if there is none.
func (im *Import) upstream(name string) *config.Upstream {
	for i := range im.Config.Upstreams {
		if u := &im.Config.Upstreams[i]; strings.EqualFold(u.Name, name) {
			return u
		}
	}
	return nil
}

// configured returns the upstream that is the server: it has its name, perhaps with a number, and
// runs the same command or has the same URL. same reports whether it has the same settings too, except
// for denied tools; such an upstream is preferred, most of all one that denies the same tools. have is
// nil if there is none.
func (im *Import) configured(s clients.Server) (have *config.Upstream, same bool) {
	for i := range im.Config.Upstreams {
		u := &im.Config.Upstreams[i]
		if !isNamed(u, s) || !runs(u, s) {
			continue
		}
		switch isSame := differences(u, s) == nil; {
		case isSame && slices.Equal(u.Tools.Deny, s.Block.DenyTools):
			return u, true
		case have == nil, isSame && !same:
			have, same = u, isSame
		}
	}
	return have, same
}

// denied returns the tools of an upstream that it does not deny, although a client does for the same server.
// Claude Code's rules apply to each upstream that runs the same, under the same name or with the same settings,
// as Claude Code will be offered them all.
func (im *Import) denied(u *config.Upstream) (tools []string) {
	for _, s := range im.Reader.Servers() {
		if len(s.Block.DenyTools) == 0 {
			continue
		}
		have, _ := im.configured(s)
		if have == u || s.From.Client == "claude" && runs(u, s) && (isNamed(u, s) || differences(u, s) == nil) {
			tools = append(tools, s.Block.DenyTools...)
		}
	}
	slices.Sort(tools)
	return slices.DeleteFunc(slices.Compact(tools), func(tool string) bool {
		return slices.ContainsFunc(u.Tools.Deny, func(pattern string) bool { return valuemodel.Glob(pattern, tool) })
	})
}

var numbered = regexp.MustCompile(`^-[0-9]+$`)

// isNamed reports whether an upstream has the server's name, perhaps with a number.
func isNamed(u *config.Upstream, s clients.Server) bool {
	number := strings.TrimPrefix(strings.ToLower(u.Name), strings.ToLower(s.Plain()))
	return number == "" || numbered.MatchString(number)
}

// runs reports whether an upstream has the server's command or URL.
func runs(u *config.Upstream, s clients.Server) bool {
	b := asUpstream(s, u.Dir)
	return b.Command == u.Command && slices.Equal(b.Args, u.Args) && b.URL == u.URL
}

// asUpstream returns the server as a configuration in that directory has it.
func asUpstream(s clients.Server, dir string) config.Upstream {
	c, err := config.Default().Parse(filepath.Join(dir, "config.toml"), clients.TOML([]clients.Server{s}))
	if err != nil {
		return config.Upstream{}
	}
	return c.Upstreams[0]
}

// differences returns the settings of an upstream that are not the server's, as far as clients have them.
// The tools denied may differ, since those of all clients are.
func differences(have *config.Upstream, s clients.Server) (keys []string) {
	s = s.WithName(have.Name)
	s.File = cmp.Or(have.EnvFile, s.File)
	if want := s.VariablesText(); want != nil && have.EnvFile != "" {
		if text, err := os.ReadFile(filepath.Join(have.Dir, filepath.FromSlash(s.File))); err != nil || !bytes.Equal(text, want) {
			keys = append(keys, "contents of "+s.File)
		}
	}
	u := asUpstream(s, have.Dir)
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
