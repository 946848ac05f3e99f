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

// Store keeps what a server offered between runs. Nil functions keep nothing.
type Store struct {
	Load func() ([]byte, error)
	// Save replaces what is kept by what next makes of it, which may have changed since
	// it was loaded, because other processes save too. next is given nil if there is
	// nothing.
	Save func(next func(old []byte) ([]byte, error)) error
}

// Known reads the offer that was kept last, whichever client it was made to; the
// error wraps fs.ErrNotExist if none is kept.
func (s Store) LastOffer() (*Offer, error) {
	offers, err := s.load()
	if err != nil {
		return nil, err
	}
	return offers[0].Offer, nil
}

// load reads what is kept: at least one offer.
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
		return nil, fmt.Errorf("last-known copy: %w", fs.ErrNotExist)
	}
	return offers, err
}

const (
	knownFormat = 3 // the version of the file that keeps offers
	// mostKnown is for how many kinds of clients the offer of one server is kept; the
	// oldest is dropped first.
	mostKnown = 8
	// mostCapabilities (bytes) is how long a client's capabilities may be for the offer
	// made to it to be kept.
	mostCapabilities = 4 << 10
)

// knownFile is what the store holds, the latest offer first.
type knownFile struct {
	Format int          `json:"format"`
	Copies []knownOffer `json:"copies"`
}

// knownOffer is what a server last offered to the clients with one set of
// capabilities: servers offer other tools to a client that can be asked for samples,
// input or roots.
type knownOffer struct {
	Client string `json:"client"` // its capabilities, in the canonical text
	Offer  *Offer `json:"offer"`
}

// decodeKnown reads a store. A file of another format, or one cut short by a crash, is
// an error, and is replaced by the next save.
func decodeKnown(data []byte) ([]knownOffer, error) {
	var file knownFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("last-known copy: %w", err)
	}
	if file.Format != knownFormat {
		return nil, fmt.Errorf("last-known copy: want format %d, have %d", knownFormat, file.Format)
	}
	return slices.DeleteFunc(file.Copies, func(k knownOffer) bool { return k.Offer == nil }), nil
}

// withOffer returns the offers with this one first.
func withOffer(offers []knownOffer, first knownOffer) []knownOffer {
	out := []knownOffer{first}
	for _, k := range offers {
		if k.Client != first.Client && len(out) < mostKnown {
			out = append(out, k)
		}
	}
	return out
}

// known is what a server has offered so far, to clients of this process and of
// earlier ones.
type known struct {
	store   Store
	offers  atomic.Pointer[[]knownOffer] // the latest first; never changed
	writing sync.Mutex                   // held while an offer is added and saved
}

func (k *known) list() []knownOffer {
	if offers := k.offers.Load(); offers != nil {
		return *offers
	}
	return nil
}

func (k *known) set(offers []knownOffer) { k.offers.Store(&offers) }

// to returns the offer last made to a client of that key, nil if none is known.
func (k *known) to(client string) *Offer {
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

// remember keeps an offer for the next instance and the next run.
func (k *known) remember(client Client, offer *Offer) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	made := knownOffer{client.key(), offer}
	if reflect.DeepEqual(k.to(made.Client), offer) {
		return nil
	}
	k.set(withOffer(k.list(), made))
	if k.store.Save == nil || len(made.Client) > mostCapabilities {
		return nil
	}
	return k.store.Save(func(old []byte) ([]byte, error) {
		offers, err := decodeKnown(old)
		if err != nil {
			offers = nil // there were none, or none that can be read
		}
		return json.Marshal(knownFile{knownFormat, withOffer(offers, made)})
	})
}

// key names the offers to clients that can do the same.
func (c Client) key() string {
	if canonical, ok := jsonrpc.AppendCanonical(nil, c.Capabilities); ok {
		return string(canonical)
	}
	return string(c.Capabilities)
}
