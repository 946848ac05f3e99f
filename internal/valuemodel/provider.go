package valuemodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Provider is what is known of the tools of one kind of server.
type Provider struct {
	Name     string
	Servers  []string         // names by which its server calls itself, compared in lower case
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
	p, ok := allProviders().named[name]
	return p, ok
}

// ProviderNames are the names of all providers, in order.
func ProviderNames() []string { return slices.Sorted(maps.Keys(allProviders().named)) }

// providerOfServer returns the provider of the server that calls itself so.
func providerOfServer(name string) (Provider, bool) {
	p, ok := allProviders().serving[strings.ToLower(name)]
	return p, ok
}

// CheckProvider says what a provider may not say: it is not the operator.
func CheckProvider(p Provider) error {
	for _, tool := range slices.Sorted(maps.Keys(p.Tools)) {
		if p.Tools[tool].InvalidatesOnly != nil {
			return fmt.Errorf("provider %s: %s: invalidates_only is the operator's alone", p.Name, tool)
		}
	}
	return nil
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

// knownProviders are the providers that come with the program.
type knownProviders struct {
	named   map[string]Provider // name → provider
	serving map[string]Provider // what a server calls itself → provider
	edges   []Edge              // of all their tools, each once
}

// allProviders builds the tables once: they are some thousand layers, and fixed.
var allProviders = sync.OnceValue(func() knownProviders {
	known := knownProviders{named: make(map[string]Provider), serving: make(map[string]Provider)}
	seen := make(map[string]bool)
	for _, p := range providers() {
		known.named[p.Name] = p
		for _, server := range p.Servers {
			known.serving[strings.ToLower(server)] = p
		}
		for _, tool := range slices.Sorted(maps.Keys(p.Tools)) {
			known.edges = appendEdges(known.edges, seen, p.Tools[tool].Invalidates)
		}
	}
	return known
})
