package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/state"
)

// editCommand returns a command that changes upstreams in the configuration.
func editCommand(name, short, long string) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:               name + " NAME...",
		Short:             short,
		Long:              long + "\nThe rest of the file, comments included, is unchanged. Running processes apply the\nchange immediately.",
		Example:           "  mcpschedd " + name + " github",
		Args:              takes(1, -1, "the name of a server"),
		ValidArgsFunction: completeUpstreams(&file),
		RunE: func(c *cobra.Command, words []string) error {
			return editing(file, func(state.Dir) error { return edit(name, words, file, c.OutOrStdout(), c.ErrOrStderr()) })
		},
	}
	configFlag(c, &file)
	return c
}

// editing runs work that reads and replaces the configuration.
func editing(file string, work func(state.Dir) error) error {
	have, err := loadToEdit(file)
	if err != nil {
		return err
	}
	return locked(have, work)
}

// locked runs work, which changes files, in one process at a time: of two that replace a file at
// once, one change would be lost.
func locked(c *config.Config, work func(state.Dir) error) error {
	dir, err := stateDir(c)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return clients.Locked(dir, func() error { return work(dir) })
}

// edit runs one such command for all of the named upstreams or, on error, for none.
func edit(command string, names []string, file string, stdout, stderr io.Writer) error {
	c, err := load(file)
	if err != nil {
		return err
	}
	var upstreams []config.Upstream
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		u, err := upstreamNamed(c, name)
		if err != nil {
			return err
		}
		upstreams = append(upstreams, u)
	}
	f, err := state.OpenFile(c.Path)
	if err != nil {
		return err
	}
	text, removed, changed := f.Text, []byte(nil), upstreams[:0]
	for _, u := range upstreams {
		var block []byte
		enabled := command == "enable"
		switch {
		case command == "remove":
			text, block, err = config.RemoveUpstream(text, u.Name)
		case u.Enabled == enabled:
			say(stderr, "%s is already %sd", u.Name, command)
			continue
		default:
			text, err = config.EnableUpstream(text, u.Name, enabled)
		}
		if err != nil {
			return misused{fmt.Errorf("%s: nothing was written: %w", c.Path, err)}
		}
		removed, changed = append(removed, block...), append(changed, u)
	}
	if len(changed) == 0 {
		return nil
	}
	if _, err := config.Default().Parse(c.Path, text); err != nil {
		return fmt.Errorf("%s: nothing was written: the file would have a mistake: %v", c.Path, err)
	}
	if err := f.Writable(); err != nil {
		return err
	}
	if _, err := stdout.Write(removed); err != nil { // before it is gone
		return err
	}
	if err := f.Write(text); err != nil {
		return err
	}
	for _, u := range changed {
		say(stderr, "%s: %sd %s", c.Path, command, u.Name)
		if command == "remove" && u.EnvFile != "" {
			say(stderr, "note: its variables are still in %s: delete that file if no other server needs them", paths.Absolute(u.EnvFile, u.Dir))
		}
	}
	sayRenames(c.Path, f.Text, text, stderr)
	return nil
}

// sayRenames prints that the tools of a server which stays enabled get other names by a change of the
// configuration, since clients' rules with the earlier names no longer apply.
func sayRenames(path string, was, text []byte, stderr io.Writer) {
	before, invalid := config.Default().Parse(path, was)
	after, err := config.Default().Parse(path, text)
	if invalid != nil || err != nil {
		return
	}
	tool := func(c *config.Config, name string) string {
		if catalog.Prefixed(c.Server.NameStyle, len(enabledNames(c))) {
			return name + "__TOOL"
		}
		return "TOOL"
	}
	for _, name := range enabledNames(before) {
		from, to := tool(before, name), tool(after, name)
		if from != to && slices.Contains(enabledNames(after), name) {
			advice := ""
			if to == "TOOL" {
				advice = `, or set name_style = "always" in [server] and restart`
			}
			say(stderr, "note: the tools of %s were named %s and are now named %s: change clients' rules that name them%s", name, from, to, advice)
		}
	}
}
