package catalog

import (
	"cmp"
	"slices"
	"strings"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// Items returns the items of one list in the order of the upstreams, tools and
// prompts under their shown names. Of two items with one name it keeps the first. It
// leaves out items that have no name, and tools that the session has to search for.
func (v *View) Items(list upstream.List) (items [][]byte) {
	seen, log := make(map[string]bool), v.Catalog.log
	for _, l := range v.Leases {
		for _, item := range l.items(list) {
			raw, name, t := item.Raw, item.Name, Target{l.Name(), item.Name}
			if list == upstream.Tools || list == upstream.Prompts {
				if name = v.NameOf(list, t); name != item.Name {
					raw = jsonrpc.Set(raw, "name", jsonrpc.AppendString(nil, name))
				}
			}
			if name == "" || seen[name] {
				log.Debug("item left out of the list: its name is taken, or its server has too many names", "upstream", l.Name(), "list", list.Method(), "name", item.Name)
				continue
			}
			seen[name] = true
			if list == upstream.Tools {
				if raw = v.decide(false).entry(v.Policy, t, raw); v.Client.Handshake() {
					raw = revision.Tool(raw)
				}
			}
			if raw != nil {
				items = append(items, raw)
			}
		}
		if list == upstream.Tools && v.Own() {
			if n := v.Catalog.names.unlisted(v.Policy, l.Member); l.Member.unlisted.Swap(int64(n)) != int64(n) && n > 0 {
				log.Warn(`tools are not listed, as name_style is "never" and other servers have their names`, "upstream", l.Name(), "tools", n)
			}
		}
	}
	return items
}

// emptyCapabilities holds the capabilities that a server without any items can honour: empty
// lists, completion without values, a log without messages.
var emptyCapabilities = []byte(`{"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`)

// Capabilities joins the servers' capabilities and the proxy's own. A client reads them once and
// never uses an undeclared capability, so a server without a known offer counts as having all
// emptyCapabilities.
func (v *View) Capabilities() (out []byte) {
	if v.Own() {
		out = emptyCapabilities
	}
	for _, l := range v.Leases {
		capabilities := emptyCapabilities
		if offer := l.Offer(); offer != nil {
			capabilities = offer.Capabilities
		}
		for m := range jsonrpc.Members(capabilities) {
			name := string(m.Name)
			out = jsonrpc.Set(out, name, joinValues(jsonrpc.Get(out, name), m.Value))
		}
	}
	for _, name := range []string{"prompts", "resources"} {
		if have := jsonrpc.Get(out, name); have != nil {
			out = jsonrpc.Set(out, name, jsonrpc.Set(have, "listChanged", []byte("true")))
		}
	}
	return jsonrpc.Set(out, "tools", []byte(`{"listChanged":true}`))
}

// joinValues joins two values of one capability: objects member by member, else the first
// unless it is absent or false.
func joinValues(a, b []byte) []byte {
	switch {
	case a == nil || string(a) == "false":
		return b
	case b == nil || a[0] != '{' || b[0] != '{':
		return a
	}
	for m := range jsonrpc.Members(b) {
		name := string(m.Name)
		a = jsonrpc.Set(a, name, joinValues(jsonrpc.Get(a, name), m.Value))
	}
	return a
}

// Instructions returns the instructions of the proxy and of all servers with a known offer,
// each under its server's name if there are several, for the client with the given clientInfo.
// If the client would cut off some, each has at most its fair share of what it keeps.
func (ls Leases) Instructions(own string, info []byte) string {
	type section struct{ head, text string }
	sections := []*section{{"# mcpschedd\n", own}} // first, as clients cut off the end
	for _, l := range ls {
		if offer := l.Offer(); offer != nil {
			sections = append(sections, &section{"# " + l.Name() + "\n", offer.Instructions})
		}
	}
	isEmpty := func(part *section) bool { return part.text == "" }
	sections = slices.DeleteFunc(sections, isEmpty)
	if len(ls) <= 1 && len(sections) == 1 {
		sections[0].head = ""
	}
	const gap = "\n\n"
	if left := maxInstructions[jsonrpc.Text(info, "name")]; left > 0 { // max-min fairness: what a short one leaves is for the longer ones
		shortest := slices.Clone(sections)
		slices.SortStableFunc(shortest, func(a, b *section) int { return cmp.Compare(len(a.text), len(b.text)) })
		for n, part := range shortest {
			share := left / (len(shortest) - n)
			part.text = excerpt.Shorten(part.text, share-len(part.head)-len(gap))
			if part.text != "" {
				left -= len(part.head) + len(part.text) + len(gap)
			}
		}
	}
	var parts []string
	for _, part := range slices.DeleteFunc(sections, isEmpty) {
		parts = append(parts, part.head+part.text)
	}
	return strings.Join(parts, gap)
}

// maxInstructions is the number of bytes of instructions that a client passes to its model,
// by the name in clientInfo. Such clients silently cut off the rest.
var maxInstructions = map[string]int{
	"claude-code": 4096, // 2.1.328
}
