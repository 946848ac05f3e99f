// Package catalog holds what the servers of a configuration offer: the names under which clients see their
// tools and prompts, the value model of each tool, the merged lists, and the choice of the tools that are
// listed or searched for. It knows policies, leases and offers, but no requests and no calls.
//
//	v := &catalog.View{Catalog: c, Policy: policy, Leases: leases, Client: client, Choices: choices}
//	items := v.Items(upstream.Tools)
//	t, lease := v.Resolve(upstream.Tools, "files__read_file")
package catalog

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yosida95/uritemplate/v3"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/toolsearch"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// Catalog is what the upstreams of a proxy offer, for all its sessions. It caches the value models of
// their tools, which follow from the policy and from the servers' claims, and the input schemas.
type Catalog struct {
	log     *slog.Logger
	store   *dedup.Store
	names   names
	index   searchIndex
	version atomic.Uint64 // incremented when a server's claims change models

	keep    func(merge func(stored []byte) ([]byte, error)) error // as in Selection
	learned *toolsearch.Learned                                   // from searches
	loading sync.Once                                             // of what was learned

	mu     sync.RWMutex
	claims map[string]*serverClaims // Member.Key → claims of its server since the program started
	policy *Policy                  // policy that models were built from
	models map[Target]*Tool         // by Member.Key and tool; the empty tool stands for the upstream's other methods
}

// New returns a catalog for servers that have their answers in store. keep is that of the [Selection].
func New(log *slog.Logger, store *dedup.Store, keep func(merge func(stored []byte) ([]byte, error)) error) *Catalog {
	return &Catalog{
		log: log, store: store, names: names{size: make(map[string]int)}, claims: make(map[string]*serverClaims),
		keep: keep, learned: toolsearch.NewLearned(),
	}
}

// Version changes whenever a server's claims change the class of calls.
func (c *Catalog) Version() uint64 { return c.version.Load() }

// Upstream is one configured server with its settings.
type Upstream struct {
	Spec        upstream.Spec
	Store       upstream.Store
	Stderr      io.Writer              // log of its processes' stderr; nil discards
	Fingerprint string                 // changes whenever a new connection is needed
	Timeout     time.Duration          // for a call without progress; zero means no timeout
	Allows      func(tool string) bool // reports whether a tool may be listed and called; nil allows all

	Model          valuemodel.Upstream // the operator's settings; Name as in Spec, Server unset
	SharedIdentity bool                // with Spec.Shared: the server sees all sessions as one principal
	Exclusive      bool                // only calls through this proxy change what its tools read
	Learned        speculate.Storage   // storage for learned state; nil if it is not saved
	LearnedKey     string              // replicas with the same key share what is learned of the server
}

// Policy is the part of a configuration that decides what is listed and how calls are classified. It is immutable.
type Policy struct {
	Members   []*Member // in the order of the configuration
	NameStyle string
	Prefix    bool // shown names are NAME__TOOL
	Models    *valuemodel.Models
	Selection Selection
	Learn     bool // tool searches and the calls that follow them are learned
}

// Member is one upstream of a policy.
type Member struct {
	Upstream
	Up  *upstream.Upstream
	Key string // name and fingerprint: another command under the same name is another server

	nothingToPrefetch atomic.Pointer[upstream.Offer] // offer in which no tool may ever be prefetched; nil if none is known
	status            atomic.Pointer[cachedStatus]   // summary of the tools in an offer; nil if not computed
	unlisted          atomic.Int64                   // tools that are not listed, as the log last said
}

// Allowed reports whether the configuration lets a tool of this upstream be listed and called.
func (m *Member) Allowed(tool string) bool { return m.Allows == nil || m.Allows(tool) }

// Prefixed reports whether the tools of that many upstreams are listed as NAME__TOOL.
func Prefixed(nameStyle string, upstreams int) bool {
	return nameStyle == "always" || nameStyle != "never" && upstreams != 1
}

// Find returns the named upstream, or nil.
func (p *Policy) Find(name string) *Member {
	if p != nil {
		if i := slices.IndexFunc(p.Members, func(m *Member) bool { return m.Spec.Name == name }); i >= 0 {
			return p.Members[i]
		}
	}
	return nil
}

// Lease is a session's lease on one upstream. It has more than 25 methods: those of the
// lease, and those that look up the upstream's offer as the session sees it.
type Lease struct {
	*upstream.Lease
	Member   *Member
	Since    time.Time        // start of the lease
	Prefetch *speculate.Lease // the lease as the prefetch worker sees it
}

