// Command compare asks real MCP servers the same questions three times: direct,
// through "mcpschedd serve --only NAME", and through one proxy that joins them
// all.
//
// Its one idea: what passes the proxy must be the same JSON value, with the
// order of its members, fields of no specification and every digit of its
// numbers. So answers are compared token by token, never as decoded values, and
// the client that asks uses no MCP library. Behind the joined view the names of
// tools and prompts carry their server's name in front; nothing else may differ.
//
//	go run -C tools ./compare -config servers.json    exit code 1 if any answer differs
//
// with a file such as
//
//	{"roots": ["file:///srv/project"],
//	 "servers": [{"name": "files", "command": "mcp-server-filesystem", "args": ["/srv/project"],
//	   "calls": [{"method": "tools/call", "params": {"name": "list_allowed_directories"}}]}]}
//
// It leaves out the time a call takes (that is bench), HTTP, and the stateless
// revision. What a server answers differently from one start to the next is
// named, and not compared.
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
	config  string        // the file that lists the servers
	bin     string        // the proxy's file
	keep    string        // the folder for the proxy's configuration and state; "" is one that is removed
	timeout time.Duration // for one answer
	settle  time.Duration // how long lists must stay the same
}

// plan is what the configuration file holds.
type plan struct {
	Roots   []string `json:"roots"` // URIs given to a server that asks for them
	Servers []server `json:"servers"`
}

// server is one program to compare, and what to ask it beside its lists.
type server struct {
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // added to ours
	Cwd     string            `json:"cwd"` // default: ours
	Calls   []call            `json:"calls"`
}

// call is one request; a tool or prompt it names is the server's own name.
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

// upstreamName is what the proxy takes for a name, less the separator of its
// joined names.
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
	// As the proxy's configuration has them, and joins their lists.
	slices.SortFunc(p.Servers, func(a, b server) int { return strings.Compare(a.Name, b.Name) })
	return &p, nil
}
