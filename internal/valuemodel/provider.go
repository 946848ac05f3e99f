package valuemodel

import (
	"maps"
	"slices"
	"strings"
)

// Provider is what is known of the tools of one kind of server. A file under models
// describes each.
type Provider struct {
	Name     string
	Servers  []string         // names by which its server calls itself, in lower case
	Host     string           // the remote host its tools talk to; "": local
	Anywhere bool             // the service has installations elsewhere as well: an upstream's url says which
	Stateful bool             // calls depend on those before: never stored, joined or guessed
	Tools    map[string]Layer // by exact tool name; "*" for the rest of them
}

// clientTools is the provider of the tools that a coding client has built in:
// its layer goes by the name of the built-in defaults, which it is.
const clientTools = "claude-code"

// ProviderNamed returns the provider of that name.
func ProviderNamed(name string) (Provider, bool) {
	p, ok := providers().named[name]
	return p, ok
}

// ProviderNames are the names of all providers, in order.
func ProviderNames() []string { return slices.Sorted(maps.Keys(providers().named)) }

// providerOfServer returns the provider of the server that calls itself so.
func providerOfServer(name string) (Provider, bool) {
	p, ok := providers().serving[strings.ToLower(name)]
	return p, ok
}

// layer is what p says of a tool; false if nothing.
func (p Provider) layer(tool string) (Layer, bool) {
	if tool == "" {
		return Layer{}, false
	}
	l, ok := p.Tools[tool]
	if !ok {
		l, ok = p.Tools["*"]
	}
	return l, ok
}
