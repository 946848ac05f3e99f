package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"mcpschedd/internal/clients"
)

const usageImport = `usage: mcpschedd import FILE|claude|cursor|vscode [--config FILE] [--write] [--json]

Reads the servers that an MCP client is configured with, and prints them as
[upstreams.*] blocks. The client's file is never changed.

  FILE           a client's file: .mcp.json, claude_desktop_config.json, mcp.json,
                 mcp_config.json, settings.json (JSON, comments allowed)
  claude         the user's own servers in Claude Code, those it has for the
                 current folder alone, and those in Claude Desktop
  cursor         the user's own servers in Cursor
  vscode         the same in VS Code, its Insiders edition and VSCodium
  --config FILE  the configuration (default: see mcpschedd help)
  --write        add what is missing to it, show what changes, and keep the file
                 as it was as FILE.bak-TIME; then say how the client comes to use it
  --json         print it as JSON

Secrets are not copied: what is one, or may be, becomes a ${VARIABLE}, and its
name is printed beside the place where the value stands.
`

// importing is one run.
type importing struct {
	from, config string
	write, json  bool

	reader  *clients.Reader
	sources []string
	stdout  io.Writer
	stderr  io.Writer
}

// runImport prints a client's servers as upstreams, or adds them to the configuration.
func runImport(args []string, stdout, stderr io.Writer) error {
	m, err := parseImport(args, stdout, stderr)
	if err != nil {
		return err
	}
	if m.write {
		return m.writeMissing()
	}
	if err := m.read(nil); err != nil {
		return err
	}
	got := m.reader.Import()
	if m.json {
		return m.printJSON(importReport{Sources: m.sources, Import: got})
	}
	m.tell(got)
	if len(got.Servers) == 0 {
		return nil
	}
	fmt.Fprintf(stdout, "%s\n%s", m.header(), clients.TOML(got.Servers))
	m.tellVariables(got.Servers)
	return nil
}

// parseImport reads the command line; what is read may stand before the flags.
func parseImport(args []string, stdout, stderr io.Writer) (*importing, error) {
	m := &importing{stdout: stdout, stderr: stderr}
	fs := flag.NewFlagSet("import", flag.ContinueOnError)
	fs.StringVar(&m.config, "config", "", "")
	fs.BoolVar(&m.write, "write", false, "")
	fs.BoolVar(&m.json, "json", false, "")
	for rest := args; ; rest = fs.Args()[1:] {
		if err := parse(fs, rest, usageImport, stdout); err != nil {
			return nil, err
		}
		switch {
		case fs.NArg() == 0 && m.from == "":
			return nil, &usageError{text: "want a file, or one of " + strings.Join(clients.Names, ", "), usage: usageImport}
		case fs.NArg() == 0:
			return m, nil
		case m.from != "" || fs.Arg(0) == "":
			return nil, noArguments(fs, usageImport)
		}
		m.from = fs.Arg(0)
	}
}

// read reads the file, or those of the client that exist. taken are variables that mean
// something already.
func (m *importing) read(taken []string) error {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	m.reader = clients.NewReader(clients.Options{Dir: workingDir(), Home: home, OS: runtime.GOOS, Taken: taken})
	if !slices.Contains(clients.Names, m.from) {
		return m.readFile(m.from)
	}
	if home == "" {
		return hinted{misused{fmt.Errorf("there is no home folder to look for the files of %s in: %w", m.from, err)}, "name the file instead"}
	}
	return m.readClient(clients.Places(m.from, runtime.GOOS, home, os.Getenv))
}

// readFile reads the one that was named.
func (m *importing) readFile(name string) error {
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	err = m.one(path)
	if errors.Is(err, fs.ErrNotExist) {
		return hinted{misused{err}, "want a file, or one of " + strings.Join(clients.Names, ", ")}
	}
	return err
}

// readClient reads those of a client's files that are there. What cannot be read is
// said; it is an error if nothing else is there.
func (m *importing) readClient(places []string) error {
	var wrong []error
	var tried []string
	for _, path := range places {
		err := m.one(path)
		if err == nil {
			continue
		}
		why := "no servers in it"
		if _, none := errors.AsType[*clients.NoServers](err); errors.Is(err, fs.ErrNotExist) {
			why = "no such file"
		} else if !none {
			why = "" // the error says it
			wrong = append(wrong, err)
		}
		if why != "" {
			tried = append(tried, path+" ("+why+")")
		}
	}
	if len(m.sources) > 0 {
		for _, err := range wrong {
			fmt.Fprintf(m.stderr, "mcpschedd: warning: %v\n", err)
		}
		return nil
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	return hinted{fmt.Errorf("no servers of %s: %s", m.from, strings.Join(tried, ", ")), "name the file, if it is elsewhere"}
}

const mostClientFile = 64 << 20 // bytes

// one reads one file.
func (m *importing) one(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostClientFile+1))
	if err != nil {
		return err
	}
	if err := m.reader.Read(path, data); err != nil {
		return err
	}
	m.sources = append(m.sources, path)
	return nil
}

// header is a comment that says where the blocks are from.
func (m *importing) header() string {
	return clients.Comment("From " + strings.Join(m.sources, " and ") + ", by mcpschedd import.")
}

// tell prints what was left out, and what was not understood.
func (m *importing) tell(got clients.Import) {
	for _, n := range got.Notes {
		kind := "note"
		if n.Wrong {
			kind = "warning"
		}
		fmt.Fprintf(m.stderr, "mcpschedd: %s: %s\n", kind, n)
	}
	if len(got.Servers) == 0 {
		fmt.Fprintln(m.stderr, "mcpschedd: nothing to import")
	}
}

// tellVariables prints what has to be set before the servers run, and where the values
// stand.
func (m *importing) tellVariables(servers []clients.Server) {
	var lines []string
	for _, s := range servers {
		for _, v := range s.Variables {
			what := "the value at"
			switch {
			case v.Asked:
				what = "see"
			case v.Part:
				what = "its part of the value at"
			}
			lines = append(lines, clients.OneLine(fmt.Sprintf("  export %s=  # %s %s of %s", v.Name, what, v.Pointer, v.File)))
		}
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(m.stderr, "mcpschedd: set these where mcpschedd is started (or in the \"env\" of its own entry in the client's file); no value was copied:\n%s\n", strings.Join(lines, "\n"))
}

// importReport is what --json prints.
type importReport struct {
	Sources []string `json:"sources"`
	clients.Import
	Config string   `json:"config,omitempty"` // with --write, as are the rest
	Added  []string `json:"added,omitempty"`
	Kept   []string `json:"kept,omitempty"`
	Backup string   `json:"backup,omitempty"`
	Next   []string `json:"next,omitempty"`
}

func (m *importing) printJSON(r importReport) error {
	out := json.NewEncoder(m.stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(r)
}
