package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/age"
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

// Capability returns the server capability that the list requires.
func (l List) Capability() string { return listNames[l].capability }

// ChangedMethod returns the notification method for changes of the list. Resources and templates share
// one.
func (l List) ChangedMethod() string {
	return "notifications/" + l.Capability() + "/list_changed"
}

// Item is one entry of a list.
type Item struct {
	Name string `json:"name"` // its name, URI or URI template
	Raw  []byte `json:"raw"`  // as sent, but for repairs by listable: any change would invalidate a model's prompt cache
}

// Offer is a server's description of itself and its lists. It is immutable. The last one is kept
// on disk and used at the next start until the server has answered.
type Offer struct {
	Version      string          `json:"version"`          // the negotiated revision
	Legacy       bool            `json:"legacy,omitempty"` // this version of the server is known to have no stateless revision, or to exit on server/discover
	Server       json.RawMessage `json:"server,omitempty"` // serverInfo; nil if not sent
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Instructions string          `json:"instructions"`
	Lists        [Lists][]Item   `json:"lists"`

	byName [Lists]map[string]Item // item's name → the last one of that name, which every call looks up
}

// index makes the items of the lists known to Find. It must be called before the offer is shared.
func (o *Offer) index() {
	for l, items := range o.Lists {
		o.byName[l] = make(map[string]Item, len(items))
		for _, item := range items {
			o.byName[l][item.Name] = item
		}
	}
}

// Has reports whether the server declared the capability. A nil offer, of a server that is not
// known yet, has no capabilities and no items.
func (o *Offer) Has(capability string) bool {
	return o != nil && jsonrpc.Get(o.Capabilities, capability) != nil
}

func (o *Offer) serverVersion() string { return jsonrpc.Text(o.Server, "version") }

// Items returns the items of a list.
func (o *Offer) Items(l List) []Item {
	if o == nil {
		return nil
	}
	return o.Lists[l]
}

// Find returns the item of list l with this name, the last one if there are several.
func (o *Offer) Find(l List, name string) (Item, bool) {
	if o == nil {
		return Item{}, false
	}
	item, ok := o.byName[l][name]
	return item, ok
}

// SameTools reports whether two offers have the same tools and describe their servers alike.
func (o *Offer) SameTools(p *Offer) bool {
	return sameItems(o.Lists[Tools], p.Lists[Tools]) && bytes.Equal(o.Server, p.Server) && o.Instructions == p.Instructions
}

func sameItems(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(x, y Item) bool { return bytes.Equal(x.Raw, y.Raw) })
}

// items splits a raw array into items. Items without a name are dropped: no request could name
// them.
func items(l List, array []byte) []Item {
	var out []Item
	for raw := range jsonrpc.Elements(array) {
		if name := jsonrpc.Text(raw, listNames[l].key); name != "" {
			out = append(out, Item{Name: name, Raw: listable(l, raw)})
		}
	}
	return out
}

// HeaderParams returns the parameters of mcp-go's rules for the Mcp-Param-* headers that the tool's schema may
// require in revision 2026-07-28 over HTTP: a nil tool if it requires none, as most do, and the params of a call
// without the arguments that have no header, which may be large.
func (i Item) HeaderParams(params *jsonrpc.Index) (tool *mcp.Tool, some []byte) {
	if !i.annotatesHeaders() {
		return nil, nil
	}
	tool = i.schema()
	arguments, _ := params.Sole("arguments")
	if !bytes.HasPrefix(arguments, []byte("{")) {
		return tool, params.Raw()
	}
	bindings, kept := mcp.ExtractParamHeaderBindings(tool), []byte{'{'}
	for m := range jsonrpc.Members(arguments) {
		if slices.ContainsFunc(bindings, func(b mcp.ParamHeaderBinding) bool { return b.Path[0] == string(m.Name) }) {
			kept = m.Append(kept)
		}
	}
	return tool, jsonrpc.Set(nil, "arguments", append(kept, '}'))
}

func (i Item) annotatesHeaders() bool { return bytes.Contains(i.Raw, []byte(`"x-mcp-header"`)) }

func (i Item) schema() *mcp.Tool {
	return &mcp.Tool{RawInputSchema: json.RawMessage(jsonrpc.Get(i.Raw, "inputSchema"))}
}

// withoutInvalidHeaders removes the tools with invalid x-mcp-header annotations, as the
// specification requires of HTTP clients, and returns the reasons.
func withoutInvalidHeaders(tools []Item) (kept []Item, omitted []string) {
	for _, item := range tools {
		if item.annotatesHeaders() {
			if err := mcp.ValidateParamHeaderAnnotations(item.schema()); err != nil {
				omitted = append(omitted, item.Name+": "+err.Error())
				continue
			}
		}
		kept = append(kept, item)
	}
	return kept, omitted
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
	stored.index()
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
		u.log.Warn("last-known offer not stored", "err", err)
	}
}

