package proxy

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/toolsearch"
	"mcpschedd/internal/upstream"
)

// Selection says which tools a client is shown. The zero value shows all.
type Selection struct {
	Tools    string // "all" (the default), "search": pinned ones, the others are searched for; "auto": as the client and the list are
	Over     int    // auto: tokens that a list may have before it is searched
	OnlyRead bool   // what is searched for is reached only where it certainly reads

	Pins  func(tool string) bool                                // upstream/tool that the operator has listed in any case; nil: none
	Learn bool                                                  // what searches lead to is learned
	Keep  func(merge func(stored []byte) ([]byte, error)) error // where that is kept; nil: nowhere
}

// on reports whether any client may have to search.
func (o *Selection) on() bool { return o.Tools == "search" || o.Tools == "auto" }

// mostPins is how many tools are listed because they are used so often.
const mostPins = 8

// searching are the clients that search their tools themselves, by their names in clientInfo:
// what is listed costs their model a name until it is looked for.
var searching = map[string]bool{
	"claude-code": true, // 2.1.328: names only, and ToolSearch; it reads anthropic/alwaysLoad
}

// alwaysLoad is the member of a tool's _meta by which a client that searches has it ready.
const alwaysLoad = "anthropic/alwaysLoad"

// choice is which tools the list of a session holds. It is made once, with what is known then,
// and stays: whatever changes a list voids the prompt cache of its client's model.
type choice struct {
	search  bool                // only own tools and pins are listed
	ready   bool                // pins are marked for a client that searches by itself
	pins    map[string]string   // upstream/tool → why
	session *toolsearch.Session // nil: nothing is learned of the session
}

// choose is the choice for the session.
func (s *session) choose(p *policy) *choice {
	if len(p.search) == 0 || !s.identity.view.offersOwn() {
		return &everything
	}
	s.lists.choosing.Do(func() {
		name, _ := jsonrpc.String(jsonrpc.Get(s.client.facts().Info, "name"))
		c := &choice{pins: make(map[string]string), ready: searching[name]}
		c.search = p.Selection.Tools == "search" || !searching[name] && s.listTokens() > p.Selection.Over
		search := s.srv.catalog.search
		search.load(&p.Selection)
		for _, pin := range search.learned.Pins(mostPins) {
			if p.Selection.OnlyRead && !s.vouchedRead(p, pin.Key) {
				continue // it was called when more could be reached
			}
			c.pins[pin.Key] = fmt.Sprintf("used in %d of %d sessions", pin.Sessions, pin.Of)
		}
		if p.Selection.Learn && !s.identity.Pool { // what several clients do together is not one task
			c.session = search.learned.Begin()
		}
		s.lists.choice.Store(c)
	})
	return s.lists.choice.Load()
}

// vouchedRead reports whether a tool certainly only reads, whatever its arguments.
func (s *session) vouchedRead(p *policy, key string) bool {
	name, tool, _ := strings.Cut(key, "/")
	l := s.leases.find(name)
	if l == nil {
		return false
	}
	m := s.srv.catalog.model(p, l, tool)
	return m.Vouched && m.Class.Reads()
}

// everything is the choice where nothing is searched.
var everything choice

// listTokens estimates what the whole list costs a model.
func (s *session) listTokens() (n int) {
	for _, l := range s.leases.current() {
		for _, item := range l.items(upstream.Tools) {
			n += len(item.Raw)
		}
	}
	return n / bytesPerToken
}

// pinned is why a tool is listed although tools are searched for; "": it is not.
func (c *choice) pinned(p *policy, t target) string {
	if p.Selection.Pins != nil && p.Selection.Pins(t.key()) {
		return "pinned in the configuration"
	}
	return c.pins[t.key()]
}

