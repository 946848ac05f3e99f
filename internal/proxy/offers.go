package proxy

import (
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// What the upstream of a lease offers. Nothing is known of one that was never connected.

// find returns the item of that name in a list of the upstream.
func (l *leased) find(list upstream.List, name string) (upstream.Item, bool) {
	offer := l.Offer()
	if offer == nil {
		return upstream.Item{}, false
	}
	return offer.Find(list, name)
}

// lists reports whether the upstream lists an item of that name.
func (l *leased) lists(list upstream.List, name string) bool {
	_, ok := l.find(list, name)
	return ok
}

// has reports whether the upstream is known to have a tool that its session may call.
func (l *leased) has(tool string) bool {
	return l.lists(upstream.Tools, tool) && l.member.allows(tool)
}

// items are those of a list that a client may see.
func (l *leased) items(list upstream.List) []upstream.Item {
	offer := l.Offer()
	if offer == nil {
		return nil
	}
	items := offer.Lists[list]
	if list == upstream.Tools && l.member.Allows != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(item upstream.Item) bool { return !l.member.Allows(item.Name) })
	}
	return items
}

// structured reports whether a tool promises a schema that its answers have:
// nothing is ever added to one of those, nor taken from it.
func (l *leased) structured(tool string) bool {
	item, ok := l.find(upstream.Tools, tool)
	return !ok || jsonrpc.Get(item.Raw, "outputSchema") != nil
}

// extension is the prefix of MCP's own extensions among the capabilities.
const extension = "io.modelcontextprotocol/"

// mayHave reports whether the server declared a capability, as part of the protocol or as
// an extension, or is not known yet.
func (l *leased) mayHave(capability string) bool {
	offer := l.Offer()
	return offer == nil || offer.Has(capability) || jsonrpc.Get(jsonrpc.Get(offer.Capabilities, "extensions"), extension+capability) != nil
}

// where are the leases that fit.
func where(leases []*leased, fits func(*leased) bool) (found []*leased) {
	for _, l := range leases {
		if fits(l) {
			found = append(found, l)
		}
	}
	return found
}
