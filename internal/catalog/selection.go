package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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

// On reports whether any client may have to search.
func (o *Selection) On() bool { return o.Tools == "search" || o.Tools == "auto" }

// maxPins is the number of tools that are listed because they are used often.
const maxPins = 8

// Clients by the beginning of the name in clientInfo: Qwen Code's ends with the server's.
var (
	Codex = ClientNames{"codex-mcp-client"}    // 0.171
	qwen  = ClientNames{"qwen-cli-mcp-client"} // 0.15

	// searchingClients search the list of tools themselves: a listed tool costs their model only its name until
	// a search finds it. Claude Code 2.1.328 reads anthropic/alwaysLoad.
	searchingClients = append(ClientNames{"claude-code"}, qwen...)
	// ListsOnce list the tools once per session: they ignore that the list has changed.
	ListsOnce = slices.Concat(Codex, qwen, ClientNames{"continue-cli-client", "@cline/core"})
)

// ClientNames holds beginnings of names of clients.
type ClientNames []string

// Include reports whether the client with the given clientInfo is among them.
func (c ClientNames) Include(info []byte) bool {
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

// Choices makes and holds the choice of one session.
type Choices struct {
	Multiplexed bool // the session's calls belong to many tasks, and nothing is learned from them

	made      atomic.Pointer[choice] // nil if not decided yet, or all tools are listed
	mu        sync.Mutex             // held while the choice is made
	undecided bool                   // all tools were listed, as the choice could not be made
}

// Pinned returns the tools that are listed because they are used often, with the reason.
func (c *Choices) Pinned() map[string]string {
	if made := c.made.Load(); made != nil && (made.search || made.preload) {
		return made.pins
	}
	return nil
}

// Choose makes the session's choice of listed tools for a list that is to be shown; see decide.
func (v *View) Choose(listing bool) { v.decide(listing) }

// decide returns the session's choice, which it makes once. Under "auto" a list that is short enough decides
// nothing while that of another server is unknown. After such a list only a later one decides, so that no
// call follows a choice that the client has not seen. listing means that the client asks for a list.
func (v *View) decide(listing bool) *choice {
	s, p := v.Choices, v.Policy
	if !p.Selection.On() || !v.Own() {
		return &allTools
	}
	if c := s.made.Load(); c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.made.Load(); c != nil {
		return c
	}
	if s.undecided && !listing {
		return &allTools
	}
	c := &choice{pins: make(map[string]string), preload: searchingClients.Include(v.Client.Info)}
	size, whole := 0, true // bytes of the list
	for _, l := range v.Leases {
		whole = whole && l.Listed()
		for _, item := range l.items(upstream.Tools) {
			size += len(item.Raw)
		}
	}
	reaches := p.Selection.OnlyRead || v.Client.ElicitsByForm() // else every call that may write would be refused
	c.search = p.Selection.Tools == "search" || !c.preload && reaches && size/record.BytesPerToken > p.Selection.Over
	if !whole && !c.search && !c.preload {
		s.undecided = listing
		return &allTools
	}
	if catalog := v.Catalog; catalog.keep != nil && p.Learn {
		catalog.loading.Do(catalog.mergeLearned)
		for _, pin := range catalog.learned.Pins(maxPins) {
			if !p.Selection.OnlyRead || v.vouchedRead(pin.Key) { // else its calls were learned without OnlyRead
				c.pins[pin.Key] = fmt.Sprintf("used in %d of %d sessions", pin.Sessions, pin.Of)
			}
		}
		if !s.Multiplexed {
			c.session = catalog.learned.Begin()
		}
	}
	s.made.Store(c)
	return c
}

// vouchedRead reports whether every call of a tool is certainly read-only.
func (v *View) vouchedRead(key string) bool {
	t, l := v.Configured(key)
	if l == nil {
		return false
	}
	m := v.Tool(l, t.Name).Model
	return m.Vouched && m.Class.Reads()
}

// Searches reports whether tools that are not listed are found by a search.
func (v *View) Searches() bool { return v.decide(false).search }

// Listed reports whether a tool is listed to the session, so that the client's own permissions
// apply to it.
func (v *View) Listed(t Target) bool {
	chosen := v.decide(false)
	return !chosen.search || chosen.pinned(v.Policy, t)
}

// Called learns from a call that a search may have led to.
func (v *View) Called(t Target) {
	if session := v.decide(false).session; session != nil {
		session.Called(t.Key())
	}
}

// pinned reports whether a tool is always listed.
func (c *choice) pinned(p *Policy, t Target) bool {
	return c.pins[t.Key()] != "" || p.Selection.Pins != nil && p.Selection.Pins(t.Key())
}

// entry returns a tool's entry in the list, or nil if it is not listed.
func (c *choice) entry(p *Policy, t Target, raw []byte) []byte {
	switch pinned := (c.search || c.preload) && c.pinned(p, t); {
	case c.search && !pinned:
		return nil
	case c.preload && pinned:
		return jsonrpc.Set(raw, "_meta", jsonrpc.Set(jsonrpc.Get(raw, "_meta"), alwaysLoad, []byte("true")))
	}
	return raw
}
