package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/state"
)

// change runs import --write, --permissions or --hooks: it adds missing servers to the
// configuration and replaces them in the clients' files, renames tools in Claude Code's rules,
// or adds hooks to its settings. All results are checked before any file is changed.
func (m *importing) change(ctx context.Context) error {
	if len(m.from) == 0 && !m.all {
		m.from = []string{"claude"} // only Claude Code has rules and hooks
	}
	have, err := m.configured()
	if err != nil {
		return err
	}
	dir, err := stateDir(have)
	if err != nil {
		return err
	}
	var p *importPlan
	err = clients.Locked(dir, func() (err error) {
		p, err = m.changeLocked(dir)
		return err
	})
	if err != nil {
		return err
	}
	p.readAnnotations(ctx)
	p.printUnknown()
	return nil
}

func (m *importing) changeLocked(dir state.Dir) (*importPlan, error) {
	if err := m.read(); err != nil {
		return nil, err
	}
	p, err := m.plan()
	if err != nil {
		return nil, err
	}
	changes, next, err := p.changes(dir)
	if err != nil {
		return nil, err
	}
	if m.write {
		p.printNotes()
	}
	copies := ""
	if len(changes) > 0 {
		if copies, err = clients.Apply(dir, m.sources, changes, time.Now()); err != nil {
			return nil, err
		}
	}
	return p, p.printChanges(changes, copies, next)
}

// changes returns the changes to all files, and the next steps for the user.
func (p *importPlan) changes(dir state.Dir) (all []clients.Change, next []string, err error) {
	if !p.m.write {
		for i := range p.servers {
			if s := &p.servers[i]; !p.has(s.server.Upstream) { // tools of servers that have not moved keep their names
				s.add, s.server.Upstream = false, ""
			}
		}
		if p.moved, err = clients.Moved(dir); err == nil && len(p.moved) == 0 && p.m.permissions {
			err = hinted{errors.New("no server of Claude Code has been moved"), "mcpschedd import claude --write --permissions moves them, and rewrites the rules"}
		}
		if err == nil && p.m.permissions {
			all, err = p.changedRules()
			next = p.rules()
		}
		if err == nil && p.m.hooks {
			all, err = p.withHooks(all)
		}
		return all, next, err
	}
	for _, path := range p.m.sources {
		if why := p.m.reader.Forbidden(path); why != "" {
			return nil, nil, fmt.Errorf("nothing was changed: %s", why)
		}
	}
	file, err := state.OpenFile(p.have.Path)
	if err != nil {
		return nil, nil, err
	}
	if all, err = p.configuration(file); err != nil {
		return nil, nil, err
	}
	pointed, err := p.pointed()
	if next = p.next(); len(pointed) > 0 {
		next = append(next, "restart the clients: they read their files at start-up")
	}
	all = append(all, pointed...)
	if err == nil && p.m.hooks {
		all, err = p.withHooks(all)
	}
	return all, next, err
}

// withHooks adds to all the change to Claude Code's settings that makes it report its edits.
func (p *importPlan) withHooks(all []clients.Change) ([]clients.Change, error) {
	line, err := p.m.ownLine(p.have.Path)
	if err != nil {
		return nil, err
	}
	line[1] = daemon.HookCommand
	path := clients.HooksFile(p.m.machine())
	i := slices.IndexFunc(all, func(c clients.Change) bool { return c.File.Path == path })
	if i < 0 {
		f, err := state.OpenFile(path)
		if err != nil {
			return nil, err
		}
		i, all = len(all), append(all, clients.Change{File: f, Text: f.Text})
	}
	c := &all[i]
	was := c.Text
	if c.Text, err = clients.WithHooks(path, was, clients.HookSettings(line)); err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	if c.Hooks = !bytes.Equal(c.Text, was); !c.Hooks && len(c.Renamed) == 0 {
		all = slices.Delete(all, i, i+1)
	}
	return all, nil
}

var inlineUpstreams = regexp.MustCompile(`(?m)^[ \t]*["']?upstreams["']?[ \t]*=`)

// configuration returns the changes to our own files: the configuration and variables files.
func (p *importPlan) configuration(file *state.File) ([]clients.Change, error) {
	blocks := p.blocks()
	if len(blocks) == 0 {
		return nil, nil
	}
	path := p.have.Path
	if inlineUpstreams.Match(file.Text) { // our parser accepts this, others do not
		return nil, hinted{misused{fmt.Errorf("%s: nothing was written: its upstreams are an inline table", path)}, "write them as [upstreams.NAME] blocks first"}
	}
	text := p.m.appended(file.Text, blocks)
	next, err := config.Parse(path, text, toolProblems)
	if err != nil {
		return nil, fmt.Errorf("%s: nothing was written: the imported servers would make it invalid: %v", path, err)
	}
	var got, want []string
	for _, u := range next.Upstreams {
		got = append(got, u.Name)
	}
	for _, u := range p.have.Upstreams {
		want = append(want, u.Name)
	}
	var changes []clients.Change
	for _, s := range blocks {
		want = append(want, s.Name)
		if name, variables := s.VariablesFile(variablesFolder); variables != nil {
			f, err := state.OpenFile(filepath.Join(filepath.Dir(path), filepath.FromSlash(name)))
			if err != nil {
				return nil, err
			}
			changes = append(changes, clients.Change{File: f, Text: variables})
		}
	}
	if !slices.Equal(got, want) {
		return nil, fmt.Errorf("%s: nothing was written: it would have the upstreams %q, want %q", path, got, want)
	}
	return append(changes, clients.Change{File: file, Text: text}), nil
}

