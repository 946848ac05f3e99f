package upstream

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// List is one of the four lists a server may offer.
type List int

const (
	Tools List = iota
	Prompts
	Resources
	Templates
	Lists // how many there are
)

// Method is the request that reads the list.
func (l List) Method() string {
	return [...]string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}[l]
}

// Member is the member of the answer that holds the list.
func (l List) Member() string {
	return [...]string{"tools", "prompts", "resources", "resourceTemplates"}[l]
}

// Key is the member of an item that names it.
func (l List) Key() string {
	return [...]string{"name", "name", "uri", "uriTemplate"}[l]
}

// Capability is the server capability without which there is no such list.
func (l List) Capability() string {
	return [...]string{"tools", "prompts", "resources", "resources"}[l]
}

// Changed is the notification that says the list has changed. Resources and
// their templates share one.
func (l List) Changed() string {
	return "notifications/" + l.Capability() + "/list_changed"
}

// Item is one entry of a list, as the server wrote it.
type Item struct {
	Name string // its name, URI or URI template
	Raw  []byte
}

// Offer is what a server says of itself: what it can do and what it has. It
// is immutable; the last one is kept on disk and offered at once next time.
type Offer struct {
	Version      string          // the revision it was spoken to in
	Legacy       bool            // it is known to have no stateless revision
	Server       json.RawMessage // serverInfo; nil: not said
	Capabilities json.RawMessage // as it wrote them
	Instructions string
	Lists        [Lists][]Item

	once   sync.Once
	byName [Lists]map[string]int // name → index in Lists
}

// Has reports whether the server declared capability.
func (o *Offer) Has(capability string) bool {
	return jsonrpc.Get(o.Capabilities, capability) != nil
}

// Find returns the item of list l so named.
func (o *Offer) Find(l List, name string) (Item, bool) {
	o.once.Do(func() {
		for l := range o.byName {
			o.byName[l] = make(map[string]int, len(o.Lists[l]))
			for i, item := range o.Lists[l] {
				o.byName[l][item.Name] = i
			}
		}
	})
	i, ok := o.byName[l][name]
	if !ok {
		return Item{}, false
	}
	return o.Lists[l][i], true
}

// clone returns a copy whose lists may be replaced.
func (o *Offer) clone() *Offer {
	return &Offer{
		Version: o.Version, Legacy: o.Legacy, Server: o.Server,
		Capabilities: o.Capabilities, Instructions: o.Instructions, Lists: o.Lists,
	}
}

// equal reports whether two offers are the same to the byte.
func (o *Offer) equal(p *Offer) bool {
	return o == p || o != nil && p != nil && bytes.Equal(o.append(nil), p.append(nil))
}

func sameItems(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(x, y Item) bool { return bytes.Equal(x.Raw, y.Raw) })
}

// append writes the offer for the disk. encoding/json would re-escape the items, and a
// changed byte voids a model's prompt cache.
func (o *Offer) append(out []byte) []byte {
	out = jsonrpc.AppendString(append(out, `{"version":`...), o.Version)
	if o.Legacy {
		out = append(out, `,"legacy":true`...)
	}
	out = append(out, `,"instructions":`...)
	out = jsonrpc.AppendString(out, o.Instructions)
	if o.Server != nil {
		out = append(append(out, `,"server":`...), o.Server...)
	}
	if o.Capabilities != nil {
		out = append(append(out, `,"capabilities":`...), o.Capabilities...)
	}
	for l := range Lists {
		out = append(jsonrpc.AppendString(append(out, ','), l.Member()), ":["...)
		for i, item := range o.Lists[l] {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, item.Raw...)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// decodeOffer reads what append wrote.
func decodeOffer(data []byte) *Offer {
	o := &Offer{
		Legacy:       string(jsonrpc.Get(data, "legacy")) == "true",
		Server:       json.RawMessage(jsonrpc.Get(data, "server")),
		Capabilities: json.RawMessage(jsonrpc.Get(data, "capabilities")),
	}
	o.Version, _ = jsonrpc.String(jsonrpc.Get(data, "version"))
	o.Instructions, _ = jsonrpc.String(jsonrpc.Get(data, "instructions"))
	for l := range Lists {
		o.Lists[l] = items(l, jsonrpc.Get(data, l.Member()))
	}
	return o
}

// items cuts a raw array into the items of list l. Items without a name are left out:
// they cannot be asked for.
func items(l List, array []byte) []Item {
	var out []Item
	for raw := range jsonrpc.Elements(array) {
		if name, ok := jsonrpc.String(jsonrpc.Get(raw, l.Key())); ok {
			out = append(out, Item{Name: name, Raw: raw})
		}
	}
	return out
}

// paramHeaders returns the Mcp-Param-* headers that the tool's schema asks for
// (revision 2026-07-28 over HTTP), nil for most tools.
func (o *Offer) paramHeaders(params []byte) map[string]string {
	item, ok := o.Find(Tools, text(jsonrpc.Get(params, "name")))
	if !ok || !item.annotatesHeaders() {
		return nil
	}
	tool, err := item.tool()
	if err != nil {
		return nil
	}
	return mcp.GenerateParamHeaders(tool, params)
}

func (i Item) annotatesHeaders() bool { return bytes.Contains(i.Raw, []byte("x-mcp-header")) }

// tool decodes the item far enough for mcp-go's header rules.
func (i Item) tool() (*mcp.Tool, error) {
	var tool mcp.Tool
	if err := json.Unmarshal(i.Raw, &tool); err != nil {
		return nil, err
	}
	tool.RawInputSchema = json.RawMessage(jsonrpc.Get(i.Raw, "inputSchema"))
	return &tool, nil
}

// withoutInvalidHeaders leaves out the tools whose x-mcp-header annotations
// are invalid, as the specification demands of clients over HTTP, and says
// which and why.
func withoutInvalidHeaders(tools []Item) (kept []Item, refused []string) {
	for _, item := range tools {
		if item.annotatesHeaders() {
			tool, err := item.tool()
			if err == nil {
				err = mcp.ValidateParamHeaderAnnotations(tool)
			}
			if err != nil {
				refused = append(refused, item.Name+": "+err.Error())
				continue
			}
		}
		kept = append(kept, item)
	}
	return kept, refused
}
