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
		Short: "Move the servers of your MCP clients into mcpschedd",
		Long: `Moves the servers of MCP clients into mcpschedd's configuration. Without arguments it
lists the clients it finds, and previews the import.

CLIENT is claude (Claude Code and Claude Desktop), claude-desktop, cursor, vscode,
windsurf, zed, gemini, codex or opencode. FILE is a client's configuration file:
.mcp.json, mcp.json, settings.json, config.toml.

Every literal value in a server's environment and headers, and anything in its arguments
or URL that looks like a secret, goes into a file of variables. None is printed.`,
		Example: `  mcpschedd import                  list the servers found, and preview the import
  mcpschedd import claude           print the configuration blocks
  mcpschedd import claude --write   import
  mcpschedd import --permissions    later: also rewrite Claude Code's rules
  mcpschedd import --hooks          later: also have Claude Code report its edits
  mcpschedd import --undo           restore the clients' files`,
		ValidArgs: clients.Names(),
		RunE: func(c *cobra.Command, words []string) error {
			m.from = words
			return runImport(c.Context(), m, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &m.config)
	c.Flags().BoolVar(&m.all, "all", false, "import from every client that is found")
	c.Flags().BoolVar(&m.write, "write", false, "import instead of printing: add the servers to the\nconfiguration and their variables to env/NAME.env beside it\n(0600), and replace them with mcpschedd in the client's file.\nFiles that a project has checked in are never changed")
	c.Flags().BoolVar(&m.undo, "undo", false, "undo imports: restore each file byte for byte; in a file\nthat has changed since, revert only the import's changes")
	c.Flags().BoolVar(&m.permissions, "permissions", false, "with --write, or later: also rewrite Claude Code's rules,\nhook matchers, agents and commands that name tools of these\nservers (otherwise the new names are printed). mcpschedd\nenforces deny rules in any case")
	c.Flags().BoolVar(&m.hooks, "hooks", false, "with --write, or later: also add hooks to Claude Code's\nsettings that report its own edits, so that files are\nprefetched and never served stale")
	c.Flags().StringSliceVar(&m.trust, "trust", nil, "trust the tool annotations of the servers `NAME,...`\n(all: every server except those of projects)")
	c.Flags().BoolVar(&m.noStart, "no-start", false, "do not start unknown servers to read their tool\nannotations")
	c.MarkFlagsMutuallyExclusive("write", "undo")
	c.MarkFlagsMutuallyExclusive("hooks", "undo")
	return c
}

// importing is one run of import.
type importing struct {
	from                 []string // clients and files
	config               string
	all, write, undo     bool
	permissions, noStart bool
	hooks                bool
	trust                []string

	home    string
	reader  *clients.Reader
	files   map[string]*state.File // path → file, of the files read
	sources []string               // their paths, in order
	stdout  io.Writer
	stderr  io.Writer
}

// runImport prints clients' servers as configuration blocks, imports them, or undoes imports.
func runImport(ctx context.Context, m *importing, stdout, stderr io.Writer) error {
	if err := m.check(); err != nil {
		return err
	}
	m.begin(stdout, stderr, false)
	switch {
	case m.undo:
		return m.undoImports()
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
	p.readAnnotations(ctx)
	p.printNotes()
	p.printUnknown()
	for _, line := range p.rules() {
		say(m.stderr, "note: %s", line)
	}
	if blocks := p.blocks(); len(blocks) > 0 {
		fmt.Fprintf(stdout, "%s\n%s", m.header(), clients.TOML(blocks, variablesFolder))
	}
	return nil
}

// begin prepares m for reading clients' files. For withoutToken see [clients.Options].
func (m *importing) begin(stdout, stderr io.Writer, withoutToken bool) {
	m.stdout, m.stderr, m.files = stdout, stderr, make(map[string]*state.File)
	m.home, _ = os.UserHomeDir() // "" means clients' files are not searched
	m.reader = clients.NewReader(clients.Options{Machine: m.machine(), ReadFile: readBounded, WithoutToken: withoutToken})
}

// check validates the combination of flags and arguments.
func (m *importing) check() error {
	switch {
	case slices.Contains(m.from, ""):
		return usage("unexpected argument %q", "")
	case m.all && len(m.from) > 0:
		return usage("want either clients or --all")
	case m.write && len(m.from) == 0 && !m.all:
		return usage("--write: want a file, --all, or some of %s", strings.Join(clients.Names(), ", "))
	case m.hooks && runtime.GOOS == "windows":
		return usage("--hooks is not supported on Windows yet")
	}
	return nil
}

func (m *importing) machine() clients.Machine {
	return clients.Machine{OS: runtime.GOOS, Home: m.home, Env: os.Getenv}
}

// header returns a comment that names the source of the blocks.
func (m *importing) header() string {
	return clients.Comment("From " + strings.Join(m.sources, " and ") + ", by mcpschedd import.")
}
