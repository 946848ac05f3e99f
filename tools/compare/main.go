// Command compare sends the same requests to real MCP servers three times: directly, through
// "mcpschedd serve --only NAME", and through one proxy that joins all servers.
//
// A value that passes the proxy must stay the same JSON value, with the order of its members, its
// unspecified fields and every digit of its numbers. So answers are compared token by token rather
// than as decoded values, and the client uses no MCP library. In the joined view the names of tools
// and prompts have their server's name as a prefix; nothing else may differ.
//
//	go run -C tools ./compare -config servers.json    exit code 1 if any answer differs
//
// with a file such as
//
//	{"roots": ["file:///srv/project"],
//	 "servers": [{"name": "files", "command": "mcp-server-filesystem", "args": ["/srv/project"],
//	   "calls": [{"method": "tools/call", "params": {"name": "list_allowed_directories"}}]}]}
//
// It does not measure the time of calls (bench does), nor does it test HTTP and the stateless
// revision. Answers that the server itself varies between two starts are listed and not compared.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"mcpschedd/tools/launch"
)

// options are the flags of one run.
type options struct {
	config  string        // the file with the servers
	bin     string        // the proxy's file
	keep    string        // folder for the proxy's configuration and state; "" means a temporary one
	timeout time.Duration // for one answer
	settle  time.Duration // time for which lists must not change
}

// plan is the content of the configuration file.
type plan struct {
	Roots   []string `json:"roots"` // URIs for servers that ask for them
	Servers []server `json:"servers"`
}

// server is a program to compare, and the requests to send to it in addition to its lists.
type server struct {
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // added to the environment of this process
	Cwd     string            `json:"cwd"` // default: that of this process
	Calls   []call            `json:"calls"`
}

// call is a request. The name of a tool or prompt in it is the server's own.
type call struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

var errDifferent = errors.New("an answer differs")

func main() { launch.Main("compare", run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	p, err := readPlan(o.config)
	if err != nil {
		return err
	}
	r, err := compare(ctx, o, p, stderr)
	if err != nil {
		return err
	}
	r.write(stdout)
	if !r.equal() {
		return errDifferent
	}
	return nil
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.config, "config", "", "`FILE` of JSON: {\"roots\": [URI…], \"servers\": [{\"name\", \"command\", \"args\", \"env\", \"cwd\", \"calls\": [{\"method\", \"params\"}…]}…]}")
	fs.StringVar(&o.bin, "bin", filepath.Join("..", "bin", "mcpschedd"), "the mcpschedd `FILE` to compare with")
	fs.StringVar(&o.keep, "keep", "", "leave the proxy's config.toml and state in `DIR`")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long one answer may take")
	fs.DurationVar(&o.settle, "settle", 400*time.Millisecond, "how long a server's lists must stay the same before they count, for those that add tools after the handshake")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.config == "" || fs.NArg() > 0 {
		return o, errors.New("want a -config, and no arguments")
	}
	return o, nil
}

// upstreamName matches the names that the proxy accepts, except those with the separator of joined
// names.
var upstreamName = regexp.MustCompile(`^[A-Za-z0-9]+([-_][A-Za-z0-9]+)*$`)

func readPlan(file string) (*plan, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var p plan
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(p.Servers) == 0 {
		return nil, fmt.Errorf("%s: servers: want at least one", file)
	}
	for i, s := range p.Servers {
		if !upstreamName.MatchString(s.Name) || s.Command == "" {
			return nil, fmt.Errorf("%s: servers[%d]: want a name of letters and digits, and a command; have %q and %q", file, i, s.Name, s.Command)
		}
	}
	// In the order of the proxy's configuration, and so of its joined lists.
	slices.SortFunc(p.Servers, func(a, b server) int { return strings.Compare(a.Name, b.Name) })
	return &p, nil
}
