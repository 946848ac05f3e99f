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
	"mcpschedd/internal/record"
	"mcpschedd/internal/state"
)

func importCommand() *cobra.Command {
	o := new(importFlags)
	c := &cobra.Command{
		Use:   "import [CLIENT|FILE...]",
		Short: "Move the servers of your MCP clients into mcpschedd",
		Long: `Moves the servers of MCP clients into mcpschedd's configuration. Without arguments it
lists the clients it finds, and previews the import.

CLIENT is claude (both claude-code and claude-desktop), cursor, vscode, windsurf, zed,
gemini, qwen, codex, opencode or copilot. FILE is a client's configuration file:
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
			o.words = words
			return o.run(c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &o.config)
	c.Flags().BoolVar(&o.all, "all", false, "import from every client that is found")
	c.Flags().BoolVar(&o.write, "write", false, "import instead of printing: add the servers to the\nconfiguration and their variables to env/NAME.env beside it\n(0600), and replace them with mcpschedd in the client's file.\nFiles that a project has checked in are never changed")
	c.Flags().BoolVar(&o.undo, "undo", false, "undo imports: restore each file byte for byte; in a client's\nfile that has changed since, revert only the import's changes")
	c.Flags().BoolVar(&o.permissions, "permissions", false, "with --write, or later: also rewrite Claude Code's rules,\nhook matchers, agents and commands that name tools of these\nservers (otherwise the new names are printed). mcpschedd\nenforces deny rules in any case")
	c.Flags().BoolVar(&o.hooks, "hooks", false, "with --write, or later: also add hooks to Claude Code's\nsettings that report its own edits, so that files are\nprefetched in its turns")
	c.Flags().StringSliceVar(&o.trust, "trust", nil, "trust the tool annotations of the servers `NAME,...`\n(all: every server except those of projects)")
	c.MarkFlagsMutuallyExclusive("write", "undo")
	c.MarkFlagsMutuallyExclusive("hooks", "undo")
	c.MarkFlagsMutuallyExclusive("permissions", "undo")
	c.MarkFlagsMutuallyExclusive("trust", "undo")
	return c
}

// importFlags are the arguments and flags of import.
type importFlags struct {
	words              []string // clients and files
	config             string
	all, write, undo   bool
	permissions, hooks bool
	trust              []string
}

// nothing reports whether neither a client nor a file is named.
func (o *importFlags) nothing() bool { return len(o.words) == 0 && !o.all }

// check returns the error of arguments and flags that do not go together.
func (o *importFlags) check() error {
	switch {
	case slices.Contains(o.words, ""):
		return usage("unexpected argument %q", "")
	case o.all && len(o.words) > 0:
		return usage("want either clients or --all")
	case o.write && o.nothing():
		return usage("--write: want a file, --all, or some of %s", strings.Join(clients.Names(), ", "))
	case o.hooks && runtime.GOOS == "windows":
		return usage("--hooks is not supported on Windows yet")
	}
	return nil
}

// run lists or prints clients' servers, imports them, or undoes imports.
func (o *importFlags) run(stdout, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.undo {
		return o.undoImports(stderr)
	}
	have, err := loadToEdit(o.config)
	if err != nil {
		return err
	}
	p := newPlan(have, false)
	switch {
	case o.write || o.permissions || o.hooks:
		return o.change(p, stderr)
	case o.nothing():
		return p.list(o.trust, stdout)
	}
	if err := o.read(p, stderr); err != nil {
		return err
	}
	if what := p.imports(); what != "" {
		say(stderr, "nothing was changed; --write imports %s", what)
	}
	p.printNotes(stderr)
	p.keepNames()
	for _, line := range p.rules(o.permissions) {
		say(stderr, "note: %s", line)
	}
	_, err = stdout.Write(p.added())
	return err
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

// read reads the named files and the files of named clients, and plans what becomes of their servers.
func (o *importFlags) read(p *importPlan, stderr io.Writer) error {
	if o.all {
		if err := readClients(p, "any client", clients.All(), stderr); err != nil {
			return err
		}
	}
	for _, word := range o.words {
		if named := clients.ByName(word); named != nil {
			if err := readClients(p, word, named, stderr); err != nil {
				return err
			}
			continue
		}
		path, err := filepath.Abs(word)
		if err == nil {
			err = p.readFile(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return noClient(word)
		} else if err != nil {
			return err
		}
	}
	return p.decide(o.trust)
}

// noClient returns the error of a word that names neither a client nor a file.
func noClient(word string) error {
	err := fmt.Errorf("%s: not a client and not a file", word)
	return suggest(err, "", word, clients.Names(), "want a file, or one of "+strings.Join(clients.Names(), ", "))
}

// readClients reads the existing files of clients. An unreadable file is a warning, or an error
// if no other file has servers.
func readClients(p *importPlan, name string, all []*clients.Client, stderr io.Writer) error {
	files, err := p.readUsersFiles(all)
	if err != nil {
		return err
	}
	var paths []string
	var wrong []error
	found, exists := false, false
	for _, f := range files {
		paths, found, exists = append(paths, f.path), found || f.err == nil, exists || !f.missing()
		if f.err != nil && !errors.Is(f.err, clients.ErrNoServers) && !f.missing() {
			wrong = append(wrong, f.err)
		}
	}
	if !found {
		err := errors.Join(append(wrong, fmt.Errorf("no servers of %s in %s", name, strings.Join(paths, ", ")))...)
		if !exists {
			err = hinted{err, "name the file if it is elsewhere"}
		}
		return err
	}
	for _, err := range wrong {
		say(stderr, "warning: %v", err)
	}
	return nil
}

// list prints the clients found, and what an import would do with each of their servers.
func (p *importPlan) list(trust []string, stdout io.Writer) error {
	files, err := p.readUsersFiles(clients.All())
	if err != nil {
		return err
	}
	if files = slices.DeleteFunc(files, clientFile.missing); len(files) == 0 {
		fmt.Fprintf(stdout, "no client found; name a file, or one of %s; mcpschedd add adds a server without a client\n", strings.Join(clients.Names(), ", "))
		return nil
	}
	if err := p.decide(trust); err != nil {
		return err
	}
	servers := p.reader.Servers()
	for _, s := range servers { // a client's own file refers to the files of projects
		if !slices.ContainsFunc(files, func(f clientFile) bool { return f.path == s.From.File }) {
			files = append(files, clientFile{title: clients.ByName(s.From.Client)[0].Title, path: s.From.File})
		}
	}
	fmt.Fprint(stdout, "Nothing was changed: mcpschedd import CLIENT --write imports one client, --all --write all of them; --undo reverts it.\n\n")
	line := func(text string) { fmt.Fprintln(stdout, record.Printable(text)) }
	for _, f := range files {
		line(f.title + ": " + f.path)
		if f.err != nil {
			line("  skipped: " + f.err.Error())
		} else if why := p.reader.Forbidden(f.path); why != "" {
			line("  cannot be imported: " + why)
		}
		for _, s := range servers {
			if s.From.File == f.path {
				line("  " + s.Called + ": " + p.decision(s))
			}
		}
	}
	for _, n := range p.reader.Notes() {
		fmt.Fprintln(stdout, n)
	}
	for _, name := range []string{".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"} {
		path, _ := filepath.Abs(name)
		isListed := slices.ContainsFunc(files, func(f clientFile) bool { return f.path == path })
		if _, err := os.Stat(path); err == nil && !isListed {
			line(path + ": a file of this project, which is imported only by its name: mcpschedd import " + name)
		}
	}
	return nil
}

// obstacle describes why a server is not added to the configuration; "" if it is.
func (p *importPlan) obstacle(s clients.Server) string {
	switch {
	case s.Stays != "":
		return "stays with its client: " + s.Stays
	case !s.New && p.upstream(s.Name) == nil:
		return "becomes upstreams." + s.Name + " too, as it is the same server"
	case !s.New:
		return "is already configured as upstreams." + s.Name
	}
	return ""
}

// decision describes what an import would do with the server.
func (p *importPlan) decision(s clients.Server) string {
	what := p.obstacle(s)
	if what == "" {
		what = "would be imported"
		if s.Name != s.Plain() {
			what += " as upstreams." + s.Name
		}
		if provider := providerOf(s); provider != "" {
			what += ", recognised as " + provider
		}
		if s.Block.Disabled {
			what += ", disabled"
		}
	}
	if folders := s.Block.Folders; len(folders) > 0 {
		what += " (only in " + strings.Join(folders, ", ") + ")"
	}
	return what
}

// imports describes the servers that are imported; "" if none is.
func (p *importPlan) imports() string {
	var names, from []string
	for _, s := range p.reader.Servers() {
		if s.Stays != "" {
			continue
		}
		names, from = append(names, s.Name), append(from, clientOf(s))
	}
	slices.Sort(names)
	slices.Sort(from)
	names, from = slices.Compact(names), slices.Compact(from)
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "1 server of " + from[0]
	}
	return fmt.Sprintf("%d servers of %s", len(names), strings.Join(from, ", "))
}

// clientOf returns the title of the server's client, or its file if that is of none.
func clientOf(s clients.Server) string {
	if named := clients.ByName(s.From.Client); named != nil {
		return named[0].Title
	}
	return s.From.File
}

// printNotes prints notes on the files, and on the servers that are not imported or unknown.
func (p *importPlan) printNotes(stderr io.Writer) {
	for _, n := range p.reader.Notes() {
		say(stderr, "note: %s", n)
	}
	taken := false
	var unknown []string
	for _, s := range p.reader.Servers() {
		taken = taken || s.Stays == ""
		why := p.obstacle(s)
		if why == "" && s.Name != s.Plain() {
			offered := ""
			if s.Block.Folders == nil && !s.Block.Disabled {
				offered = "; every client is offered both: mcpschedd disable hides one"
			}
			say(stderr, "note: %s of %s becomes upstreams.%s, as another server has the name%s", s.Called, clientOf(s), s.Name, offered)
		}
		if why == "" && slices.Contains(s.Block.DenyTools, "*") {
			say(stderr, "note: upstreams.%s denies all its tools, to every client, as Claude Code's rules do", s.Name)
		}
		if u := p.upstream(s.Name); why != "" && s.Block.Trust && u != nil && !u.Trust {
			why += "; " + p.toTrust(u.Name)
		}
		if why != "" {
			say(stderr, "note: %s %s", s.Called, why)
		} else if !s.Block.Trust && providerOf(s) == "" && !slices.Contains(unknown, s.Name) {
			unknown = append(unknown, s.Name)
		}
	}
	for i := range p.have.Upstreams {
		u := &p.have.Upstreams[i]
		if denied := p.denied(u); len(denied) > 0 {
			say(stderr, "note: upstreams.%s denies from now on, as a client does: %s", u.Name, strings.Join(denied, ", "))
		}
	}
	if len(unknown) > 0 {
		say(stderr, "note: calls of these unknown servers only pass through: %s; mcpschedd check --connect -v shows their tool annotations, and trust = true in a server's block, or --trust NAME,... at its import, trusts them", strings.Join(unknown, ", "))
	}
	if !taken {
		say(stderr, "nothing to import")
	}
}

// paths returns the files that are named, by themselves or by their clients.
func (o *importFlags) paths() (all []string) {
	for _, word := range o.words {
		named := clients.ByName(word)
		for _, c := range named {
			all = append(all, c.Places(machine())...)
		}
		if path, err := filepath.Abs(word); err == nil && named == nil {
			all = append(all, path)
		}
	}
	return all
}

// undoImports undoes imports: all, or those of some clients and files.
func (o *importFlags) undoImports(stderr io.Writer) error {
	have, err := loadToEdit(o.config)
	if mistakes, ok := errors.AsType[*config.Error](err); ok {
		have, err = mistakes.Salvage(nil), nil // undo works despite mistakes in the configuration
	}
	if err != nil {
		return err
	}
	paths := o.paths()
	var done []string
	err = locked(have, func(dir state.Dir) (err error) {
		done, err = clients.Undo(dir, func(path string) bool { return len(o.words) == 0 || includes(paths, path) })
		return err
	})
	for _, line := range done {
		say(stderr, "%s", line)
	}
	if err == nil && len(done) == 0 {
		err = hinted{errors.New("nothing to undo"), "--undo reverts only import --write; remove an entry that you made yourself in the client, such as by claude mcp remove mcpschedd"}
		for _, word := range o.words {
			if _, missing := os.Lstat(word); missing != nil && clients.ByName(word) == nil {
				err = noClient(word)
			}
		}
	}
	return err
}
