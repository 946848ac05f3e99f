package proxy

import (
	"bytes"
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// introduce answers a client's first request, initialize or server/discover, with what the
// upstreams and the proxy say of themselves. It waits for none: servers that are not known
// yet are waited for with the lists.
func introduce(x *request) {
	s, leases := x.s, x.s.leases.current()
	var out []byte
	say := func(member string, value []byte) { out = jsonrpc.Set(out, member, value) }
	info := append(jsonrpc.AppendString([]byte(`{"name":"mcpschedd","version":`), s.srv.policy.Load().Version), '}')
	if x.msg.Method == "initialize" {
		say("protocolVersion", jsonrpc.AppendString(nil, s.client.facts().negotiated))
		say("serverInfo", info)
	} else {
		say("resultType", []byte(`"complete"`))
		say("supportedVersions", supportedVersions())
		say("_meta", jsonrpc.Set(nil, "io.modelcontextprotocol/serverInfo", info))
	}
	var own []byte
	if s.identity.view.offersOwn() {
		own = emptyCapabilities
	}
	say("capabilities", joinCapabilities(own, leases))
	if text := instructionsFor(s, leases, x.hop.Info); text != "" {
		say("instructions", jsonrpc.AppendString(nil, text))
	}
	x.finish(out)
}

func supportedVersions() []byte {
	var quoted [][]byte
	for _, v := range revision.SupportedVersions() {
		quoted = append(quoted, jsonrpc.AppendString(nil, v))
	}
	return slices.Concat([]byte("["), bytes.Join(quoted, []byte(",")), []byte("]"))
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
