package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/state"
)

// change runs import --write, --permissions or --hooks: it adds missing servers to the
// configuration and replaces them in the clients' files, renames tools in Claude Code's rules,
// or adds hooks to its settings. All results are checked before any file is changed.
func (o *importFlags) change(p *importPlan, stderr io.Writer) error {
	if o.nothing() {
		o.words = []string{"claude"} // only Claude Code has rules and hooks
	}
	return locked(p.have, func(dir state.Dir) error {
		if err := o.read(p, stderr); err != nil {
			return err
		}
		changes, err := o.changes(p, dir)
		if err != nil {
			return err
		}
		copies := ""
		if len(changes) > 0 {
			if copies, err = clients.Apply(dir, p.sources, changes, time.Now()); err != nil {
				return err
			}
		}
		if o.write {
			if what := p.imports(); what != "" && len(changes) > 0 {
				say(stderr, "imported %s into %s", what, p.have.Path)
			}
			p.printNotes(stderr)
		}
		var next []string
		if o.write || o.permissions {
			next = p.rules(o.permissions)
		}
		if o.write {
			isClients := func(c clients.Change) bool { return c.Client }
			if i := indexOf(changes, p.have.Path); i >= 0 && changes[i].Was == nil && !slices.ContainsFunc(changes, isClients) {
				step, err := stepToConnect(p.have)
				if err != nil {
					return err
				}
				next = append(next, step)
			}
			next = append(next, p.steps()...)
			if len(p.newServers()) > 0 { // a client's first session would not wait for a server that is slow to start
				next = append(next, "mcpschedd check --connect starts each server once, so that the first session has all tools")
			}
		}
		p.printChanges(changes, copies, next, stderr)
		return nil
	})
}

// changes returns the changes to all files.
func (o *importFlags) changes(p *importPlan, dir state.Dir) (all []clients.Change, err error) {
	line, err := clientLine(p.have)
	if err != nil {
		return nil, err
	}
	if o.permissions { // else the rules for what earlier imports moved were told by them
		if p.moved, err = clients.Moved(dir); err != nil {
			return nil, err
		}
		p.moved = slices.DeleteFunc(p.moved, func(m clients.Move) bool { return p.upstream(m.Upstream) == nil })
	}
	switch {
	case o.write:
		if all, err = p.imported(line); err != nil {
			return nil, err
		}
	case o.permissions && len(p.moved) == 0:
		return nil, hinted{errors.New("no server of Claude Code has been moved"), "mcpschedd import claude --write --permissions moves them, and rewrites the rules"}
	case o.permissions:
		p.onlyMoved()
	}
	if o.write || o.permissions {
		if p.keepNames(); p.always {
			if all, err = p.withPrefixes(all); err != nil {
				return nil, err
			}
		}
	}
	if o.permissions {
		for _, c := range p.rewrites() {
			switch i := indexOf(all, c.Path); {
			case c.Shared:
			case i >= 0: // a file with servers too
				all[i].Rename(c)
			default:
				all = append(all, c)
			}
		}
	}
	if o.hooks {
		line[1] = daemon.HookCommand
		all, err = withHooks(all, line)
	}
	return all, err
}

// onlyMoved restricts the plan to servers that earlier imports have moved: the tools of others
// keep their names. A server in a file of the user is its client's own, even if it is configured.
func (p *importPlan) onlyMoved() {
	servers := p.reader.Servers()
	for i := range servers {
		if s := &servers[i]; s.New || s.From.Scope != "project" || p.upstream(s.Name) == nil {
			s.New, s.Stays = false, "it has not been moved"
		}
	}
}

// ownVariables are variables that decide where mcpschedd keeps its state, and how it reaches a url.
const ownVariables = "XDG_STATE_HOME HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR"

// imported returns the changes of import --write: those to our own files, and those that make the
// clients start mcpschedd by a command line.
func (p *importPlan) imported(line []string) ([]clients.Change, error) {
	for _, path := range p.sources {
		if why := p.reader.Forbidden(path); why != "" {
			return nil, fmt.Errorf("nothing was changed: %s", why)
		}
	}
	changes, err := p.configuration()
	if err != nil {
		return nil, err
	}
	variables := slices.DeleteFunc(strings.Fields(ownVariables), func(name string) bool { return os.Getenv(name) == "" })
	for _, u := range p.have.Upstreams {
		if u.Enabled {
			_, _ = u.Resolve(func(name string) (string, bool) { variables = append(variables, name); return "", true })
		}
	}
	pointed, err := p.reader.Point(line, variables...)
	return append(changes, pointed...), err
}

