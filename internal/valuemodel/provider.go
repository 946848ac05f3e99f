package valuemodel

import (
	"fmt"
	"slices"
	"strings"
)

// Provider is what is known of the tools of one kind of server. A file under models
// describes each.
type Provider struct {
	Name     string           `toml:"-"`
	Servers  []string         // names by which its server calls itself, in lower case
	Host     string           // the remote host its tools talk to; "": local
	Anywhere bool             // the service has installations elsewhere as well: an upstream's url says which
	Remote   bool             // what its tools read is elsewhere, though no one host is known
	Stateful bool             // calls depend on those before: never stored, joined or guessed
	Tools    map[string]Layer `toml:"-"` // by exact tool name; "*" for the rest of them

	References []string            `toml:"-"` // what the operator's words name it by: see [Recognise]
	Shareable  Sharing             // which of its packages hold no state of a session
	Requires   []string            // flags of which one must be given, or the tools are others
	Modes      []Mode              `toml:"mode"` // what flags change
	Arguments  map[string][]string // tool that reads → names of its arguments, in any version
}

// Mode is what a server's tools do otherwise where it is started with a flag.
type Mode struct {
	Flags    []string // "--flag", "--flag=value" or "NAME=value" of the environment; any one of them
	ReadOnly []string `toml:"read_only"` // tools that only read then
}

// NoProvider, as the operator's word, says that neither the operator's other words nor the
// server's own name choose a provider.
const NoProvider = "none"

// clientTools is the provider of the tools that a coding client has built in:
// its layer goes by the name of the built-in defaults, which it is.
const clientTools = "claude-code"

// ProviderNames are the names of all providers, in order: those of their files, which need not
// be read for it.
func ProviderNames() []string {
	files, err := models.ReadDir("models")
	if err != nil {
		panic(err) // it is embedded
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".toml"))
	}
	slices.Sort(names)
	return names
}

// providerOfServer returns the provider of the server that calls itself so.
func providerOfServer(name string) (Provider, bool) {
	return ProviderNamed(summarised().Servers[strings.ToLower(name)])
}

// layer is what p says of a tool of a server that is started so.
func (p Provider) layer(tool string, started Recognised) Layer {
	if tool == "" {
		return Layer{}
	}
	l, ok := p.Tools[tool]
	if !ok {
		l = p.Tools["*"]
	}
	for _, m := range p.Modes {
		if started.has(m.Flags) && slices.Contains(m.ReadOnly, tool) {
			l.Class, l.Classify = ReadOnly, ""
		}
	}
	return l
}

// doubt says why a tool may be another than the one of the table: it may have arguments that
// the table does not know. "": it has none, or the table has no such tool that reads.
func (p Provider) doubt(tool string, h Hints) string {
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
