package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/importing"
	"mcpschedd/internal/state"
)

func addCommand() *cobra.Command {
	var file string
	var env, headers []string
	var trust bool
	c := &cobra.Command{
		Use:   "add NAME [flags] (URL | -- COMMAND [ARG...])",
		Short: "Add a server",
		Long: `Appends a server to the configuration. Running processes apply the change immediately.

NAME becomes [upstreams.NAME], and prefixes the names of the server's tools if there are
several servers. COMMAND and its ARGs start the server; a remote server has a URL instead.

Values of environment variables and headers, and anything in the arguments or the URL
that looks like a secret, go into env/NAME.env beside the configuration, which only you
can read.`,
		Example: `  mcpschedd add files -- npx -y @modelcontextprotocol/server-filesystem ~/project
  mcpschedd add wiki https://wiki.example/mcp --header "Authorization=Bearer $TOKEN"`,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, words []string) error {
			name, server, err := addedServer(words, c.ArgsLenAtDash())
			if err != nil {
				return err
			}
			if server["env"], err = pairs("--env", env, "="); err != nil {
				return err
			}
			if server["headers"], err = pairs("--header", headers, "=:"); err != nil {
				return err
			}
			if isURL := server["url"] != nil; isURL && len(env) > 0 || !isURL && len(headers) > 0 {
				return usage("--env is for a command, --header for a URL")
			}
			return editing(file, func(dir state.Dir) error { return add(dir, file, name, server, trust, c.ErrOrStderr()) })
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if words := c.Flags().Args(); len(words) > 1 && !strings.Contains(words[1], "://") { // the flag is one of the command's
			return commandWithoutDash(words[1])
		}
		return flagError(c, err)
	})
	configFlag(c, &file)
	c.Flags().StringArrayVar(&env, "env", nil, "set an environment variable of the server, as `K=V`; repeatable")
	c.Flags().StringArrayVar(&headers, "header", nil, "send a header with each request, as `K=V` or K: V; repeatable")
	c.Flags().BoolVar(&trust, "trust", false, "trust the server's own tool annotations")
	return c
}

// planned returns an import of one server, in the format of a client's file.
func planned(file, name string, server map[string]any, trust bool) (*importing.Import, error) {
	document, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: server}})
	if err != nil {
		return nil, err
	}
	have, err := loadToEdit(file)
	if err != nil {
		return nil, err
	}
	im := newImport(have, true)
	if err := im.Reader.Read("the command line", document); err != nil {
		return nil, err
	}
	var trusted []string
	if trust {
		trusted = []string{"all"}
	}
	if err := im.Decide(trusted); err != nil {
		return nil, refused(err)
	}
	return im, rejection(im, name)
}

// add adds one server to the configuration, with the code that imports a client's servers.
func add(dir state.Dir, file, name string, server map[string]any, trust bool, stderr io.Writer) error {
	im, err := planned(file, name, server, trust)
	if err != nil {
		return err
	}
	changes, err := im.Changes(dir, importing.Parts{Servers: true})
	if err != nil {
		return refused(err)
	}
	path := im.Config.Path
	copies, err := clients.Apply(dir, []string{path}, changes, time.Now())
	if err != nil {
		return err
	}
	if err := os.RemoveAll(copies); err != nil { // import --undo would undo it
		return err
	}
	say(stderr, "added %s to %s; mcpschedd check --connect shows what is cached and prefetched", name, path)
	printRemarks(im, stderr)
	written := changes[len(changes)-1]
	sayRenames(path, written.Was, written.Text, stderr)
	if written.Was != nil {
		return nil
	}
	line, err := clientLine(im.Config)
	if err == nil {
		sayToConnect(line, stderr)
	}
	return err
}

