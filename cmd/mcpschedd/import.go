package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/state"
)

func importCommand() *cobra.Command {
	m := new(importing)
	c := &cobra.Command{
		Use:   "import [CLIENT|FILE...]",
		Short: "Take over the servers that an MCP client is configured with",
		Long: `Takes over the servers that MCP clients are configured with. Alone it lists the clients
that are found, and what would be done.

CLIENT is claude (Code, and the desktop program), claude-desktop, cursor, vscode,
windsurf, zed, gemini, codex or opencode; FILE a client's file: .mcp.json, mcp.json,
settings.json, config.toml.

Every literal value of a server's environment and headers, and what looks like a secret
in its arguments and its URL, goes into the file of variables. None is printed.`,
		Example: `  mcpschedd import                  what there is, and what would be done
  mcpschedd import claude           the blocks for the configuration
  mcpschedd import claude --write   do it
  mcpschedd import --permissions    and later: also rewrite Claude Code's rules
  mcpschedd import --hooks          and later: also have Claude Code report its edits
  mcpschedd import --undo           take mcpschedd out again`,
		ValidArgs: clients.Names(),
		RunE: func(c *cobra.Command, words []string) error {
			m.from = words
			return runImport(c.Context(), m, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &m.config)
	c.Flags().BoolVar(&m.all, "all", false, "every client that is found")
	c.Flags().BoolVar(&m.write, "write", false, "do it, instead of printing it: add the servers to the\nconfiguration, their variables to env/NAME.env beside it\n(0600), and mcpschedd to the client's file in their place.\nWhat a project has checked in is never changed")
	c.Flags().BoolVar(&m.undo, "undo", false, "take mcpschedd out again: files are as they were, byte by\nbyte; where one has been changed since, only what import\ndid to it is taken back")
	c.Flags().BoolVar(&m.permissions, "permissions", false, "with --write, or later: also rewrite Claude Code's own rules,\nhook matchers, agents and commands that name tools of these\nservers (else they are printed). What is denied there is\ndenied by mcpschedd in any case")
	c.Flags().BoolVar(&m.hooks, "hooks", false, "with --write, or later: also have Claude Code report what it\nedits itself, by hooks in its settings, so that files are\nfetched ahead and never served as they were before")
	c.Flags().StringSliceVar(&m.trust, "trust", nil, "believe what the servers `NAME,...` say of their own\ntools (all: every one but those of projects)")
	c.Flags().BoolVar(&m.noStart, "no-start", false, "do not start the servers of which nothing is known, to\nask each what it says of its tools")
	c.MarkFlagsMutuallyExclusive("write", "undo")
	c.MarkFlagsMutuallyExclusive("hooks", "undo")
	return c
}

// importing is one run.
type importing struct {
	from                 []string // clients and files
	config               string
	all, write, undo     bool
	permissions, noStart bool
	hooks                bool
	trust                []string

	home    string
	reader  *clients.Reader
	files   map[string]*state.File // those that were read
	sources []string               // their names, in order
	stdout  io.Writer
	stderr  io.Writer
}

// runImport prints clients' servers as upstreams, takes them over, or gives them back.
func runImport(ctx context.Context, m *importing, stdout, stderr io.Writer) error {
	if err := m.check(); err != nil {
		return err
	}
	m.begin(stdout, stderr, false)
	switch {
	case m.undo:
		return m.takeBack()
	case m.write || m.permissions || m.hooks:
		return m.change(ctx)
	case len(m.from) == 0 && !m.all:
		return m.list(ctx)
	}
	if err := m.read(); err != nil {
		return err
	}
	p, err := m.plan()
	if err != nil {
		return err
	}
	p.ask(ctx)
	p.tell()
	p.tellUnknown()
	for _, line := range p.rules() {
		say(m.stderr, "note: %s", line)
	}
	if blocks := p.blocks(); len(blocks) > 0 {
		fmt.Fprintf(stdout, "%s\n%s", m.header(), clients.TOML(blocks, variablesFolder))
	}
	return nil
}

// begin makes ready to read. withoutToken: see [clients.Options].
func (m *importing) begin(stdout, stderr io.Writer, withoutToken bool) {
	m.stdout, m.stderr, m.files = stdout, stderr, make(map[string]*state.File)
	m.home, _ = os.UserHomeDir() // "": clients' files are not looked for
	m.reader = clients.NewReader(clients.Options{Machine: m.machine(), ReadFile: readBounded, WithoutToken: withoutToken})
}

// check finds what makes no sense together.
func (m *importing) check() error {
	switch {
	case slices.Contains(m.from, ""):
		return usage("unexpected argument %q", "")
	case m.all && len(m.from) > 0:
		return usage("want clients or --all, have both")
	case m.write && len(m.from) == 0 && !m.all:
		return usage("--write: want a file, --all, or some of %s", strings.Join(clients.Names(), ", "))
	case m.hooks && runtime.GOOS == "windows":
		return usage("--hooks: not on Windows, where the hooks cannot be run yet")
	}
	return nil
}

func (m *importing) machine() clients.Machine {
	return clients.Machine{OS: runtime.GOOS, Home: m.home, Env: os.Getenv}
}

// header is a comment that says where the blocks are from.
func (m *importing) header() string {
	return clients.Comment("From " + strings.Join(m.sources, " and ") + ", by mcpschedd import.")
}
