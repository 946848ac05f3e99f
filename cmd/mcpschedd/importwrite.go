package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/importing"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/state"
)

// change runs import --write, --permissions or --hooks: it adds missing servers to the
// configuration and replaces them in the clients' files, renames tools in Claude Code's rules,
// or adds hooks to its settings. All results are checked before any file is changed.
func (o *importFlags) change(im *importing.Import, stderr io.Writer) error {
	if o.nothing() {
		o.words = []string{"claude"} // only Claude Code has rules and hooks
	}
	return locked(im.Config, func(dir state.Dir) error {
		if err := o.read(im, stderr); err != nil {
			return err
		}
		line, err := clientLine(im.Config)
		if err != nil {
			return err
		}
		parts := importing.Parts{Servers: o.write, Line: line, Rules: o.permissions}
		if o.hooks {
			parts.Hook = slices.Concat(line[:1], []string{daemon.HookCommand}, line[2:])
		}
		changes, err := im.Changes(dir, parts)
		if err != nil {
			return refused(err)
		}
		copies, err := clients.Apply(dir, im.Sources, changes, time.Now())
		if err != nil {
			return err
		}
		if o.write {
			if what := im.Summary(); what != "" && len(changes) > 0 {
				say(stderr, "imported %s into %s", what, im.Config.Path)
			}
			sayEach(stderr, "note", im.Notes())
		}
		o.printChanges(changes, copies, im.Config.Path, line, stderr)
		sayEach(stderr, "next", im.Steps(parts, changes))
		return nil
	})
}

// printChanges prints the changes, the folder of the copies, and what to do if no client starts mcpschedd yet.
func (o *importFlags) printChanges(changes []clients.Change, copies, configuration string, line []string, stderr io.Writer) {
	if len(changes) == 0 {
		say(stderr, "nothing to change")
	}
	isFirst := false
	for _, c := range changes {
		if c.Path == configuration {
			sayRenames(c.Path, c.Was, c.Text, stderr)
			isFirst = o.write && c.Was == nil
		}
		say(stderr, "wrote %s", c.Path)
		if c.Renamed != nil {
			say(stderr, "%s", c.Renames())
		}
	}
	if copies != "" {
		say(stderr, "copies of the original files: %s; mcpschedd import --undo restores them", copies)
	}
	if isFirst && !slices.ContainsFunc(changes, func(c clients.Change) bool { return c.Client }) {
		sayToConnect(line, stderr)
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

// sayToConnect prints what to do if no client starts mcpschedd yet.
func sayToConnect(line []string, stderr io.Writer) {
	say(stderr, "next: give your client one server, with the command %s", pasted(line))
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