// rejection returns the reason why the server is not added, or nil.
func rejection(im *importing.Import, name string) error {
	have := im.Config
	if i := slices.IndexFunc(have.Upstreams, func(u config.Upstream) bool { return strings.EqualFold(u.Name, name) }); i >= 0 {
		name = have.Upstreams[i].Name
		return hinted{misused{fmt.Errorf("%s already has an upstream %s", have.Path, name)}, "mcpschedd remove " + name + " removes it"}
	}
	servers := im.Reader.Servers()
	switch {
	case len(servers) == 0:
		_, why, _ := strings.Cut(im.Reader.Notes()[0], "left out: ")
		return misused{fmt.Errorf("%s was not added: %s", name, why)}
	case servers[0].Stays != "":
		return misused{fmt.Errorf("%s was not added: %s", name, servers[0].Stays)}
	case !servers[0].New:
		return misused{fmt.Errorf("%s already has this server, as %s", have.Path, servers[0].Name)}
	case servers[0].Name != name:
		return usage("%q cannot be a name: want letters, digits, - and _, such as %s", name, servers[0].Name)
	}
	return nil
}

// printRemarks prints warnings and notes about the server that was added.
func printRemarks(im *importing.Import, stderr io.Writer) {
	s := im.Reader.Servers()[0]
	if program := s.Block.Command; program != "" && !strings.Contains(program, "${") {
		if _, err := exec.LookPath(program); err != nil {
			say(stderr, "warning: %q is not found in PATH", program)
		}
	}
	sayEach(stderr, "note", append(s.Notes, im.Notes()...))
	for _, arg := range s.Block.Args {
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() && !filepath.IsAbs(arg) {
			say(stderr, "note: %s is a path relative to wherever the client runs: make it absolute", arg)
		}
	}
}

// addedServer returns the server that the arguments name. dash is the number of arguments before --, or
// -1.
func addedServer(words []string, dash int) (name string, server map[string]any, err error) {
	var command []string
	if dash >= 0 {
		words, command = words[:dash], words[dash:]
	}
	switch n := len(words); {
	case n == 1 && len(command) > 0:
		program, err := fromHere(command[0])
		return words[0], map[string]any{"command": program, "args": command[1:]}, err
	case n == 2 && len(command) == 0 && strings.Contains(words[1], "://"):
		return words[0], map[string]any{"url": words[1]}, nil
	case n > 2 && len(command) == 0 && strings.Contains(words[1], "://"):
		return "", nil, usage("unexpected argument %q", words[2])
	case n > 1 && len(command) == 0:
		hint := "mcpschedd add " + words[0] + " -- " + pasted(words[1:])
		if n == 2 && looksLikeHost(words[1]) {
			remote := "https://" + words[1]
			if strings.HasPrefix(words[1], "localhost") || strings.HasPrefix(words[1], "127.") {
				remote = "http://" + words[1]
			}
			hint = "mcpschedd add " + words[0] + " " + pasted([]string{remote}) + ", or " + hint
		}
		return "", nil, hinted{commandWithoutDash(words[1]), hint}
	}
	return "", nil, usage("want a name, and a command behind -- or a URL")
}

// looksLikeHost reports whether a word may be a URL without its scheme, such as wiki.example/mcp or localhost:80,
// and not a file or a package, such as server.js or pkg@1.2.3.
func looksLikeHost(word string) bool {
	u, err := url.Parse("//" + word)
	return err == nil && !strings.Contains(word, "@") &&
		(u.Port() != "" || u.Path != "" && strings.Contains(strings.Trim(u.Host, "."), "."))
}

// fromHere returns a program that is named by a relative path, such as ./server, by its absolute one: in
// the configuration a relative path is relative to that file.
func fromHere(program string) (string, error) {
	if !strings.Contains(filepath.ToSlash(program), "/") || filepath.IsAbs(program) || strings.ContainsAny(program[:1], "~$") {
		return program, nil
	}
	return filepath.Abs(program)
}

func commandWithoutDash(word string) error {
	return usage("want -- before a command, or a URL with http:// or https://, have %q", word)
}

// pairs parses the values of a flag, each K=V or with another separator of signs.
func pairs(flag string, all []string, signs string) (any, error) {
	var out map[string]string
	for _, pair := range all {
		at := strings.IndexAny(pair, signs)
		if at <= 0 {
			return nil, usage("%s: want K=V", flag) // without the value, which may be a secret
		}
		if out == nil {
			out = make(map[string]string)
		}
		if _, twice := out[pair[:at]]; twice {
			return nil, usage("%s: want each K once, have %q again", flag, pair[:at])
		}
		out[pair[:at]] = pair[at+1:]
		if pair[at] == ':' {
			out[pair[:at]] = strings.TrimPrefix(pair[at+1:], " ")
		}
	}
	return out, nil
}
