package proxy

import (
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

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

// capabilities joins what the upstreams and the proxy can do.
func (s *session) capabilities() []byte {
	own := []byte(nil)
	if s.offersOwn() {
		own = emptyCapabilities
	}
	return joinCapabilities(own, offersOf(s.leases.current()))
}

// emptyCapabilities are those that can be honoured by a server that has nothing: lists
// without items, completion without values, a log without messages.
var emptyCapabilities = []byte(`{"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`)

// joinCapabilities adds what the upstreams can do to what the proxy can. A client asks
// once and does not ask for what is not declared, but a server may come later, or have
// more than it last had: so one that is not known yet counts as having all that can be
// honoured empty.
func joinCapabilities(own []byte, offers []offered) []byte {
	out := own
	for _, o := range offers {
		its := emptyCapabilities
		if o.offer != nil {
			its = o.offer.Capabilities
		}
		for m := range jsonrpc.Members(its) {
			name := string(m.Name)
			out = jsonrpc.Set(out, name, joinValues(jsonrpc.Get(out, name), m.Value))
		}
	}
	for _, name := range []string{"prompts", "resources"} {
		if have := jsonrpc.Get(out, name); have != nil {
			out = jsonrpc.Set(out, name, jsonrpc.Set(have, "listChanged", []byte("true")))
		}
	}
	return jsonrpc.Set(out, "tools", []byte(`{"listChanged":true}`))
}

// joinValues joins two values of one capability: objects member by member, true
// over false, else the first.
func joinValues(a, b []byte) []byte {
	switch {
	case a == nil || string(a) == "false":
		return b
	case b == nil || a[0] != '{' || b[0] != '{':
		return a
	}
	for m := range jsonrpc.Members(b) {
		name := string(m.Name)
		a = jsonrpc.Set(a, name, joinValues(jsonrpc.Get(a, name), m.Value))
	}
	return a
}
