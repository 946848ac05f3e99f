package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"mcpschedd/internal/config"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/state"
)

func enableCommand() *cobra.Command {
	return editCommand("enable", "Switch an upstream on", "Sets enabled = true in the block [upstreams.NAME].")
}

func disableCommand() *cobra.Command {
	return editCommand("disable", "Switch one off", "Sets enabled = false in the block [upstreams.NAME]: the upstream ends, and its tools go.")
}

func removeCommand() *cobra.Command {
	return editCommand("remove", "Take one out of the configuration", "Takes the block [upstreams.NAME] out of the configuration, and prints it.")
}

// editCommand is a command that changes one upstream in the configuration.
func editCommand(name, short, long string) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:               name + " NAME",
		Short:             short,
		Long:              long + "\nAll else in the file, comments included, stays as it is, and running processes\nfollow at once.",
		Example:           "  mcpschedd " + name + " github",
		Args:              takes(1, 1, "the name of an upstream"),
		ValidArgsFunction: completeUpstreams(&file),
		RunE: func(c *cobra.Command, words []string) error {
			return edit(name, words[0], file, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &file)
	return c
}

// edit changes one upstream of the configuration.
func edit(command, name, file string, stdout, stderr io.Writer) error {
	path, found, err := config.Search(file, os.Getenv)
	if err != nil {
		return hinted{misused{err}, "mcpschedd help says where the configuration is looked for"}
	}
	if !found {
		return hinted{misused{errors.New("there is no configuration yet")}, "mcpschedd import takes over the servers of a client"}
	}
	f, err := state.OpenFile(path)
	if err != nil {
		return err
	}
	before, err := config.Parse(path, f.Text, unmeant)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(before.Upstreams, func(u config.Upstream) bool { return u.Name == name })
	if i < 0 {
		return unknownUpstream(before, path, name)
	}
	var text, removed []byte
	switch command {
	case "remove":
		text, removed, err = config.RemoveUpstream(f.Text, name)
	default:
		if before.Upstreams[i].Enabled == (command == "enable") {
			fmt.Fprintf(stderr, "mcpschedd: %s is %sd already\n", name, command)
			return nil
		}
		text, err = config.EnableUpstream(f.Text, name, command == "enable")
	}
	if err != nil {
		return misused{fmt.Errorf("%s: nothing was written: %w", path, err)}
	}
	if _, err := config.Parse(path, text, unmeant); err != nil {
		return fmt.Errorf("%s: nothing was written: the file would have a mistake: %w", path, err)
	}
	if err := f.Write(text); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "mcpschedd: %sd %s in %s\n", command, name, path)
	if file := before.Upstreams[i].EnvFile; command == "remove" && file != "" {
		fmt.Fprintf(stderr, "mcpschedd: note: its variables are still in %s\n", file)
	}
	_, err = stdout.Write(removed)
	return err
}

func unknownUpstream(c *config.Config, path, name string) error {
	var names []string
	for _, u := range c.Upstreams {
		names = append(names, u.Name)
	}
	err := misused{fmt.Errorf("%s has no upstream %q", path, name)}
	if near := nearest.New(names).To(name); near != "" {
		return hinted{err, fmt.Sprintf("did you mean %s?", near)}
	}
	return err
}
