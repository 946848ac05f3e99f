package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

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

// Store persists the offers of a server between runs. Nil functions persist nothing.
type Store struct {
	Load func() ([]byte, error)
	// Save replaces the stored data by the result of next. next receives the current data, which
	// another process may have changed since Load, or nil if there is none.
	Save func(next func(old []byte) ([]byte, error)) error
}

// LastOffer reads the most recently stored offer, made to any client. The error wraps
// fs.ErrNotExist if none is stored.
func (s Store) LastOffer() (*Offer, error) {
	offers, err := s.load()
	if err != nil {
		return nil, err
	}
	return offers[0].Offer, nil
}

// load reads the stored offers and returns at least one, or an error.
func (s Store) load() ([]knownOffer, error) {
	if s.Load == nil {
		return nil, fs.ErrNotExist
	}
	data, err := s.Load()
	if err != nil {
		return nil, err
	}
	offers, err := decodeKnown(data)
	if err == nil && len(offers) == 0 {
		return nil, fmt.Errorf("last-known offer: %w", fs.ErrNotExist)
	}
	return offers, err
}

const (
	knownFormat = 3 // version of the file format
	// maxKnown is the number of offers stored per server, one per set of client capabilities; the
	// oldest is dropped first.
	maxKnown = 8
	// maxKnownCapabilities (bytes) limits the client capabilities of a stored offer.
	maxKnownCapabilities = 4 << 10
)

// knownFile is the format of the stored data, with the latest offer first.
type knownFile struct {
	Format int          `json:"format"`
	Copies []knownOffer `json:"copies"`
}

// knownOffer is the last offer that a server made to clients with one set of capabilities:
// servers may offer other tools to a client that supports sampling, elicitation or roots.
type knownOffer struct {
	Client string `json:"client"` // its capabilities as canonical JSON
	Offer  *Offer `json:"offer"`
}

// decodeKnown decodes stored data. Data of another format, or cut off by a crash, is an error and
// is overwritten by the next save.
func decodeKnown(data []byte) ([]knownOffer, error) {
	var file knownFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("last-known offer: %w", err)
	}
	if file.Format != knownFormat {
		return nil, fmt.Errorf("last-known offer: want format %d, have %d", knownFormat, file.Format)
	}
	return slices.DeleteFunc(file.Copies, func(k knownOffer) bool { return k.Offer == nil }), nil
}

// withOffer returns the offers with first in front, replacing the one for the same client.
func withOffer(offers []knownOffer, first knownOffer) []knownOffer {
	out := []knownOffer{first}
	for _, k := range offers {
		if k.Client != first.Client && len(out) < maxKnown {
			out = append(out, k)
		}
	}
	return out
}

// known holds the offers of a server from this process and earlier ones.
type known struct {
	store   Store
	offers  atomic.Pointer[[]knownOffer] // latest first; copy on write
	writing sync.Mutex                   // held while an offer is added and saved
}

func (k *known) list() []knownOffer {
	if offers := k.offers.Load(); offers != nil {
		return *offers
	}
	return nil
}

func (k *known) set(offers []knownOffer) { k.offers.Store(&offers) }

// forClient returns the offer last made to a client with this key, or nil.
func (k *known) forClient(client string) *Offer {
	for _, o := range k.list() {
		if o.Client == client {
			return o.Offer
		}
	}
	return nil
}

// legacy reports whether the server is known to have no stateless revision.
func (k *known) legacy() bool {
	return slices.ContainsFunc(k.list(), func(o knownOffer) bool { return o.Offer.Legacy })
}

// remember stores an offer for later instances and processes.
func (k *known) remember(client Client, offer *Offer) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	made := knownOffer{client.key(), offer}
	if reflect.DeepEqual(k.forClient(made.Client), offer) {
		return nil
	}
	k.set(withOffer(k.list(), made))
	if k.store.Save == nil || len(made.Client) > maxKnownCapabilities {
		return nil
	}
	return k.store.Save(func(old []byte) ([]byte, error) {
		offers, err := decodeKnown(old)
		if err != nil {
			offers = nil // none stored, or not readable
		}
		return json.Marshal(knownFile{knownFormat, withOffer(offers, made)})
	})
}

// key returns the key of the offers to clients with the same capabilities.
func (c Client) key() string {
	if canonical, ok := jsonrpc.AppendCanonical(nil, c.Capabilities); ok {
		return string(canonical)
	}
	return string(c.Capabilities)
}
