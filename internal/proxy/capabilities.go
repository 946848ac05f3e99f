package proxy

import (
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// introduction is what the proxy says of itself when a client first asks. It is answered at
// once: servers that are not known yet are waited for with the lists.
type introduction struct {
	info         []byte
	capabilities []byte
	instructions string // for the model; "": none
}

// introduce joins what the upstreams and the proxy say of themselves; client is what
// the client does.
func introduce(s *session, client []byte) introduction {
	leases := s.leases.current()
	own := []byte(nil)
	if s.identity.view.offersOwn() {
		own = emptyCapabilities
	}
	wrong := troubles(s.srv, leases)
	version := s.srv.policy.Load().Version
	return introduction{
		info:         append(jsonrpc.AppendString([]byte(`{"name":"mcpschedd","version":`), version), '}'),
		capabilities: joinCapabilities(own, leases),
		instructions: joinInstructions(append(wrong, instructionsOf(leases)...), len(leases)+len(wrong) > 1, allowance(client)),
	}
}

// initializeResult answers a client of the handshake era.
func (i introduction) initializeResult(version string) []byte {
	out := jsonrpc.Set(nil, "protocolVersion", jsonrpc.AppendString(nil, version))
	out = jsonrpc.Set(out, "capabilities", i.capabilities)
	out = jsonrpc.Set(out, "serverInfo", i.info)
	return i.addInstructions(out)
}

// discoverResult answers a stateless client.
func (i introduction) discoverResult() []byte {
	versions := []byte("[")
	for n, v := range revision.SupportedVersions() {
		if n > 0 {
			versions = append(versions, ',')
		}
		versions = jsonrpc.AppendString(versions, v)
	}
	out := []byte(`{"resultType":"complete"}`)
	out = jsonrpc.Set(out, "supportedVersions", append(versions, ']'))
	out = jsonrpc.Set(out, "capabilities", i.capabilities)
	out = jsonrpc.Set(out, "_meta", jsonrpc.Set(nil, "io.modelcontextprotocol/serverInfo", i.info))
	return i.addInstructions(out)
}

func (i introduction) addInstructions(out []byte) []byte {
	if i.instructions == "" {
		return out
	}
	return jsonrpc.Set(out, "instructions", jsonrpc.AppendString(nil, i.instructions))
}

// emptyCapabilities are those that can be honoured by a server that has nothing: lists
// without items, completion without values, a log without messages.
var emptyCapabilities = []byte(`{"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`)

// joinCapabilities adds what the upstreams can do to what the proxy can. A client asks
// once and does not ask for what is not declared, but a server may come later, or have
// more than it last had: so one that is not known yet counts as having all that can be
// honoured empty.
func joinCapabilities(own []byte, leases []*leased) []byte {
	out := own
	for _, l := range leases {
		its := emptyCapabilities
		if offer := l.Offer(); offer != nil {
			its = offer.Capabilities
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