// appended returns a configuration with servers added at its end, with the same line ends.
func (m *importing) appended(text []byte, servers []clients.Server) []byte {
	added := clients.TOML(servers, variablesFolder)
	if len(m.sources) > 0 { // else the server is from the command line
		added = fmt.Appendf(nil, "%s\n%s", m.header(), added)
	}
	if len(text) > 0 {
		added = append([]byte("\n"), added...)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		added = append([]byte("\n"), added...)
	}
	if bytes.Contains(text, []byte("\r\n")) {
		added = bytes.ReplaceAll(added, []byte("\n"), []byte("\r\n"))
	}
	return append(bytes.Clone(text), added...)
}

// pointed returns the changes that point the clients' files to mcpschedd.
func (p *importPlan) pointed() ([]clients.Change, error) {
	line, err := p.m.ownLine(p.have.Path)
	if err != nil {
		return nil, err
	}
	all, err := p.m.reader.Point(line, p.m.permissions)
	if err != nil {
		return nil, err
	}
	var changes []clients.Change
	for _, one := range all {
		changes = append(changes, clients.Change{File: p.m.files[one.Path], Text: one.Text, Pointed: &one})
	}
	if !p.m.permissions {
		return changes, nil
	}
	rules, err := p.changedRules()
	return append(changes, rules...), err
}

// changedRules returns the changes to Claude Code's files with rules.
func (p *importPlan) changedRules() ([]clients.Change, error) {
	var changes []clients.Change
	for _, r := range p.rewrites() {
		if r.Checked {
			continue
		}
		f, err := state.OpenFile(r.Path)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(f.Text, r.Was) {
			return nil, fmt.Errorf("%s: changed during the import; nothing was written", r.Path)
		}
		changes = append(changes, clients.Change{File: f, Text: r.Text, Renamed: r.Renamed})
	}
	return changes, nil
}

// ownLine returns the command line with which a client starts mcpschedd: an absolute path, as
// graphical programs have another PATH than a terminal. The small program, if present, connects
// in an eighth of the time.
func (m *importing) ownLine(path string) ([]string, error) {
	self, err := installed()
	if err != nil {
		return nil, err
	}
	small := filepath.Join(filepath.Dir(self), daemon.SmallProgram+filepath.Ext(self))
	if _, err := os.Stat(small); err == nil {
		self = small
	}
	line := []string{self, daemon.Command}
	if cmp.Or(m.config, os.Getenv("MCPSCHEDD_CONFIG")) != "" {
		line = append(line, "--config", path)
	}
	return line, nil
}

// next returns the next steps for the user.
func (p *importPlan) next() []string {
	all := p.rules()
	for _, s := range p.servers {
		if !s.taken() {
			continue
		}
		if advice := p.m.reader.Advice(*s.server); advice != "" {
			all = append(all, advice)
		}
		file, _ := s.server.VariablesFile(variablesFolder)
		for _, u := range s.server.Variables.Unset {
			all = append(all, fmt.Sprintf("set %s in %s: %s", u.Name, filepath.Join(filepath.Dir(p.have.Path), file), u.Why))
		}
	}
	return all
}

// undoImports undoes imports: all, or those of some clients and files.
func (m *importing) undoImports() error {
	have, err := m.configured()
	if err != nil && m.config == "" {
		have, err = config.Default(), nil // undo works despite mistakes in the configuration
	}
	if err != nil {
		return err
	}
	dir, err := stateDir(have)
	if err != nil {
		return err
	}
	var paths []string
	for _, from := range m.from {
		named := clients.Named(from)
		for _, c := range named {
			paths = append(paths, c.Places(m.machine())...)
		}
		if len(named) == 0 {
			path, err := filepath.Abs(from)
			if err != nil {
				return err
			}
			paths = append(paths, path)
		}
	}
	var done []clients.Undone
	err = clients.Locked(dir, func() error {
		done, err = clients.Undo(dir, func(path string) bool { return len(paths) == 0 || slices.Contains(paths, path) })
		return err
	})
	for _, u := range done {
		say(m.stderr, "%s: %s", u.Path, u.What)
	}
	if err == nil && len(done) == 0 {
		err = hinted{errors.New("nothing to undo"), "--undo reverts only import --write; remove an entry that you made yourself in the client, such as by claude mcp remove mcpschedd"}
	}
	return err
}
