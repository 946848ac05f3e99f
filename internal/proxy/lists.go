package proxy

import (
	"bytes"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// list answers one of the four list requests.
func (x *request) list(l upstream.List) {
	if cursor := jsonrpc.Get(x.msg.Params, "cursor"); cursor != nil && string(cursor) != "null" {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.cursor: unknown; lists are given in one page"})
		return
	}
	x.s.awaitOffers(x.ctx)
	x.s.listing.Lock()
	items := x.s.joined(l)
	x.s.listed[l] = items
	x.s.listing.Unlock()
	result := make([]byte, 0, len(items)+96)
	result = append(append(result, `{"`...), l.Member()...)
	result = append(append(append(result, `":[`...), items...), "]}"...)
	x.finish(result)
}

// joined writes the items that all upstreams offer, in configuration order, as
// the inside of an array. It is never nil.
func (s *session) joined(l upstream.List) []byte {
	p := s.srv.policy.Load()
	out := []byte{}
	seen := make(map[string]bool)
	if l == upstream.Tools {
		out = s.appendOwn(out, p)
	}
	for _, lease := range s.leases.current() {
		offer := lease.Offer()
		if offer == nil {
			continue
		}
		for _, item := range offer.Lists[l] {
			if l == upstream.Tools && !lease.member.allows(item.Name) {
				continue
			}
			raw := item.Raw
			name := item.Name
			if l == upstream.Tools || l == upstream.Prompts {
				name = s.view.show(p, l, target{lease.Name(), item.Name})
				if name != item.Name {
					raw = jsonrpc.Set(raw, "name", jsonrpc.AppendString(nil, name))
				}
			}
			if name == "" || seen[name] {
				s.srv.log.Debug("left out of the list: another upstream has the same name, or it had no room for another", "upstream", lease.Name(), "list", l.Method(), "name", item.Name)
				continue
			}
			seen[name] = true
			if len(out) > 0 {
				out = append(out, ',')
			}
			out = append(out, raw...)
		}
	}
	if own := map[upstream.List]string{upstream.Resources: ownResources, upstream.Templates: ownTemplates}[l]; own != "" && s.tellsOfItself() {
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, own...)
	}
	return out
}

// quiet is the least time between two list_changed of one kind: each voids a
// model's prompt cache.
const quiet = 500 * time.Millisecond

// notice is a list_changed that was sent, or is due when its timer fires.
type notice struct {
	due   bool
	timer *time.Timer // ends the quiet after the last one
}

// listChanged takes note that an upstream's list is not what it was, and tells
// the client now or, after a notice not long ago, when the quiet is over.
func (s *session) listChanged(l upstream.List) {
	method := l.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	n := s.told[method]
	switch {
	case n == nil:
		n = &notice{}
		n.timer = time.AfterFunc(0, func() { s.notice(method, n) })
		s.told[method] = n
	case n.due:
		return
	case n.timer.Reset(quiet): // it was running: the quiet goes on
	default:
		n.timer.Reset(0)
	}
	n.due = true
}

// notice tells whoever has seen a list that is no longer the same to the byte.
func (s *session) notice(method string, n *notice) {
	s.mu.Lock()
	due := n.due && !s.closed
	n.due = false
	if due {
		n.timer.Reset(quiet)
	}
	s.mu.Unlock()
	if !due {
		return
	}
	s.listing.Lock()
	defer s.listing.Unlock()
	changed := false
	for l := range upstream.Lists {
		if l.Changed() != method {
			continue
		}
		items := s.joined(l)
		if seen := s.listed[l]; seen != nil && !bytes.Equal(items, seen) {
			s.listed[l] = items
			changed = true
		}
		s.publishList(l, items)
	}
	if changed {
		s.notify(method, nil)
	}
}

// initializeResult answers a client of the handshake era, at once: servers that are
// not known yet are waited for with the lists.
func (s *session) initializeResult(client []byte) []byte {
	out := jsonrpc.AppendString([]byte(`{"protocolVersion":`), s.client.facts().negotiated)
	out = append(append(out, `,"capabilities":`...), s.capabilities()...)
	out = append(append(out, `,"serverInfo":`...), s.srv.info()...)
	return append(s.appendInstructions(out, client), '}')
}

// discoverResult answers a stateless client, at once as well.
func (s *session) discoverResult(client []byte) []byte {
	out := []byte(`{"resultType":"complete","supportedVersions":[`)
	for i, v := range revision.SupportedVersions() {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendString(out, v)
	}
	out = append(append(out, `],"capabilities":`...), s.capabilities()...)
	out = s.appendInstructions(out, client)
	out = append(append(out, `,"_meta":{"io.modelcontextprotocol/serverInfo":`...), s.srv.info()...)
	return append(out, `}}`...)
}

// info is what the proxy says of itself.
func (s *Server) info() []byte {
	version := s.policy.Load().Version
	return append(jsonrpc.AppendString([]byte(`{"name":"mcpschedd","version":`), version), '}')
}

// appendInstructions adds what the known upstreams say to the model; client is what
// the client says of itself.
func (s *session) appendInstructions(out, client []byte) []byte {
	leases := s.leases.current()
	var all []instruction
	for _, l := range leases {
		if offer := l.Offer(); offer != nil && offer.Instructions != "" {
			all = append(all, instruction{l.Name(), offer.Instructions})
		}
	}
	if len(all) == 0 {
		return out
	}
	return jsonrpc.AppendString(append(out, `,"instructions":`...), joinInstructions(all, len(leases) > 1, allowance(client)))
}

// honoured are the capabilities that can be honoured empty: lists without items,
// completion without values, a log without messages.
const honoured = `{"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`

// capabilities joins what the upstreams can do. A client asks once and does not ask
// for what is not declared, but a server may come later, or have more than it last
// had: so all that can be honoured empty is declared, unless only one known server
// is seen.
func (s *session) capabilities() []byte {
	out := []byte(`{"tools":{"listChanged":true}}`)
	if s.tellsOfItself() {
		out = jsonrpc.Set([]byte(honoured), "tools", []byte(`{"listChanged":true}`))
	}
	for _, l := range s.leases.current() {
		offer := l.Offer()
		if offer == nil {
			offer = &upstream.Offer{Capabilities: []byte(honoured)}
		}
		for m := range jsonrpc.Members(offer.Capabilities) {
			out = jsonrpc.Set(out, string(m.Name), merged(jsonrpc.Get(out, string(m.Name)), m.Value))
		}
	}
	for _, name := range []string{"prompts", "resources"} {
		if have := jsonrpc.Get(out, name); have != nil {
			out = jsonrpc.Set(out, name, jsonrpc.Set(have, "listChanged", []byte("true")))
		}
	}
	return jsonrpc.Set(out, "tools", []byte(`{"listChanged":true}`))
}

// merged joins two values of one capability: objects member by member, true
// over false, else the first.
func merged(a, b []byte) []byte {
	switch {
	case a == nil || string(a) == "false":
		return b
	case b == nil || a[0] != '{' || b[0] != '{':
		return a
	}
	for m := range jsonrpc.Members(b) {
		a = jsonrpc.Set(a, string(m.Name), merged(jsonrpc.Get(a, string(m.Name)), m.Value))
	}
	return a
}