// listed is a tool as it stands in the list; nil: it does not.
func (c *choice) listed(p *policy, item shownItem) []byte {
	if !c.search && !c.ready {
		return item.raw
	}
	switch why := c.pinned(p, item.target); {
	case why == "" && c.search:
		return nil
	case why != "" && c.ready:
		return loadedAlways(item.raw)
	}
	return item.raw
}

// loadedAlways is a tool that a client which searches by itself has ready at once.
func loadedAlways(raw []byte) []byte {
	meta := object(jsonrpc.Get(raw, "_meta"))
	return jsonrpc.Set(raw, "_meta", jsonrpc.Set(meta, alwaysLoad, []byte("true")))
}

// toolSearch owns the index of the tools, which is made in the background and made anew when
// servers offer others, and what was learned of searches.
type toolSearch struct {
	log     *slog.Logger
	learned *toolsearch.Learned
	loading sync.Once

	mu    sync.Mutex // held while an index is made
	of    []serverOffer
	index *toolsearch.Index
}

// serverOffer is what a server offers, as far as it is searched.
type serverOffer struct {
	name  string
	allow *member
	offer *upstream.Offer
}

func newToolSearch(log *slog.Logger) *toolSearch {
	return &toolSearch{log: log, learned: toolsearch.NewLearned()}
}

// indexFor is the index of the tools that a session sees.
func (t *toolSearch) indexFor(s *session) *toolsearch.Index {
	var of []serverOffer
	for _, l := range s.leases.current() {
		of = append(of, serverOffer{l.Name(), l.member, l.Offer()})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.index != nil && slices.Equal(of, t.of) {
		return t.index
	}
	var tools []toolsearch.Tool
	for _, l := range s.leases.current() {
		for _, item := range l.items(upstream.Tools) {
			tools = append(tools, searched(l, item))
		}
	}
	t.of, t.index = of, toolsearch.New(tools)
	return t.index
}

// searched is what of a listed tool is searched.
func searched(l *leased, item upstream.Item) toolsearch.Tool {
	text := func(object []byte, member string) string {
		value, _ := jsonrpc.String(jsonrpc.Get(object, member))
		return value
	}
	out := toolsearch.Tool{
		Key: l.Name() + "/" + item.Name, Server: l.Name(), Name: item.Name,
		Title:       cmp.Or(text(item.Raw, "title"), text(jsonrpc.Get(item.Raw, "annotations"), "title")),
		Description: text(item.Raw, "description"),
	}
	for m := range jsonrpc.Members(jsonrpc.Get(jsonrpc.Get(item.Raw, "inputSchema"), "properties")) {
		out.Parameters = append(out.Parameters, string(m.Name))
	}
	if offer := l.Offer(); offer != nil {
		out.About = strings.Join([]string{text(offer.Server, "title"), text(offer.Server, "description"), offer.Instructions}, "\n")
	}
	return out
}

// load reads what was learned before, once.
func (t *toolSearch) load(o *Selection) {
	t.loading.Do(func() { t.merge(o) })
}

// save keeps what was learned since the last time.
func (t *toolSearch) save(o *Selection) {
	if t.learned.Dirty() {
		t.merge(o)
	}
}

func (t *toolSearch) merge(o *Selection) {
	if o.Keep == nil || !o.Learn || !o.on() {
		return
	}
	if err := o.Keep(t.learned.Merge); err != nil {
		t.log.Warn("what was learned of searches for tools is not kept", "err", err)
	}
}

// pinnedNow are the tools that the sessions now open have listed by evidence, and why.
func (s *Server) pinnedNow() (out []record.PinnedTool) {
	all := make(map[string]string)
	for _, n := range s.sessions.all() {
		if c := n.lists.choice.Load(); c != nil && (c.search || c.ready) {
			maps.Copy(all, c.pins)
		}
	}
	for key, why := range all {
		out = append(out, record.PinnedTool{Tool: key, Why: why})
	}
	slices.SortFunc(out, func(a, b record.PinnedTool) int { return cmp.Compare(a.Tool, b.Tool) })
	return out
}