// configuration returns the changes to our own files: the variables files, then the configuration,
// which refers to them. A server that is configured already denies from now on what its client denies.
func (p *importPlan) configuration() (all []clients.Change, err error) {
	added := p.added()
	if added == nil && p.have.Upstreams == nil {
		return nil, nil
	}
	if p.have.Path == "" {
		return nil, hinted{misused{errors.New("no place for the configuration: neither XDG_CONFIG_HOME nor HOME is set")}, "name one with --config"}
	}
	for _, s := range p.newServers() {
		if variables := s.VariablesText(); variables != nil {
			c, err := unchanged(p.beside(s.File))
			if err != nil {
				return nil, err
			}
			c.Text = variables
			all = append(all, c)
		}
	}
	c, err := unchanged(p.have.Path)
	if err != nil {
		return nil, err
	}
	for i := range p.have.Upstreams {
		u := &p.have.Upstreams[i]
		denied := p.denied(u)
		if len(denied) == 0 {
			continue
		}
		if slices.Contains(denied, "*") {
			return nil, hinted{
				fmt.Errorf("nothing was changed: a client denies all tools of the server that is upstreams.%s, which other clients may use", u.Name),
				fmt.Sprintf("set tools.deny = [\"*\"] in [upstreams.%s], which denies them to all, or remove that rule", u.Name),
			}
		}
		if c.Text, err = config.DenyTools(c.Text, u.Name, denied); err == nil {
			_, err = config.Default().Parse(p.have.Path, c.Text)
		}
		if err != nil {
			err = fmt.Errorf("nothing was changed: a client denies tools of the server that is upstreams.%s, which does not: %s", u.Name, strings.Join(denied, ", "))
			key := config.Key("upstreams", u.Name)
			line := cmp.Or(p.have.Positions[key+".tools.deny"], p.have.Positions[key+".tools"], p.have.Positions[key])
			return nil, hinted{err, fmt.Sprintf("add them to tools.deny of [%s], %s:%d", key, p.have.Path, line)}
		}
	}
	c.Text = config.AddUpstreams(c.Text, added)
	if _, err := config.Default().Parse(p.have.Path, c.Text); err != nil {
		return nil, fmt.Errorf("%s: nothing was written: the imported servers would make it invalid: %v", p.have.Path, err)
	}
	if bytes.Equal(c.Text, c.Was) {
		return nil, nil
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

// indexOf returns the index of the change of a file; -1 if there is none.
func indexOf(all []clients.Change, path string) int {
	return slices.IndexFunc(all, func(c clients.Change) bool { return c.Path == path })
}

// withPrefixes adds name_style to the change to the configuration, before the clients' files.
func (p *importPlan) withPrefixes(all []clients.Change) ([]clients.Change, error) {
	i := indexOf(all, p.have.Path)
	if i < 0 {
		c, err := unchanged(p.have.Path)
		if err != nil {
			return nil, err
		}
		i, all = 0, slices.Insert(all, 0, c)
	}
	all[i].Text = config.PrefixNames(all[i].Text)
	if _, err := config.Default().Parse(p.have.Path, all[i].Text); err != nil {
		return nil, hinted{fmt.Errorf("%s: nothing was changed: rules name tools, and name_style cannot be added, as server is not a block", p.have.Path), `set name_style = "always" there`}
	}
	return all, nil
}

// withHooks adds the change to Claude Code's settings that makes it report its edits by a command line.
func withHooks(all []clients.Change, line []string) ([]clients.Change, error) {
	path := clients.HooksFile(machine())
	var c clients.Change
	var err error
	if i := indexOf(all, path); i >= 0 {
		c = all[i]
		all = slices.Delete(all, i, i+1)
	} else if c, err = unchanged(path); err != nil {
		return nil, err
	}
	text, err := clients.WithHooks(path, c.Text, line)
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	c.Hooks, c.Text = !bytes.Equal(c.Text, text), text
	if !bytes.Equal(c.Text, c.Was) {
		all = append(all, c)
	}
	return all, nil
}

// printChanges prints the changes, the folder of the copies, and the next steps.
func (p *importPlan) printChanges(changes []clients.Change, copies string, next []string, stderr io.Writer) {
	if len(changes) == 0 {
		say(stderr, "nothing to change")
	}
	if p.always {
		say(stderr, `note: tools are named NAME__TOOL, however many servers there are (name_style = "always" in [server]), since rules name them`)
	}
	restart := p.always
	for _, c := range changes {
		restart = restart || c.Client
		if c.Path == p.have.Path {
			sayRenames(c.Path, c.Was, c.Text, stderr)
		}
		say(stderr, "wrote %s", c.Path)
		if c.Renamed != nil {
			say(stderr, "%s", renames(c))
		}
	}
	if copies != "" {
		say(stderr, "copies of the original files: %s; mcpschedd import --undo restores them", copies)
	}
	if restart {
		next = append(next, "restart the clients: they read their files at start-up")
	}
	for _, step := range next {
		say(stderr, "next: %s", step)
	}
}

// clientLine returns the command line with which a client starts mcpschedd: an absolute path, as
// graphical programs have another PATH than a terminal. The small program, if present, connects
// in an eighth of the time. It names the configuration if that is not where a client finds it that has
// this command's variables, or none of them, such as Codex, or a program that was not started from a terminal.
func clientLine(have *config.Config) ([]string, error) {
	self, err := installed()
	if err != nil {
		return nil, err
	}
	small := filepath.Join(filepath.Dir(self), daemon.SmallProgram+filepath.Ext(self))
	if _, err := os.Stat(small); err == nil {
		self = small
	}
	line := []string{self, daemon.Command}
	without := func(name string) string {
		if name == "MCPSCHEDD_CONFIG" || name == "XDG_CONFIG_HOME" {
			return ""
		}
		return os.Getenv(name)
	}
	with, _, _ := paths.Search("", os.Getenv)
	if found, _, _ := paths.Search("", without); found != have.Path || with != have.Path {
		line = append(line, "--config", have.Path)
	}
	return line, nil
}

// stepToConnect returns what to do if no client starts mcpschedd yet.
func stepToConnect(have *config.Config) (string, error) {
	line, err := clientLine(have)
	return "give your client one server, with the command " + pasted(line), err
}

// installed returns the path of this program, preferably the link in PATH, which survives updates.
func installed() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	linked, _ := exec.LookPath("mcpschedd") // "" if it is not in PATH
	if target, err := filepath.EvalSymlinks(linked); err == nil && target == paths.WithoutLinks(self) && filepath.IsAbs(linked) {
		return linked, nil
	}
	return self, nil
}
