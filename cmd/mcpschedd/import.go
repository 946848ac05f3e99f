package main

import (
	"context"
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
  mcpschedd import --undo           take it back`,
		ValidArgs: clients.Names(),
		RunE: func(c *cobra.Command, words []string) error {
			m.from = words
			return runImport(c.Context(), m, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &m.config)
	c.Flags().BoolVar(&m.all, "all", false, "every client that is found")
	c.Flags().BoolVar(&m.write, "write", false, "do it, instead of printing it: add the servers to the\nconfiguration, their variables to env/NAME.env beside it\n(0600), and mcpschedd to the client's file in their place.\nWhat a project has checked in is never changed")
	c.Flags().BoolVar(&m.undo, "undo", false, "take it back: files are as they were, byte by byte; where\none has been changed since, only what import did to it")
	c.Flags().BoolVar(&m.permissions, "permissions", false, "with --write, or later: also rewrite Claude Code's own rules,\nhook matchers, agents and commands that name tools of these\nservers (else they are printed). What is denied there is\ndenied by mcpschedd in any case")
	c.Flags().StringSliceVar(&m.trust, "trust", nil, "`NAME,...`: believe these servers what they say of their\nown tools (all: every one but those of projects)")
	c.Flags().BoolVar(&m.noStart, "no-start", false, "do not start the servers of which nothing is known, to\nask each what it says of its tools")
	c.Flags().BoolVar(&m.json, "json", false, "print it as JSON")
	c.MarkFlagsMutuallyExclusive("write", "undo")
	return c
}

// importing is one run.
type importing struct {
	from                   []string // clients and files
	config                 string
	all, write, undo, json bool
	permissions, noStart   bool
	trust                  []string

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
	m.stdout, m.stderr, m.files = stdout, stderr, make(map[string]*state.File)
	m.home, _ = os.UserHomeDir() // "": clients' files are not looked for
	switch {
	case m.undo:
		return m.takeBack()
	case m.write:
		return m.writeMissing(ctx)
	case m.permissions:
		return m.rewriteRules()
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
	if m.json {
		return printJSON(m.stdout, p.report())
	}
	m.tell(p)
	p.tellUnknown()
	for _, line := range p.rules() {
		fmt.Fprintf(m.stderr, "mcpschedd: note: %s\n", line)
	}
	if blocks := p.blocks(); len(blocks) > 0 {
		fmt.Fprintf(stdout, "%s\n%s", m.header(), clients.TOML(blocks, variablesFolder))
	}
	return nil
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
	}
	return nil
}

func (m *importing) machine() clients.Machine {
	return clients.Machine{OS: runtime.GOOS, Home: m.home, Env: os.Getenv}
}

// read reads what was named, and what the clients' rules deny.
func (m *importing) read() error {
	if err := m.readServers(); err != nil {
		return err
	}
	m.reader.Deny(m.machine())
	return nil
}

// readServers reads files, and those of clients that exist.
func (m *importing) readServers() error {
	m.reader = clients.NewReader(clients.Options{Home: m.home, OS: runtime.GOOS, ReadFile: readBounded})
	if m.all {
		return m.readClients("any client", clients.All)
	}
	for _, from := range m.from {
		var err error
		if named := clients.Named(from); len(named) > 0 {
			err = m.readClients(from, named)
		} else {
			err = m.readFile(from)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readFile reads one that was named.
func (m *importing) readFile(name string) error {
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	err = m.one(path)
	if errors.Is(err, fs.ErrNotExist) {
		return hinted{misused{err}, "want a file, or one of " + strings.Join(clients.Names(), ", ")}
	}
	return err
}

// readClients reads those of clients' files that are there. What cannot be read is
// said; it is an error if nothing else is there.
func (m *importing) readClients(name string, all []*clients.Client) error {
	if m.home == "" {
		return hinted{misused{fmt.Errorf("there is no home folder to look for the files of %s in", name)}, "name the file instead"}
	}
	var wrong []error
	var tried []string
	before := len(m.sources)
	for _, c := range all {
		for _, path := range c.Places(m.machine()) {
			err := m.one(path)
			_, none := errors.AsType[*clients.NoServers](err)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				tried = append(tried, path+" (no such file)")
			case none:
				tried = append(tried, path+" (no servers in it)")
			case err != nil:
				wrong = append(wrong, err)
			}
		}
	}
	switch {
	case len(m.sources) > before:
		for _, err := range wrong {
			fmt.Fprintf(m.stderr, "mcpschedd: warning: %s\n", clients.OneLine(err.Error()))
		}
		return nil
	case len(wrong) > 0:
		return errors.Join(wrong...)
	}
	return hinted{fmt.Errorf("no servers of %s: %s", name, strings.Join(tried, ", ")), "name the file, if it is elsewhere"}
}

const mostClientFile = 64 << 20 // bytes

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostClientFile+1))
}

// one reads one file.
func (m *importing) one(path string) error {
	if slices.Contains(m.sources, path) {
		return nil
	}
	if s, err := os.Stat(path); err != nil {
		return err
	} else if s.IsDir() {
		return fmt.Errorf("%s: is a directory", path)
	} else if s.Size() > mostClientFile {
		return fmt.Errorf("%s: want a file of at most %d MiB", path, mostClientFile>>20)
	}
	f, err := state.OpenFile(path)
	if err != nil {
		return err
	}
	if err := m.reader.Read(path, f.Text); err != nil {
		return err
	}
	m.files[path] = f
	m.sources = append(m.sources, path)
	return nil
}

// header is a comment that says where the blocks are from.
func (m *importing) header() string {
	return clients.Comment("From " + strings.Join(m.sources, " and ") + ", by mcpschedd import.")
}

// foundFile is a client's file, and what would be done with its servers.
type foundFile struct {
	title string
	plan  *importPlan // nil: nothing
	why   string      // why it is nil, or the client would not start mcpschedd
}

// list prints the clients that are found, and what would be done.
func (m *importing) list(ctx context.Context) error {
	if m.home == "" {
		return hinted{misused{errors.New("there is no home folder to look for clients in")}, "name a file"}
	}
	var all []foundFile
	var plans []*importPlan
	for _, c := range clients.All {
		for _, path := range c.Places(m.machine()) {
			f, err := m.look(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return err
			}
			f.title = c.Title + ": " + path
			if all = append(all, f); f.plan != nil {
				plans = append(plans, f.plan)
			}
		}
	}
	if len(all) == 0 {
		fmt.Fprintf(m.stdout, "no client is found; name a file, or one of %s\n", strings.Join(clients.Names(), ", "))
		return nil
	}
	askAll(ctx, plans)
	for _, f := range all {
		fmt.Fprintln(m.stdout, clients.OneLine(f.title))
		if f.why != "" {
			fmt.Fprintln(m.stdout, clients.OneLine("  "+f.why))
		}
		if f.plan != nil {
			f.plan.list(m.stdout)
		}
	}
	fmt.Fprintln(m.stdout, "\nmcpschedd import CLIENT --write does it, and --all --write for all of them; --undo takes it back.")
	return nil
}

// look plans what would be done with one client's file. An error is a file that is not there,
// or a configuration of ours with mistakes.
func (m *importing) look(path string) (foundFile, error) {
	one := &importing{home: m.home, config: m.config, noStart: m.noStart, stdout: m.stdout, stderr: io.Discard, files: make(map[string]*state.File)}
	one.reader = clients.NewReader(clients.Options{Home: m.home, OS: runtime.GOOS, ReadFile: readBounded})
	err := one.one(path)
	if errors.Is(err, fs.ErrNotExist) {
		return foundFile{}, err
	}
	if _, none := errors.AsType[*clients.NoServers](err); none {
		return foundFile{why: "no servers"}, nil
	}
	if err != nil {
		return foundFile{why: "cannot be read, and is left alone: " + err.Error()}, nil
	}
	one.reader.Deny(m.machine())
	p, err := one.plan()
	if err != nil {
		return foundFile{}, err
	}
	if why := one.reader.Forbidden(m.machine()); why != "" {
		return foundFile{plan: p, why: "cannot be done: " + why}, nil
	}
	return foundFile{plan: p}, nil
}

// importReport is what --json prints.
type importReport struct {
	Sources []string         `json:"sources"`
	Servers []clients.Server `json:"servers"`
	Notes   []clients.Note   `json:"notes"`
	Self    []string         `json:"self,omitempty"` // files that have mcpschedd among their servers already
	Config  string           `json:"config,omitempty"`
	Added   []string         `json:"added,omitempty"`
	Kept    []string         `json:"kept,omitempty"`
	Changed []string         `json:"changed,omitempty"` // files, with --write
	Copies  string           `json:"copies,omitempty"`  // the folder of these files as they were
	Next    []string         `json:"next,omitempty"`
	Unknown []serverClaim    `json:"unknown,omitempty"` // what servers of which nothing is known say of their tools
}
