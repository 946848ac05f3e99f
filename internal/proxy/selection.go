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

// Selection configures which tools are listed to a client. The zero value lists all.
type Selection struct {
	Tools    string // "all" (the default), "search" (list only pinned tools), or "auto" (depends on the client and the list)
	Over     int    // auto: tokens of a list above which it is searched
	OnlyRead bool   // tools that are not listed can be called only if the call is certainly read-only

	Pins func(tool string) bool                                // reports whether the operator pins NAME/TOOL; nil means none
	Keep func(merge func(stored []byte) ([]byte, error)) error // merges and persists what is learned from searches; nil means that nothing is learned
}

// on reports whether any client may have to search.
func (o *Selection) on() bool { return o.Tools == "search" || o.Tools == "auto" }

// maxPins is the number of tools that are listed because they are used often.
const maxPins = 8

// Clients by the beginning of the name in clientInfo: Qwen Code's ends with the server's.
var (
	codex = clientNames{"codex-mcp-client"}    // 0.171
	qwen  = clientNames{"qwen-cli-mcp-client"} // 0.15

	// searchingClients search the list of tools themselves: a listed tool costs their model only its name until
	// a search finds it. Claude Code 2.1.328 reads anthropic/alwaysLoad.
	searchingClients = append(clientNames{"claude-code"}, qwen...)
	// listsOnce list the tools once per session: they ignore that the list has changed.
	listsOnce = slices.Concat(codex, qwen, clientNames{"continue-cli-client", "@cline/core"})
)

// clientNames holds beginnings of names of clients.
type clientNames []string