const (
	// listInterval is the minimum time between two reads of an upstream's lists.
	listInterval = 500 * time.Millisecond
	// listRetryDelay is the time before a list that could not be read is read again.
	listRetryDelay = 10 * time.Second
	// maxPages limits the pages of one list.
	maxPages = 1000
)

// markStale marks a list as stale and wakes serveLists.
func (in *instance) markStale(l List) {
	in.stale[l].Store(true)
	select {
	case in.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// serveLists reads stale lists, at most once per listInterval, until ctx ends.
// It publishes each list as soon as it is read, so that a slow one does not delay the others, and
// stores the offer unless the last reading of the tools has failed.
func (in *instance) serveLists(ctx context.Context, c *conn) {
	for unread := error(nil); ; {
		select {
		case <-in.wake:
		case <-ctx.Done():
			return
		}
		for l := range Lists {
			if !in.stale[l].Swap(false) {
				continue
			}
			list, err := in.readList(ctx, c, l)
			if err != nil && (ctx.Err() != nil || endsConnection(err)) {
				<-ctx.Done()
				return
			}
			if l == Tools {
				unread = err
			}
			if err != nil {
				in.up.log.Warn("list not read; the last-known one, if any, stays in use", "list", l.Method(), "err", err)
				time.AfterFunc(listRetryDelay, func() { in.markStale(l) })
				continue
			}
			next := *in.offer.Load()
			next.Lists[l] = list
			in.setOffer(&next)
		}
		if unread == nil {
			in.up.remember(in.offer.Load())
		}
		in.change(func(s *state) { s.listed, s.unread = true, unread })
		if sleep(ctx, listInterval) != nil {
			return
		}
	}
}

// readList reads one list of the server. A list that the server does not support is empty.
func (in *instance) readList(ctx context.Context, c *conn, l List) ([]Item, error) {
	if !in.offer.Load().Has(l.Capability()) {
		return nil, nil
	}
	late := fmt.Errorf("not answered within %s (start_timeout)", age.Text(in.up.spec.StartTimeout))
	ctx, cancel := context.WithTimeoutCause(ctx, in.up.spec.StartTimeout, late)
	defer cancel()
	read, err := readPages(ctx, c, l)
	if answer := errorResponse(err); answer != nil && answer.Code == jsonrpc.CodeMethodNotFound {
		return nil, nil // many servers have resources but no templates
	}
	if err == nil && l == Tools && c.http && c.stateless() {
		var bad []string
		if read, bad = withoutInvalidHeaders(read); len(bad) > 0 {
			in.up.log.Warn("server's tools omitted: invalid x-mcp-header", "tools", strings.Join(bad, ", "))
		}
	}
	return read, err
}

// readPages reads all pages of one list, which together may be as long as one message.
func readPages(ctx context.Context, c *conn, l List) (all []Item, err error) {
	var params []byte
	size := 0
	for range maxPages {
		result, err := c.ownRequest(ctx, &Request{Method: l.Method(), Params: params, Client: &c.in.client})
		if err != nil {
			return nil, err
		}
		if size += len(result); size > c.in.up.spec.MaxMessage {
			return nil, fmt.Errorf("%s: all pages together: %w", l.Method(), &jsonrpc.MessageTooLong{Limit: c.in.up.spec.MaxMessage})
		}
		all = append(all, items(l, jsonrpc.Get(result, l.Member()))...)
		cursor := NextCursor(result)
		if cursor == nil {
			return all, nil
		}
		next := append(append([]byte(`{"cursor":`), cursor...), '}')
		if string(next) == string(params) {
			return nil, fmt.Errorf("%s: the server repeated cursor %s", l.Method(), cursor)
		}
		params = next
	}
	return nil, fmt.Errorf("%s: more than %d pages", l.Method(), maxPages)
}

// NextCursor returns the cursor of the page after a result, or nil if there is none. An empty cursor ends a list, as
// the reference clients have it.
func NextCursor(result []byte) []byte {
	cursor := jsonrpc.Get(result, "nextCursor")
	if text := string(cursor); text == "null" || text == `""` {
		return nil
	}
	return cursor
}

// setOffer replaces the offer and notifies the sessions if a list is not byte for byte the same.
// Instances with equal offers share one, since lists may be long.
func (in *instance) setOffer(offer *Offer) {
	known := in.up.LastOffer()
	if known != nil {
		offer.byName = known.byName // so that only what the server sent is compared
	}
	if reflect.DeepEqual(offer, known) {
		offer = known
	} else {
		offer.index()
	}
	old := in.offer.Swap(offer)
	if old == nil {
		old = &Offer{}
	}
	if slices.EqualFunc(old.Lists[:], offer.Lists[:], sameItems) {
		return
	}
	for _, lease := range in.currentLeases() {
		if lease.listener.Changed != nil {
			lease.listener.Changed()
		}
	}
}