// Leases are the leases of a session, in the order of the configuration.
type Leases []*Lease

// Named returns the lease on the named upstream, or nil.
func (ls Leases) Named(name string) *Lease {
	return ls.Find(func(l *Lease) bool { return l.Member.Spec.Name == name })
}

// Find returns the first lease for which fits returns true, or nil.
func (ls Leases) Find(fits func(*Lease) bool) *Lease {
	if i := slices.IndexFunc(ls, fits); i >= 0 {
		return ls[i]
	}
	return nil
}

// Filter returns the leases for which fits returns true.
func (ls Leases) Filter(fits func(*Lease) bool) (found Leases) {
	for _, l := range ls {
		if fits(l) {
			found = append(found, l)
		}
	}
	return found
}

// Holders returns the leases on upstreams that may hold a resource: the one that lists it,
// else those with a matching template, else all that may have resources.
func (ls Leases) Holders(uri string) Leases {
	if len(ls) == 1 {
		return ls
	}
	if l := ls.Find(func(l *Lease) bool { return l.lists(upstream.Resources, uri) }); l != nil {
		return Leases{l}
	}
	if matching := ls.Filter(func(l *Lease) bool {
		return slices.ContainsFunc(l.items(upstream.Templates), func(i upstream.Item) bool { return matchesTemplate(i.Name, uri) })
	}); len(matching) > 0 {
		return matching
	}
	return ls.Filter(func(l *Lease) bool { return l.MayHave("resources") })
}

// matchesTemplate reports whether uri is the template, or matches it.
func matchesTemplate(template, uri string) bool {
	if before, _, _ := strings.Cut(template, "{"); !strings.HasPrefix(uri, before) {
		return false
	}
	t, err := uritemplate.New(template)
	return template == uri || err == nil && t.Match(uri) != nil
}

// The methods below look up the upstream's offer, which is nil until a first connection.

// lists reports whether the upstream lists an item with that name.
func (l *Lease) lists(list upstream.List, name string) bool {
	_, ok := l.Offer().Find(list, name)
	return ok
}

// Has reports whether the upstream lists a tool that the session may call.
func (l *Lease) Has(tool string) bool {
	return l.lists(upstream.Tools, tool) && l.Member.Allowed(tool)
}

// Lacks reports whether the upstream lists tools, but not this one.
func (l *Lease) Lacks(tool string) bool {
	return len(l.Offer().Items(upstream.Tools)) > 0 && !l.lists(upstream.Tools, tool)
}

// items returns the items of a list that the client may see.
func (l *Lease) items(list upstream.List) []upstream.Item {
	items := l.Offer().Items(list)
	if list == upstream.Tools && l.Member.Allows != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(item upstream.Item) bool { return !l.Member.Allows(item.Name) })
	}
	return items
}

// Structured reports whether a tool declares an output schema, or is not known. Nothing is
// added to or removed from the answers of such a tool.
func (l *Lease) Structured(tool string) bool {
	item, ok := l.Offer().Find(upstream.Tools, tool)
	return !ok || jsonrpc.Get(item.Raw, "outputSchema") != nil
}

// MayHave reports whether the server declares a capability, in the protocol or as one of MCP's own
// extensions, or is not known yet.
func (l *Lease) MayHave(capability string) bool {
	offer := l.Offer()
	return offer == nil || offer.Has(capability) || jsonrpc.Get(jsonrpc.Get(offer.Capabilities, "extensions"), "io.modelcontextprotocol/"+capability) != nil
}

// MayHaveTool reports whether the lease's server lists a tool, or its tools are not known even
// after it had the time to start. l may be nil.
func (l *Lease) MayHaveTool(ctx context.Context, tool string) bool {
	if l == nil {
		return false
	}
	if l.Offer() == nil {
		l.AwaitOffer(ctx)
	}
	return !l.Lacks(tool)
}

// NothingToPrefetch reports whether no tool in the current offer may ever be prefetched.
func (l *Lease) NothingToPrefetch() bool {
	offer := l.Member.nothingToPrefetch.Load()
	return offer != nil && offer == l.Offer()
}

// NoteNothingToPrefetch records that no tool in the current offer may ever be prefetched.
func (l *Lease) NoteNothingToPrefetch() { l.Member.nothingToPrefetch.Store(l.Offer()) }