// include reports whether the client with the given clientInfo is among them.
func (c clientNames) include(info []byte) bool {
	name := jsonrpc.Text(info, "name")
	return slices.ContainsFunc(c, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// alwaysLoad is the member of a tool's _meta that makes a searching client load it at once.
const alwaysLoad = "anthropic/alwaysLoad"

// choice determines the listed tools of a session. It is made once and never changes, since a
// change of the list invalidates the prompt cache of the client's model.
type choice struct {
	search  bool                // only own tools and pins are listed
	preload bool                // pins are marked with alwaysLoad for a searching client
	pins    map[string]string   // NAME/TOOL → reason
	session *toolsearch.Session // nil if nothing is learned from the session
}

// allTools is the choice that lists all tools.
var allTools choice

// choose returns the session's choice, as the client has seen it if it has listed the tools.
func (v view) choose() *choice { return v.decide(false) }

// decide makes the session's choice, once. Under "auto" a list that is short enough decides nothing
// while that of another server is unknown. After such a list only a later one decides, so that no
// call follows a choice that the client has not seen. listing means that the client asks for a list.
func (v view) decide(listing bool) *choice {
	s, p := v.s, v.p
	if !p.Selection.on() || !v.own() {
		return &allTools
	}
	if c := s.lists.choice.Load(); c != nil {
		return c
	}
	s.lists.choosing.Lock()
	defer s.lists.choosing.Unlock()
	if c := s.lists.choice.Load(); c != nil {
		return c
	}
	if s.lists.undecided && !listing {
		return &allTools
	}
	c := &choice{pins: make(map[string]string), preload: searchingClients.include(s.client.load().Info)}
	size, whole := 0, true // bytes of the list
	for _, l := range s.leases.current() {
		whole = whole && l.Listed()
		for _, item := range l.items(upstream.Tools) {
			size += len(item.Raw)
		}
	}
	reaches := p.Selection.OnlyRead || s.client.load().ElicitsByForm() // else every call that may write would be refused
	c.search = p.Selection.Tools == "search" || !c.preload && reaches && size/record.BytesPerToken > p.Selection.Over
	if !whole && !c.search && !c.preload {
		s.lists.undecided = listing
		return &allTools
	}
	if search := s.srv.search; search.keep != nil && p.Enrichment.Learn {
		search.loading.Do(search.merge)
		for _, pin := range search.learned.Pins(maxPins) {
			if !p.Selection.OnlyRead || v.vouchedRead(pin.Key) { // else its calls were learned without OnlyRead
				c.pins[pin.Key] = fmt.Sprintf("used in %d of %d sessions", pin.Sessions, pin.Of)
			}
		}
		if !s.identity.Multiplexed { // its calls belong to many tasks
			c.session = search.learned.Begin()
		}
	}
	s.lists.choice.Store(c)
	return c
}

// vouchedRead reports whether every call of a tool is certainly read-only.
func (v view) vouchedRead(key string) bool {
	t, l := v.configured(key)
	if l == nil {
		return false
	}
	m := v.model(l, t.name)
	return m.Vouched && m.Class.Reads()
}

// listed reports whether a tool is listed to the session, so that the client's own permissions
// apply to it.
func (v view) listed(t target) bool {
	chosen := v.choose()
	return !chosen.search || chosen.pinned(v.p, t)
}

// pinned reports whether a tool is always listed.
func (c *choice) pinned(p *policy, t target) bool {
	return c.pins[t.key()] != "" || p.Selection.Pins != nil && p.Selection.Pins(t.key())
}

// entry returns a tool's entry in the list, or nil if it is not listed.
func (c *choice) entry(p *policy, t target, raw []byte) []byte {
	switch pinned := (c.search || c.preload) && c.pinned(p, t); {
	case c.search && !pinned:
		return nil
	case c.preload && pinned:
		meta := object(jsonrpc.Get(raw, "_meta"))
		return jsonrpc.Set(raw, "_meta", jsonrpc.Set(meta, alwaysLoad, []byte("true")))
	}
	return raw
}

// toolSearch holds the index of the tools, which is rebuilt when the servers' offers change,
// and what was learned from searches.
type toolSearch struct {
	log     *slog.Logger
	keep    func(merge func(stored []byte) ([]byte, error)) error // as in Selection
	learned *toolsearch.Learned
	loading sync.Once

	mu     sync.Mutex // held while an index is built
	offers []serverOffer
	index  *toolsearch.Index // of offers
}

// serverOffer identifies the tools of one server in an index.
type serverOffer struct {
	member *member
	offer  *upstream.Offer
}

// sameTools reports whether two servers' tools have the same index. Each session may have an instance, and so an
// offer, of its own.
func (o serverOffer) sameTools(p serverOffer) bool {
	return o.member == p.member && (o.offer == p.offer || o.offer != nil && p.offer != nil && o.offer.SameTools(p.offer))
}

// indexFor returns the index of the tools that a session sees.
func (t *toolSearch) indexFor(s *session) *toolsearch.Index {
	var offers []serverOffer
	var tools []toolsearch.Tool
	for _, l := range s.leases.current() {
		offers = append(offers, serverOffer{l.member, l.Offer()})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.index == nil || !slices.EqualFunc(offers, t.offers, serverOffer.sameTools) {
		for _, l := range s.leases.current() {
			for _, item := range l.items(upstream.Tools) {
				tools = append(tools, searchDocument(l, item))
			}
		}
		t.offers, t.index = offers, toolsearch.New(tools)
	}
	return t.index
}

// searchDocument returns the searched texts of a tool.
func searchDocument(l *sessionLease, item upstream.Item) toolsearch.Tool {
	text := jsonrpc.Text
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

// save persists what was learned since the last call.
func (t *toolSearch) save() {
	if t.learned.Dirty() {
		t.merge()
	}
}

func (t *toolSearch) merge() {
	if err := t.keep(t.learned.Merge); err != nil {
		t.log.Warn("state learned from tool searches not saved", "err", err)
	}
}

// pinnedNow returns the tools that open sessions list because they are used often, with the reason.
func (s *Server) pinnedNow() map[string]string {
	all := make(map[string]string)
	for _, n := range s.sessions.list() {
		if c := n.lists.choice.Load(); c != nil && (c.search || c.preload) {
			maps.Copy(all, c.pins)
		}
	}
	return all
}
