package upstream

import (
	"bytes"
	"encoding/json"
	"slices"

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

// listNames are the request that reads each list, the member of its answer that holds
// it, the member of an item that names that, and the server capability without which
// there is no such list.
var listNames = [Lists]struct{ method, member, key, capability string }{
	{"tools/list", "tools", "name", "tools"},
	{"prompts/list", "prompts", "name", "prompts"},
	{"resources/list", "resources", "uri", "resources"},
	{"resources/templates/list", "resourceTemplates", "uriTemplate", "resources"},
}

// Method is the request that reads the list.
func (l List) Method() string { return listNames[l].method }

// Member is the member of the answer that holds the list.
func (l List) Member() string { return listNames[l].member }

// Key is the member of an item that names it.
func (l List) Key() string { return listNames[l].key }

// Capability is the server capability without which there is no such list.
func (l List) Capability() string { return listNames[l].capability }

// Changed is the notification that says the list has changed. Resources and
// their templates share one.
func (l List) Changed() string {
	return "notifications/" + l.Capability() + "/list_changed"
}

// Item is one entry of a list.
type Item struct {
	Name string `json:"name"` // its name, URI or URI template
	Raw  []byte `json:"raw"`  // as the server wrote it, to the byte: a changed one voids a model's prompt cache
}

// Offer is what a server says of itself: what it can do and what it has. It
// is immutable; the last one is kept on disk and offered at once next time.
type Offer struct {
	Version      string          `json:"version"`          // the revision it was spoken to in
	Legacy       bool            `json:"legacy,omitempty"` // it is known to have no stateless revision
	Server       json.RawMessage `json:"server,omitempty"` // serverInfo; nil: not said
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Instructions string          `json:"instructions"`
	Lists        [Lists][]Item   `json:"lists"`
}

// Has reports whether the server declared capability.
func (o *Offer) Has(capability string) bool {
	return jsonrpc.Get(o.Capabilities, capability) != nil
}

// Find returns the item of list l so named, the last one if a server lists it twice.
func (o *Offer) Find(l List, name string) (Item, bool) {
	for _, item := range slices.Backward(o.Lists[l]) {
		if item.Name == name {
			return item, true
		}
	}
	return Item{}, false
}

func sameItems(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(x, y Item) bool { return bytes.Equal(x.Raw, y.Raw) })
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

// withoutInvalidHeaders leaves out the tools with x-mcp-header annotations that
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
