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

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/importing"
	"mcpschedd/internal/paths"
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
	im := newImport(have, false)
	switch {
	case o.write || o.permissions || o.hooks:
		return o.change(im, stderr)
	case o.nothing():
		return list(im, o.trust, stdout)
	}
	if err := o.read(im, stderr); err != nil {
		return err
	}
	if what := im.Summary(); what != "" {
		say(stderr, "nothing was changed; --write imports %s", what)
	}
	sayEach(stderr, "note", append(im.Notes(), im.Rules(o.permissions)...))
	_, err = stdout.Write(im.Blocks())
	return err
}

// newImport returns an import without servers. For withoutToken see [clients.Options].
func newImport(have *config.Config, withoutToken bool) *importing.Import {
	options := clients.Options{Machine: machine(), ReadFile: readBounded, WithoutToken: withoutToken}
	return &importing.Import{Config: have, Reader: clients.NewReader(options), Prefixed: catalog.Prefixed}
}

// refused returns an error of an import with its hint.
func refused(err error) error {
	if r, ok := errors.AsType[*importing.Refusal](err); ok {
		return hinted{misused{err}, r.Hint}
	}
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

// read reads the named files and the files of named clients, and decides what becomes of their servers.
func (o *importFlags) read(im *importing.Import, stderr io.Writer) error {
	if o.all {
		if err := readClients(im, "any client", clients.All(), stderr); err != nil {
			return err
		}
	}
	for _, word := range o.words {
		if named := clients.ByName(word); named != nil {
			if err := readClients(im, word, named, stderr); err != nil {
				return err
			}
			continue
		}
		path, err := filepath.Abs(word)
		if err == nil {
			err = im.Read(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return noClient(word)
		} else if err != nil {
			return err
		}
	}
	return refused(im.Decide(o.trust))
}

// noClient returns the error of a word that names neither a client nor a file.
func noClient(word string) error {
	err := fmt.Errorf("%s: not a client and not a file", word)
	return suggest(err, "", word, clients.Names(), "want a file, or one of "+strings.Join(clients.Names(), ", "))
}

// clientFile is a file of a client, and the error of reading it.
type clientFile struct {
	title string // name of the client
	path  string
	err   error // why none of its servers could be read
}

// missing reports whether the file does not exist.
func (f clientFile) missing() bool { return errors.Is(f.err, fs.ErrNotExist) }

// readUsersFiles reads the user's files of clients.
func readUsersFiles(im *importing.Import, all []*clients.Client) (files []clientFile, err error) {
	if machine().Home == "" {
		return nil, hinted{misused{errors.New("no home directory to search for clients")}, "name a file"}
	}
	for _, c := range all {
		for _, path := range c.Places(machine()) {
			files = append(files, clientFile{c.Title, path, im.Read(path)})
		}
	}
	return files, nil
}

// readClients reads the existing files of clients. An unreadable file is a warning, or an error
// if no other file has servers.
func readClients(im *importing.Import, name string, all []*clients.Client, stderr io.Writer) error {
	files, err := readUsersFiles(im, all)
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
func list(im *importing.Import, trust []string, stdout io.Writer) error {
	files, err := readUsersFiles(im, clients.All())
	if err != nil {
		return err
	}
	if files = slices.DeleteFunc(files, clientFile.missing); len(files) == 0 {
		fmt.Fprintf(stdout, "no client found; name a file, or one of %s; mcpschedd add adds a server without a client\n", strings.Join(clients.Names(), ", "))
		return nil
	}
	if err := im.Decide(trust); err != nil {
		return refused(err)
	}
	servers := im.Reader.Servers()
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
		} else if why := im.Reader.Forbidden(f.path); why != "" {
			line("  cannot be imported: " + why)
		}
		for _, s := range servers {
			if s.From.File == f.path {
				line("  " + s.Called + ": " + im.Outcome(s))
			}
		}
	}
	for _, n := range im.Reader.Notes() {
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

// paths returns the files that are named, by themselves or by their clients.
func (o *importFlags) paths() (all []string) {
	for _, word := range o.words {
		for _, c := range clients.ByName(word) {
			all = append(all, c.Places(machine())...)
		}
		path, _ := filepath.Abs(word)
		all = append(all, path)
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
	all := o.paths()
	var done []string
	err = locked(have, func(dir state.Dir) (err error) {
		done, err = clients.Undo(dir, func(path string) bool {
			isNamed := func(named string) bool { return paths.WithoutLinks(named) == paths.WithoutLinks(path) }
			return len(o.words) == 0 || slices.ContainsFunc(all, isNamed)
		})
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
