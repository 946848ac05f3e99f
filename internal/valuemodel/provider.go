package valuemodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Provider describes the tools of one kind of server, as a file under models. Servers, Packages,
// Hosts, Programs, Shareable and Requires are only read by the test that writes summary.json.
type Provider struct {
	Name     string           `toml:"-"`
	Servers  []string         // names that the server reports for itself, in lower case
	Host     string           // remote host of the service; "" if local
	Anywhere bool             // the service also has other installations, identified by an upstream's url
	Remote   bool             // its tools read from a remote service without a fixed host
	Stateful bool             // results depend on earlier calls: never cached, joined or prefetched
	Tools    map[string]Layer `toml:"-"` // by exact tool name; "*" for all others

	Packages  []string            // "npm:@acme/tickets", "pypi:…", "docker:…" or "go:…"
	Hosts     []string            // of the service's own MCP endpoints
	Programs  []string            // that the packages install
	Shareable Sharing             // which of its packages keep no session state
	Requires  []string            // flags of which one must be given for the table to apply
	Modes     []Mode              `toml:"mode"` // effects of flags
	Arguments map[string][]string // read-only tool → names of its arguments in all versions
}

// Mode is a change of a server's tools by a flag.
type Mode struct {
	Flags    []string // any of "--flag", "--flag=value" or "NAME=value" of the environment
	ReadOnly []string `toml:"read_only"` // tools that are read-only in this mode
}

// NoProvider as the configured provider means that neither the other settings nor the
// server's name select one.
const NoProvider = "none"

// ProviderNames returns the sorted names of all providers, without reading their files.
func ProviderNames() []string {
	files, _ := tableFiles.ReadDir("models") // embedded
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".toml"))
	}
	slices.Sort(names)
	return names
}

// tableLayer returns the table's layer for a tool of the server, by the settings that it was started with.
func (o origin) tableLayer(tool string) Layer {
	if tool == "" {
		return Layer{}
	}
	l, ok := o.Tools[tool]
	if !ok {
		l = o.Tools["*"]
	}
	for _, m := range o.Modes {
		if o.started.has(m.Flags) && slices.Contains(m.ReadOnly, tool) {
			l.Class, l.Classify = ReadOnly, ""
		}
	}
	return l
}

// mismatch returns how a tool's arguments differ from those of the read-only tool in the table:
// it has others, or they are unknown. It returns "" if they do not differ, or if the table has no such
// read-only tool.
func (p Provider) mismatch(tool string, h Hints) string {
	known, listed := p.Arguments[tool]
	switch {
	case !listed:
		return ""
	case h.Arguments == nil:
		return "its arguments are not known"
	}
	for _, name := range h.Arguments {
		if !slices.Contains(known, name) {
			return fmt.Sprintf("provider %s does not know its argument %q", p.Name, name)
		}
	}
	return ""
}

// Sharing lists the packages of a table with servers that keep no session state: their
// results depend only on the call, the command line and external data.
type Sharing struct {
	Packages []string
	Unless   string // an argument or variable name containing this text disables sharing; "" if none does
	Folders  bool   // only if the command line names folders; otherwise the server uses its client's
}

// allows reports whether a server started with these settings may be shared. rest are the
// arguments after the package.
func (t Sharing) allows(s Settings, rest []string) bool {
	words := strings.ToLower(strings.Join(slices.Concat(s.Args, slices.Collect(maps.Keys(s.Env))), "\x00"))
	return len(t.Packages) > 0 && (t.Unless == "" || !strings.Contains(words, t.Unless)) &&
		(!t.Folders || slices.ContainsFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") }))
}
