package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
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
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return clients.Names(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, words []string) error {
			m.from = words
			m.begin(c.OutOrStdout(), c.ErrOrStderr(), false)
			return m.run()
		},
	}
	configFlag(c, &m.config)
	c.Flags().BoolVar(&m.all, "all", false, "import from every client that is found")
	c.Flags().BoolVar(&m.write, "write", false, "import instead of printing: add the servers to the\nconfiguration and their variables to env/NAME.env beside it\n(0600), and replace them with mcpschedd in the client's file.\nFiles that a project has checked in are never changed")
	c.Flags().BoolVar(&m.undo, "undo", false, "undo imports: restore each file byte for byte; in a file\nthat has changed since, revert only the import's changes")
	c.Flags().BoolVar(&m.permissions, "permissions", false, "with --write, or later: also rewrite Claude Code's rules,\nhook matchers, agents and commands that name tools of these\nservers (otherwise the new names are printed). mcpschedd\nenforces deny rules in any case")
	c.Flags().BoolVar(&m.hooks, "hooks", false, "with --write, or later: also add hooks to Claude Code's\nsettings that report its own edits, so that files are\nprefetched and never served stale")
	c.Flags().StringSliceVar(&m.trust, "trust", nil, "trust the tool annotations of the servers `NAME,...`\n(all: every server except those of projects)")
	c.MarkFlagsMutuallyExclusive("write", "undo")
	c.MarkFlagsMutuallyExclusive("hooks", "undo")
	return c
}

// importing is one run of import or add.
type importing struct {
	from               []string // clients and files
	config             string
	all, write, undo   bool
	permissions, hooks bool
	trust              []string

	stdout, stderr io.Writer
	reader         *clients.Reader
	sources        []string       // the files read, in order
	have           *config.Config // that is to be changed
	moved          []clients.Move // servers moved by earlier imports
}

// begin prepares m for reading clients' files. For withoutToken see [clients.Options].
func (m *importing) begin(stdout, stderr io.Writer, withoutToken bool) {
	m.stdout, m.stderr = stdout, stderr
	m.reader = clients.NewReader(clients.Options{Machine: machine(), ReadFile: readBounded, WithoutToken: withoutToken})
}

// run lists or prints clients' servers, imports them, or undoes imports.
func (m *importing) run() error {
	switch {
	case slices.Contains(m.from, ""):
		return usage("unexpected argument %q", "")
	case m.all && len(m.from) > 0:
		return usage("want either clients or --all")
	case m.write && len(m.from) == 0 && !m.all:
		return usage("--write: want a file, --all, or some of %s", strings.Join(clients.Names(), ", "))
	case m.hooks && runtime.GOOS == "windows":
		return usage("--hooks is not supported on Windows yet")
	case m.undo:
		return m.undoImports()
	case m.write || m.permissions || m.hooks:
		return m.change()
	case len(m.from) == 0 && !m.all:
		return m.list()
	}
	if err := m.read(); err != nil {
		return err
	}
	m.printNotes()
	for _, line := range m.rules() {
		say(m.stderr, "note: %s", line)
	}
	if added := m.added(); added != nil {
		_, err := m.stdout.Write(added)
		return err
	}
	return nil
}

func machine() clients.Machine {
	home, _ := os.UserHomeDir() // "" means clients' files are not searched
	return clients.Machine{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}

// readBounded reads a file, of which a client accepts far less than the bound.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<20))
}

// clientFile is a file of a client, and the error of reading it.
type clientFile struct {
	title string // name of the client
	path  string
	err   error // why none of its servers could be read
}

// missing reports whether the file does not exist.
func (f clientFile) missing() bool { return errors.Is(f.err, fs.ErrNotExist) }

