package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/state"
)

// editCommand returns a command that changes single upstreams in the configuration.
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
			return editing(file, func() error {
				for _, word := range words {
					if err := edit(name, word, file, c.OutOrStdout(), c.ErrOrStderr()); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	configFlag(c, &file)
	return c
}

// editing runs work that reads and replaces the configuration.
func editing(file string, work func() error) error {
	have, err := configured(file)
	if err != nil {
		return err
	}
	return locked(have, func(state.Dir) error { return work() })
}

// locked runs work, which changes files, in one process at a time: of two that replace a file at
// once, one change would be lost.
func locked(c *config.Config, work func(state.Dir) error) error {
	dir, err := stateDir(c)
	if err != nil {
		return err
	}
	return clients.Locked(dir, func() error { return work(dir) })
}

// edit runs one such command for one upstream.
func edit(command, name, file string, stdout, stderr io.Writer) error {
	c, err := load(file)
	if err != nil {
		return err
	}
	u, err := upstreamNamed(c, name)
	if err != nil {
		return err
	}
	f, err := state.OpenFile(c.Path)
	if err != nil {
		return err
	}
	var text, removed []byte
	switch command {
	case "remove":
		text, removed, err = config.RemoveUpstream(f.Text, name)
	default:
		if u.Enabled == (command == "enable") {
			say(stderr, "%s is already %sd", name, command)
			return nil
		}
		text, err = config.EnableUpstream(f.Text, name, command == "enable")
	}
	if err != nil {
		return misused{fmt.Errorf("%s: nothing was written: %w", c.Path, err)}
	}
	if _, err := config.Default().Parse(c.Path, text); err != nil {
		return fmt.Errorf("%s: nothing was written: the file would have a mistake: %w", c.Path, err)
	}
	if err := f.Write(text); err != nil {
		return err
	}
	say(stderr, "%s: %sd %s", c.Path, command, name)
	if command == "remove" && u.EnvFile != "" {
		say(stderr, "note: its variables are still in %s, relative to the configuration", u.EnvFile)
	}
	_, err = stdout.Write(removed)
	return err
}
