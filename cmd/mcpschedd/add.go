package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/state"
)

const usageAdd = `usage: mcpschedd add NAME [--env K=V]... [--trust] [--config FILE] -- COMMAND [ARG...]
       mcpschedd add NAME URL [--header K=V]... [--trust] [--config FILE]

Adds a server to the configuration, at its end. Running processes follow at once.

  NAME           for [upstreams.NAME], and before the names of its tools
  COMMAND ARG    how the server is started
  URL            where it is reached
  --env K=V      a variable of its environment
  --header K=V   a header of requests to it
  --trust        believe what the server says of its own tools
  --config FILE  the configuration (default: see mcpschedd help)

Values of variables and headers, and what looks like a secret in the arguments or
the URL, go into env/NAME.env beside the configuration, which nobody else may read.

For example:

  mcpschedd add files -- npx -y @modelcontextprotocol/server-filesystem ~/project
  mcpschedd add wiki https://wiki.example/mcp --header "Authorization=Bearer $TOKEN"
`

// addition is a server as a client's file would have it.
type addition struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// runAdd adds one server to the configuration, by what import does with those of a client.
func runAdd(args []string, stdout, stderr io.Writer) error {
	m := &importing{stdout: stdout, stderr: stderr, write: true, files: make(map[string]*state.File)}
	m.home, _ = os.UserHomeDir() // "": no path is told from another by it
	name, server, err := m.parseAdd(args)
	if err != nil {
		return err
	}
	document, err := json.Marshal(map[string]any{"mcpServers": map[string]addition{name: server}})
	if err != nil {
		return err
	}
	m.reader = clients.NewReader(clients.Options{Home: m.home, ReadFile: readBounded, WithoutToken: true})
	if err := m.reader.Read(filepath.Join(workingDir(), "the command line"), document); err != nil {
		return err
	}
	p, err := m.plan()
	if err != nil {
		return err
	}
	one := p.servers[0]
	switch {
	case one.there != "":
		return misused{fmt.Errorf("%s is there already, as upstreams.%s", name, one.there)}
	case slices.ContainsFunc(p.have.Upstreams, func(u config.Upstream) bool { return strings.EqualFold(u.Name, one.Name) }):
		return hinted{misused{fmt.Errorf("%s has an upstream %s", p.have.Path, one.Name)}, "mcpschedd remove " + one.Name + " takes it out"}
	case one.stays != "":
		return misused{fmt.Errorf("%s was not added: %s", name, one.stays)}
	}
	file, err := state.OpenFile(p.have.Path)
	if err != nil {
		return err
	}
	changes, err := p.configuration(file)
	if err != nil {
		return err
	}
	for _, c := range changes { // the variables first: the configuration names their file
		if err := c.File.Write(c.Text); err != nil {
			return err
		}
	}
	fmt.Fprintf(stderr, "mcpschedd: added %s to %s\n", one.Name, p.have.Path)
	for _, note := range one.Notes {
		fmt.Fprintf(stderr, "mcpschedd: note: %s\n", clients.OneLine(note))
	}
	if provider := one.known(); provider != "" {
		fmt.Fprintf(stderr, "mcpschedd: it is known (provider %s): mcpschedd check --connect says what is cached and fetched ahead\n", provider)
	} else if !one.Trust {
		fmt.Fprintln(stderr, "mcpschedd: nothing is known of it, so that its answers are only passed on: mcpschedd check --connect shows what it says of its tools, and names the line that believes it")
	}
	return nil
}

// parseAdd reads the command line.
func (m *importing) parseAdd(args []string) (name string, server addition, err error) {
	fs := flag.NewFlagSet("add", flag.ContinueOnError)
	trust := fs.Bool("trust", false, "")
	fs.StringVar(&m.config, "config", "", "")
	pairs := func(into *map[string]string) func(string) error {
		return func(pair string) error {
			key, value, ok := strings.Cut(pair, "=")
			if !ok || key == "" {
				return fmt.Errorf("want K=V, have %q", pair)
			}
			if *into == nil {
				*into = make(map[string]string)
			}
			(*into)[key] = value
			return nil
		}
	}
	fs.Func("env", "", pairs(&server.Env))
	fs.Func("header", "", pairs(&server.Headers))
	var command []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, command = args[:i], args[i+1:]
	}
	var words []string
	for rest := args; ; rest = fs.Args()[1:] { // flags may stand behind what they are for
		if err := parse(fs, rest, usageAdd, m.stdout); err != nil {
			return "", addition{}, err
		}
		if fs.NArg() == 0 {
			break
		}
		words = append(words, fs.Arg(0))
	}
	wrong := func(text string) (string, addition, error) {
		return "", addition{}, &usageError{text: text, usage: usageAdd}
	}
	switch {
	case len(words) == 0:
		return wrong("want a name, and a command behind -- or a URL")
	case len(words) == 1 && len(command) == 0:
		return wrong(fmt.Sprintf("want a command behind --, or a URL, for %q", words[0]))
	case len(command) == 0 && !strings.Contains(words[1], "://"):
		return wrong(fmt.Sprintf("want -- before the command %s, or a URL", strings.Join(words[1:], " ")))
	case len(command) == 0 && len(words) > 2:
		return wrong(fmt.Sprintf("unexpected argument %q", words[2]))
	case len(command) > 0 && len(words) > 1:
		return wrong(fmt.Sprintf("unexpected argument %q before --", words[1]))
	case len(command) > 0:
		server.Command, server.Args = command[0], command[1:]
	default:
		server.URL = words[1]
	}
	if server.URL != "" && server.Env != nil || server.URL == "" && server.Headers != nil {
		return wrong("--env is for a command, --header for a URL")
	}
	if *trust {
		m.trust = []string{"all"}
	}
	return words[0], server, nil
}
