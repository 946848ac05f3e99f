package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"mcpschedd/internal/config"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/state"
)

const usageEdit = `usage: mcpschedd enable|disable|remove NAME [--config FILE]

Changes one upstream in the configuration. All else in the file, comments
included, stays as it is, and running processes follow at once.

  enable         sets enabled = true
  disable        sets enabled = false: the upstream ends, and its tools go
  remove         takes its block out, and prints it

  NAME           as in [upstreams.NAME]
  --config FILE  the configuration (default: see mcpschedd help)

For example:

  mcpschedd disable github
`

// runEdit changes one upstream of the configuration.
func runEdit(command string, args []string, stdout, stderr io.Writer) error {
	name, file, err := parseEdit(command, args, stdout)
	if err != nil {
		return err
	}
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

// parseEdit reads the command line; the name may stand before the flags.
func parseEdit(command string, args []string, stdout io.Writer) (name, file string, err error) {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.StringVar(&file, "config", "", "")
	for rest := args; ; rest = fs.Args()[1:] {
		if err := parse(fs, rest, usageEdit, stdout); err != nil {
			return "", "", err
		}
		switch {
		case fs.NArg() == 0 && name == "":
			return "", "", &usageError{text: "want the name of an upstream", usage: usageEdit}
		case fs.NArg() == 0:
			return name, file, nil
		case name != "" || fs.Arg(0) == "":
			return "", "", noArguments(fs, usageEdit)
		}
		name = fs.Arg(0)
	}
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
