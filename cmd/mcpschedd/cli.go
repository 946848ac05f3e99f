package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"mcpschedd/internal/daemon"
)

// rootCommand returns the root command. It prints help if stdin is a terminal, and serves otherwise.
func rootCommand() *cobra.Command {
	var o serveFlags
	root := &cobra.Command{
		Use:   "mcpschedd",
		Short: "An MCP proxy: one server for your client, in front of all your others",
		Long: `mcpschedd is an MCP proxy. Configure it as the only MCP server of your client, and your
servers in its configuration file. It prefetches read-only tool calls, and caches their
results for as long as they are valid.

The configuration is read from --config FILE, else $MCPSCHEDD_CONFIG, else
$XDG_CONFIG_HOME/mcpschedd/pipeline_config.toml (or ~/.config). Without a file, built-in
defaults apply. The working directory is never searched.

Without a command, mcpschedd runs mcpschedd serve unless stdin is a terminal.`,
		Example: `  mcpschedd demo                    see what it does, in 16 seconds
  mcpschedd import                  list your clients' servers, and preview the import
  mcpschedd import claude --write   move Claude's servers into mcpschedd
  mcpschedd import --undo           restore the clients' files
  mcpschedd stats                   show what was saved today`,
		SilenceUsage:  true, // report prints errors
		SilenceErrors: true,
		Args: func(c *cobra.Command, words []string) error {
			if len(words) == 0 {
				return nil
			}
			var names []string
			for _, command := range c.Commands() {
				names = append(names, command.Name())
			}
			err := fmt.Errorf("unknown command %q", words[0])
			if other := otherWords[strings.ToLower(words[0])]; other != "" {
				return hinted{misused{err}, "did you mean mcpschedd " + other + "?"}
			}
			return suggest(err, "mcpschedd ", words[0], names, "mcpschedd help lists the commands")
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if term.IsTerminal(int(os.Stdin.Fd())) {
				return c.Help()
			}
			return serve(c.Context(), o, c.ErrOrStderr())
		},
	}
	configFlag(root, &o.config)
	root.SetFlagErrorFunc(flagError)
	return root
}

// addCommands adds the subcommands.
func addCommands(root *cobra.Command) {
	root.Version = versionLine()
	group := func(title string, all ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range all {
			c.GroupID = title
			root.AddCommand(c)
		}
	}
	group("Servers:", importCommand(), addCommand(),
		editCommand("enable", "Enable a server", "Sets enabled = true in [upstreams.NAME]."),
		editCommand("disable", "Disable a server", "Sets enabled = false in [upstreams.NAME]: the server stops, and its tools disappear."),
		editCommand("remove", "Remove a server from the configuration", "Removes the block [upstreams.NAME] from the configuration, and prints it."),
		checkCommand())
	group("Run:", serveCommand(), callCommand(), demoCommand(), connectCommand(), hookCommand(), daemonCommand())
	group("Inspect:", statsCommand(), dashboardCommand(), explainCommand(), logsCommand(), tuneCommand())
	root.AddCommand(replayCommand(), versionCommand(), completionCommand())
	root.SetHelpCommand(helpCommand())
}

// otherWords are common words for commands, for suggestions.
var otherWords = map[string]string{
	"init": "import", "setup": "import", "install": "import", "uninstall": "import --undo", "undo": "import --undo",
	"delete": "remove", "rm": "remove",
	"list": "check", "ls": "check", "validate": "check", "doctor": "check", "config": "check", "trust": "check --connect",
	"start": "serve", "run": "serve",
	"stop": "daemon --stop", "restart": "daemon --stop", "update": "daemon --stop", "upgrade": "daemon --stop",
	"status": "stats", "why": "explain",
}

// helpCommand returns help [COMMAND]. Unlike cobra's, it fails for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Print this help, or the help of a command",
		Example: "  mcpschedd help add",
		RunE: func(c *cobra.Command, words []string) error {
			about, rest, err := c.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return c.Root().Args(c.Root(), rest)
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}

// execute runs one command. An error before the command starts is a usage error.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cobra.MousetrapHelpText = ""       // on Windows, a graphical client may start it
	cobra.EnableCommandSorting = false // list commands in the order of typical use
	root := rootCommand()
	addCommands(root)
	root.SetArgs(args)
	out := &output{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	began := false
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if err := c.ValidateFlagGroups(); err != nil { // cobra's message is for programmers: it has the flags in brackets
			_, group, _ := strings.Cut(err.Error(), "[")
			group, _, _ = strings.Cut(group, "]")
			return usage("want only one of --%s", strings.Join(strings.Fields(group), ", --"))
		}
		var err error
		c.Flags().Visit(func(f *pflag.Flag) {
			if f.Value.Type() == "string" && f.Value.String() == "" && c.Name() != "connect" { // else --config "$UNSET" would mean the default; clients' entries may say so
				err = usage("--%s: want %s, have \"\"", f.Name, accepted(f))
			}
		})
		began = err == nil
		return err
	}
	c, err := root.ExecuteContextC(ctx)
	if out.err != nil {
		return out.err
	}
	if _, ok := errors.AsType[*usageError](err); ok || err != nil && !began {
		if _, ok := errors.AsType[hinted](err); !ok {
			err = hinted{err, usageHint(c)}
		}
		return misused{err}
	}
	return err
}

// usageError is an invalid command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// flagError says what a flag without a value or with a wrong one accepts, and which flag an unknown
// one may stand for. pflag's own messages are those of strconv.
func flagError(c *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usage("--%s: want %s, have %q", wrong.GetFlag().Name, accepted(wrong.GetFlag()), wrong.GetValue())
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usage("--%s: want %s", missing.GetFlag().Name, accepted(missing.GetFlag()))
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if !c.HasParent() && c.Flags().NArg() > 0 { // the flag is of a command with a slip in its name
		return c.Args(c, c.Flags().Args())
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" { // a long name with a single dash
		name = short
	}
	return suggest(err, "--", name, names, usageHint(c))
}

// usageHint returns the hint for a wrong command line without a better one.
func usageHint(c *cobra.Command) string {
	return "usage: " + c.UseLine() + " (" + c.CommandPath() + " --help has details)"
}

// accepted describes the values that a flag accepts.
func accepted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool", "boolfunc":
		return "true or false"
	case "int":
		return "a whole number, such as 20"
	case "float64":
		return "a number, such as 8"
	case "duration":
		return daemon.WantTime
	}
	placeholder, _ := pflag.UnquoteUsage(f)
	return placeholder
}

// takes accepts least to most positional arguments; most < 0 means no limit. want names the
// missing arguments.
func takes(least, most int, want string) cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error {
		switch {
		case len(words) < least:
			return usage("want %s", want)
		case slices.Contains(words, ""): // else check "$UNSET" would mean the default
			return usage("unexpected argument %q", "")
		case most >= 0 && len(words) > most:
			err := usage("unexpected argument %q", words[most])
			if c.Flags().Lookup(words[most]) != nil {
				err = hinted{err, "did you mean --" + words[most] + "?"}
			}
			return err
		}
		return nil
	}
}

// choice adds a flag that sets chosen to the flag's name.
func choice(c *cobra.Command, chosen *string, name, short, help string) {
	c.Flags().BoolFuncP(name, short, help, func(value string) error {
		on, err := strconv.ParseBool(value)
		if on {
			*chosen = name
		}
		return err
	})
}

func configFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "config", "", "read the configuration from `FILE` (default: see\nmcpschedd help)")
}