// read reads the named files, the files of named clients, and the deny rules of clients, and
// decides what to do with the servers.
func (m *importing) read() error {
	if m.all {
		if err := m.readClients("any client", clients.All()); err != nil {
			return err
		}
	}
	for _, from := range m.from {
		if named := clients.Named(from); named != nil {
			if err := m.readClients(from, named); err != nil {
				return err
			}
			continue
		}
		path, err := filepath.Abs(from)
		if err == nil {
			err = m.readFile(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return suggest(fmt.Errorf("%s: not a client and not a file", from), from, clients.Names(), "want a file, or one of "+strings.Join(clients.Names(), ", "))
		} else if err != nil {
			return err
		}
	}
	m.reader.Deny()
	return m.decide()
}

// readClients reads the existing files of clients. An unreadable file is a warning, or an error
// if no other file has servers.
func (m *importing) readClients(name string, all []*clients.Client) error {
	files, err := m.lookFor(all)
	if err != nil {
		return err
	}
	var paths []string
	var wrong []error
	found := false
	for _, f := range files {
		paths, found = append(paths, f.path), found || f.err == nil
		if _, empty := errors.AsType[*clients.NoServers](f.err); f.err != nil && !empty && !f.missing() {
			wrong = append(wrong, f.err)
		}
	}
	if !found {
		err := fmt.Errorf("no servers of %s in %s", name, strings.Join(paths, ", "))
		return hinted{errors.Join(append(wrong, err)...), "name the file if it is elsewhere"}
	}
	for _, err := range wrong {
		say(m.stderr, "warning: %v", err)
	}
	return nil
}

// lookFor reads the user's files of clients.
func (m *importing) lookFor(all []*clients.Client) (files []clientFile, err error) {
	if machine().Home == "" {
		return nil, hinted{misused{errors.New("no home directory to search for clients")}, "name a file"}
	}
	for _, c := range all {
		for _, path := range c.Places(machine()) {
			files = append(files, clientFile{c.Title, path, m.readFile(path)})
		}
	}
	return files, nil
}

// readFile reads one file.
func (m *importing) readFile(path string) error {
	if slices.Contains(m.sources, path) {
		return nil
	}
	f, err := state.OpenFile(path)
	if err != nil {
		return err
	}
	if !f.Exists {
		return fs.ErrNotExist
	}
	if err := m.reader.Read(path, f.Text); err != nil {
		return err
	}
	m.sources = append(m.sources, path)
	return nil
}

// list prints the clients found, and what an import would do with each of their servers.
func (m *importing) list() error {
	files, err := m.lookFor(clients.All())
	if err != nil {
		return err
	}
	if files = slices.DeleteFunc(files, clientFile.missing); len(files) == 0 {
		_, err := fmt.Fprintf(m.stdout, "no client found; name a file, or one of %s; mcpschedd add adds a server without a client\n", strings.Join(clients.Names(), ", "))
		return err
	}
	m.reader.Deny()
	if err := m.decide(); err != nil {
		return err
	}
	servers := m.reader.Servers()
	for _, s := range servers { // a client's own file refers to the files of projects
		if !slices.ContainsFunc(files, func(f clientFile) bool { return f.path == s.From.File }) {
			files = append(files, clientFile{title: clients.Named(s.From.Client)[0].Title, path: s.From.File})
		}
	}
	line := func(text string) { fmt.Fprintln(m.stdout, clients.OneLine(text)) }
	for _, f := range files {
		line(f.title + ": " + f.path)
		if f.err != nil {
			line("  skipped: " + f.err.Error())
		} else if why := m.reader.Forbidden(f.path); why != "" {
			line("  cannot be imported: " + why)
		}
		for _, s := range servers {
			if s.From.File == f.path {
				line("  " + s.Called() + ": " + decision(s))
			}
		}
	}
	for _, n := range m.reader.Notes() {
		fmt.Fprintln(m.stdout, n)
	}
	_, err = fmt.Fprintln(m.stdout, "\nmcpschedd import CLIENT --write imports one client, --all --write all of them; --undo reverts it.")
	return err
}

// decision describes what an import would do with the server.
func decision(s clients.Server) string {
	what := "would be imported"
	if provider := providerOf(s); provider != "" {
		what += ", known (" + provider + ")"
	}
	switch {
	case s.Stays != "":
		what = "stays: " + s.Stays
	case !s.New:
		what = "already configured as upstreams." + s.Name
	}
	if s.Block.Disabled {
		what += ", disabled"
	}
	if folders := s.Block.Folders; len(folders) > 0 {
		what += " (only in " + strings.Join(folders, ", ") + ")"
	}
	return what
}
