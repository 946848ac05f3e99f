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
	if err := m.configured(); err != nil {
		return err
	}
	dir, err := stateDir(m.have)
	if err != nil {
		return err
	}
	return clients.Locked(dir, func() error {
		if err := m.read(); err != nil {
			return err
		}
		changes, err := m.changes(dir)
		if err != nil {
			return err
		}
		if m.write {
			m.printNotes()
		}
		copies := ""
		if len(changes) > 0 {
			if copies, err = clients.Apply(dir, m.sources, changes, time.Now()); err != nil {
				return err
			}
		}
		return m.printChanges(changes, copies)
	})
}

// changes returns the changes to all files.
func (m *importing) changes(dir state.Dir) (all []clients.Change, err error) {
	if m.write {
		all, err = m.imported()
	} else {
		err = m.onlyMoved(dir)
	}
	if m.permissions {
		for _, c := range m.rewrites() {
			if !c.Shared {
				all = append(all, c)
			}
		}
	}
	if err == nil && m.hooks {
		all, err = m.withHooks(all)
	}
	return all, err
}

// onlyMoved restricts the plan to servers that earlier imports have moved: the tools of others
// keep their names.
func (m *importing) onlyMoved(dir state.Dir) (err error) {
	servers := m.reader.Servers()
	for i := range servers {
		if s := &servers[i]; s.New || !m.has(s.Name) {
			s.New, s.Upstream = false, ""
		}
	}
	if m.moved, err = clients.Moved(dir); err == nil && len(m.moved) == 0 && m.permissions {
		err = hinted{errors.New("no server of Claude Code has been moved"), "mcpschedd import claude --write --permissions moves them, and rewrites the rules"}
	}
	return err
}

// imported returns the changes of import --write: those to our own files, and those that point the
// clients' files to mcpschedd.
func (m *importing) imported() ([]clients.Change, error) {
	for _, path := range m.sources {
		if why := m.reader.Forbidden(path); why != "" {
			return nil, fmt.Errorf("nothing was changed: %s", why)
		}
	}
	changes, err := m.configuration()
	if err != nil {
		return nil, err
	}
	line, err := m.ownLine()
	if err != nil {
		return nil, err
	}
	pointed, err := m.reader.Point(line)
	return append(changes, pointed...), err
}

// configuration returns the changes to our own files: the variables files, then the configuration,
// which refers to them.
func (m *importing) configuration() (all []clients.Change, err error) {
	added := m.added()
	if added == nil {
		return nil, nil
	}
	for _, s := range m.newServers() {
		if variables := s.VariablesText(); variables != nil {
			c, err := unchanged(m.beside(s.File))
			if err != nil {
				return nil, err
			}
			c.Text = variables
			all = append(all, c)
		}
	}
	c, err := unchanged(m.have.Path)
	if err != nil {
		return nil, err
	}
	c.Text = appended(c.Was, added)
	if _, err := config.Parse(m.have.Path, c.Text); err != nil {
		return nil, fmt.Errorf("%s: nothing was written: the imported servers would make it invalid: %v", m.have.Path, err)
	}
	return append(all, c), nil
}

// unchanged returns a change of a file that keeps its text.
func unchanged(path string) (clients.Change, error) {
	f, err := state.OpenFile(path)
	if err != nil {
		return clients.Change{}, err
	}
	return clients.Change{Path: path, Was: f.Text, Text: f.Text}, nil
}

// appended returns a configuration with blocks added at its end, after a blank line, and with the
// same line ends.
func appended(text, added []byte) []byte {
	switch {
	case len(text) == 0:
	case text[len(text)-1] != '\n':
		added = append([]byte("\n\n"), added...)
	default:
		added = append([]byte("\n"), added...)
	}
	if bytes.Contains(text, []byte("\r\n")) {
		added = bytes.ReplaceAll(added, []byte("\n"), []byte("\r\n"))
	}
	return slices.Concat(text, added)
}

// withHooks adds the change to Claude Code's settings that makes it report its edits.
func (m *importing) withHooks(all []clients.Change) ([]clients.Change, error) {
	line, err := m.ownLine()
	if err != nil {
		return nil, err
	}
	line[1] = daemon.HookCommand
	path := clients.HooksFile(machine())
	var c clients.Change
	if i := slices.IndexFunc(all, func(c clients.Change) bool { return c.Path == path }); i >= 0 {
		c = all[i]
		all = slices.Delete(all, i, i+1)
	} else if c, err = unchanged(path); err != nil {
		return nil, err
	}
	text, err := clients.WithHooks(path, c.Text, clients.HookSettings(line))
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	c.Hooks, c.Text = !bytes.Equal(c.Text, text), text
	if c.Hooks || c.Renamed != nil {
		all = append(all, c)
	}
	return all, nil
}

// printChanges prints the changes, the location of the copies, and the next steps.
func (m *importing) printChanges(changes []clients.Change, copies string) error {
	if len(changes) == 0 {
		say(m.stderr, "nothing to change")
	}
	next := m.rules()
	if m.write {
		next = append(next, m.steps()...)
	}
	for _, c := range changes {
		if c.Path == m.have.Path {
			if _, err := m.stdout.Write(state.Diff(c.Path, c.Was, c.Text)); err != nil {
				return err
			}
		}
		say(m.stderr, "wrote %s", c.Path)
		if c.Renamed != nil {
			say(m.stderr, "%s", renames(c))
		}
	}
	if copies != "" {
		say(m.stderr, "copies of the original files: %s; mcpschedd import --undo restores them", copies)
	}
	if slices.ContainsFunc(changes, func(c clients.Change) bool { return c.Client }) {
		next = append(next, "restart the clients: they read their files at start-up")
	}
	for _, step := range next {
		say(m.stderr, "next: %s", step)
	}
	return nil
}

// steps returns what the user should do for the servers that were moved.
func (m *importing) steps() (all []string) {
	for _, s := range m.reader.Servers() {
		if s.Upstream == "" {
			continue
		}
		if advice := m.reader.Advice(s); advice != "" {
			all = append(all, advice)
		}
		for _, u := range s.Variables.Unset {
			all = append(all, fmt.Sprintf("set %s in %s: %s", u.Name, m.beside(s.File), u.Why))
		}
	}
	return all
}

// ownLine returns the command line with which a client starts mcpschedd: an absolute path, as
// graphical programs have another PATH than a terminal. The small program, if present, connects
// in an eighth of the time.
func (m *importing) ownLine() ([]string, error) {
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
		line = append(line, "--config", m.have.Path)
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
	err := m.configured()
	if err != nil && m.config == "" {
		m.have, err = config.Default(), nil // undo works despite mistakes in the configuration
	}
	if err != nil {
		return err
	}
	dir, err := stateDir(m.have)
	if err != nil {
		return err
	}
	var paths []string
	for _, from := range m.from {
		named := clients.Named(from)
		for _, c := range named {
			paths = append(paths, c.Places(machine())...)
		}
		if path, err := filepath.Abs(from); err == nil && named == nil {
			paths = append(paths, path)
		}
	}
	var done []clients.Undone
	err = clients.Locked(dir, func() error {
		done, err = clients.Undo(dir, func(path string) bool { return len(m.from) == 0 || slices.Contains(paths, path) })
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
