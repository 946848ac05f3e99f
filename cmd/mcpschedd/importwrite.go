package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
func (m *importing) change() error {
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
	return clients.Locked(dir, func() error {
		if err := m.read(); err != nil {
			return err
		}
		p, err := m.plan()
		if err != nil {
			return err
		}
		changes, err := p.changes(dir)
		if err != nil {
			return err
		}
		if m.write {
			p.printNotes()
		}
		copies := ""
		if len(changes) > 0 {
			if copies, err = clients.Apply(dir, m.sources, changes, time.Now()); err != nil {
				return err
			}
		}
		return p.printChanges(changes, copies)
	})
}

// changes returns the changes to all files.
func (p *importPlan) changes(dir state.Dir) (all []clients.Change, err error) {
	if p.m.write {
		all, err = p.imported()
	} else {
		err = p.onlyMoved(dir)
	}
	if err == nil && p.m.permissions {
		all, err = p.withRules(all)
	}
	if err == nil && p.m.hooks {
		all, err = p.withHooks(all)
	}
	return all, err
}

// onlyMoved restricts the plan to servers that earlier imports have moved: the tools of others
// keep their names.
func (p *importPlan) onlyMoved(dir state.Dir) (err error) {
	for i := range p.servers {
		if s := &p.servers[i]; !s.exists {
			s.add, s.Upstream = false, ""
		}
	}
	if p.moved, err = clients.Moved(dir); err == nil && len(p.moved) == 0 && p.m.permissions {
		err = hinted{errors.New("no server of Claude Code has been moved"), "mcpschedd import claude --write --permissions moves them, and rewrites the rules"}
	}
	return err
}

// imported returns the changes of import --write: those to our own files, and those that point the
// clients' files to mcpschedd.
func (p *importPlan) imported() ([]clients.Change, error) {
	for _, path := range p.m.sources {
		if why := p.m.reader.Forbidden(path); why != "" {
			return nil, fmt.Errorf("nothing was changed: %s", why)
		}
	}
	file, err := state.OpenFile(p.have.Path)
	if err != nil {
		return nil, err
	}
	changes, err := p.configuration(file)
	if err != nil {
		return nil, err
	}
	line, err := p.m.ownLine(p.have.Path)
	if err != nil {
		return nil, err
	}
	pointed, err := p.m.reader.Point(line)
	for _, one := range pointed {
		changes = append(changes, clients.Change{File: p.m.files[one.Path], Text: one.Text, Pointed: &one})
	}
	return changes, err
}

// configuration returns the changes to our own files: the configuration and variables files.
func (p *importPlan) configuration(file *state.File) ([]clients.Change, error) {
	blocks := p.blocks()
	if len(blocks) == 0 {
		return nil, nil
	}
	text := p.m.appended(file.Text, blocks)
	if _, err := config.Parse(p.have.Path, text); err != nil {
		return nil, fmt.Errorf("%s: nothing was written: the imported servers would make it invalid: %v", p.have.Path, err)
	}
	var changes []clients.Change
	for _, s := range blocks {
		if name, variables := s.VariablesFile(variablesFolder); variables != nil {
			f, err := state.OpenFile(p.beside(name))
			if err != nil {
				return nil, err
			}
			changes = append(changes, clients.Change{File: f, Text: variables})
		}
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

// withRules adds the changes to Claude Code's files with rules.
func (p *importPlan) withRules(all []clients.Change) ([]clients.Change, error) {
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
		all = append(all, clients.Change{File: f, Text: r.Text, Renamed: r.Renamed})
	}
	return all, nil
}

// withHooks adds the change to Claude Code's settings that makes it report its edits.
func (p *importPlan) withHooks(all []clients.Change) ([]clients.Change, error) {
	line, err := p.m.ownLine(p.have.Path)
	if err != nil {
		return nil, err
	}
	line[1] = daemon.HookCommand
	path := clients.HooksFile(machine())
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

// printChanges prints the changes, the location of the copies, and the next steps.
func (p *importPlan) printChanges(changes []clients.Change, copies string) error {
	if len(changes) == 0 {
		say(p.m.stderr, "nothing to change")
	}
	pointed := false
	for _, c := range changes {
		if c.File.Path == p.have.Path {
			if _, err := p.m.stdout.Write(state.Diff(c.File.Path, c.File.Text, c.Text)); err != nil {
				return err
			}
		}
		say(p.m.stderr, "wrote %s", c.File.Path)
		if c.Renamed != nil {
			say(p.m.stderr, "%s: %s", c.File.Path, renames(c.Renamed))
		}
		pointed = pointed || c.Pointed != nil
	}
	if copies != "" {
		say(p.m.stderr, "copies of the original files: %s; mcpschedd import --undo restores them", copies)
	}
	next := p.rules()
	if p.m.write {
		next = append(next, p.steps()...)
	}
	if pointed {
		next = append(next, "restart the clients: they read their files at start-up")
	}
	for _, step := range next {
		say(p.m.stderr, "next: %s", step)
	}
	return nil
}

// steps returns what the user should do for the servers that were moved.
func (p *importPlan) steps() (all []string) {
	for _, s := range p.servers {
		if !s.taken() {
			continue
		}
		if advice := p.m.reader.Advice(*s.Server); advice != "" {
			all = append(all, advice)
		}
		file, _ := s.VariablesFile(variablesFolder)
		for _, u := range s.Variables.Unset {
			all = append(all, fmt.Sprintf("set %s in %s: %s", u.Name, p.beside(file), u.Why))
		}
	}
	return all
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

// installed returns the path of this program, preferably the link in PATH, which survives updates.
func installed() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if linked, err := exec.LookPath("mcpschedd"); err == nil && filepath.IsAbs(linked) {
		a, errA := os.Stat(linked)
		b, errB := os.Stat(self)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return linked, nil
		}
	}
	return self, nil
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
			paths = append(paths, c.Places(machine())...)
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
