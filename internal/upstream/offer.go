package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// List is one of the four lists that a server may offer.
type List int

const (
	Tools List = iota
	Prompts
	Resources
	Templates
	Lists // number of lists
)

// listNames has, for each list: the method that reads it, the member of the result that holds it,
// the member of an item that identifies the item, and the required server capability.
var listNames = [Lists]struct{ method, member, key, capability string }{
	{"tools/list", "tools", "name", "tools"},
	{"prompts/list", "prompts", "name", "prompts"},
	{"resources/list", "resources", "uri", "resources"},
	{"resources/templates/list", "resourceTemplates", "uriTemplate", "resources"},
}

// Method returns the method that reads the list.
func (l List) Method() string { return listNames[l].method }

// Member returns the member of the result that holds the list.
func (l List) Member() string { return listNames[l].member }

// Key returns the member that identifies an item.
func (l List) Key() string { return listNames[l].key }

// Capability returns the server capability that the list requires.
func (l List) Capability() string { return listNames[l].capability }

// Changed returns the notification method for changes of the list. Resources and templates share
// one.
func (l List) Changed() string {
	return "notifications/" + l.Capability() + "/list_changed"
}

// Item is one entry of a list.
type Item struct {
	Name string `json:"name"` // its name, URI or URI template
	Raw  []byte `json:"raw"`  // the unmodified bytes: any change would invalidate a model's prompt cache
}

// Offer is a server's description of itself and its lists. It is immutable. The last one is kept
// on disk and used at the next start until the server has answered.
type Offer struct {
	Version      string          `json:"version"`          // the negotiated revision
	Legacy       bool            `json:"legacy,omitempty"` // the server is known to have no stateless revision
	Server       json.RawMessage `json:"server,omitempty"` // serverInfo; nil if not sent
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Instructions string          `json:"instructions"`
	Lists        [Lists][]Item   `json:"lists"`
}

// Has reports whether the server declared the capability. A nil offer, of a server that is not
// known yet, has no capabilities and no items.
func (o *Offer) Has(capability string) bool {
	return o != nil && jsonrpc.Get(o.Capabilities, capability) != nil
}

// Items returns the items of a list.
func (o *Offer) Items(l List) []Item {
	if o == nil {
		return nil
	}
	return o.Lists[l]
}

// Find returns the item of list l with this name, the last one if there are several.
func (o *Offer) Find(l List, name string) (Item, bool) {
	for _, item := range slices.Backward(o.Items(l)) {
		if item.Name == name {
			return item, true
		}
	}
	return Item{}, false
}

func sameItems(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(x, y Item) bool { return bytes.Equal(x.Raw, y.Raw) })
}

// items splits a raw array into items. Items without a name are dropped: no request could name
// them.
func items(l List, array []byte) []Item {
	var out []Item
	for raw := range jsonrpc.Elements(array) {
		if name, ok := jsonrpc.String(jsonrpc.Get(raw, l.Key())); ok {
			out = append(out, Item{Name: name, Raw: raw})
		}
	}
	return out
}

// paramHeaders returns the Mcp-Param-* headers that the tool's schema requires in revision
// 2026-07-28 over HTTP, nil for most tools.
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

// tool decodes the parts of the item that mcp-go's header rules need.
func (i Item) tool() (*mcp.Tool, error) {
	var tool mcp.Tool
	if err := json.Unmarshal(i.Raw, &tool); err != nil {
		return nil, err
	}
	tool.RawInputSchema = json.RawMessage(jsonrpc.Get(i.Raw, "inputSchema"))
	return &tool, nil
}

// withoutInvalidHeaders removes the tools with invalid x-mcp-header annotations, as the
// specification requires of HTTP clients, and returns the reasons.
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

// Store persists the last offer of a server between runs. Nil functions persist nothing.
type Store struct {
	Load func() ([]byte, error)
	Save func(data []byte) error
}

// offerFormat is the version of the stored data.
const offerFormat = 4

// storedOffer is the format of the stored data.
type storedOffer struct {
	Format int `json:"format"`
	*Offer
}

// LastOffer reads the stored offer. The error wraps fs.ErrNotExist if none is stored. Data of
// another version, or cut off by a crash, is an error and is overwritten by the next save.
func (s Store) LastOffer() (*Offer, error) {
	if s.Load == nil {
		return nil, fs.ErrNotExist
	}
	data, err := s.Load()
	if err != nil {
		return nil, err
	}
	var stored storedOffer
	if err := json.Unmarshal(data, &stored); err != nil {
		return nil, fmt.Errorf("last-known offer: %w", err)
	}
	if stored.Format != offerFormat || stored.Offer == nil {
		return nil, fmt.Errorf("last-known offer: want format %d, have %d", offerFormat, stored.Format)
	}
	return stored.Offer, nil
}

// LastOffer returns the server's latest offer to any client, or nil.
func (u *Upstream) LastOffer() *Offer { return u.known.Load() }

// remember keeps an offer for later instances, and stores it for later processes.
func (u *Upstream) remember(offer *Offer) {
	u.saving.Lock()
	defer u.saving.Unlock()
	if reflect.DeepEqual(u.known.Swap(offer), offer) || u.o.Store.Save == nil {
		return
	}
	data, err := json.Marshal(storedOffer{offerFormat, offer})
	if err == nil {
		err = u.o.Store.Save(data)
	}
	if err != nil {
		u.log.Warn("last-known offer not stored", "upstream", u.spec.Name, "err", err)
	}
}
