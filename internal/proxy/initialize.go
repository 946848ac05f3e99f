package proxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// serveInitialize serves initialize and server/discover with the joined capabilities and
// instructions of the servers and the proxy. It does not wait for servers that are starting:
// the client's requests for lists do.
func serveInitialize(x *request) outcome {
	s, leases := x.s, *x.s.leases.load()
	var out []byte
	set := func(member string, value []byte) { out = jsonrpc.Set(out, member, value) }
	info := append(jsonrpc.AppendString([]byte(`{"name":"mcpschedd","version":`), s.srv.policy.Load().Version), '}')
	if x.msg.Method == "initialize" {
		set("protocolVersion", jsonrpc.AppendString(nil, s.client.load().Version))
		set("serverInfo", info)
	} else {
		set("resultType", []byte(`"complete"`))
		versions, _ := json.Marshal(revision.SupportedVersions()) // strings always marshal
		set("supportedVersions", versions)
		set("_meta", jsonrpc.Set(nil, "io.modelcontextprotocol/serverInfo", info))
	}
	capabilities := x.view.Capabilities()
	if x.msg.Stateless() { // its revision has tasks as an extension, which a server declares as such
		capabilities = jsonrpc.Delete(capabilities, func(name []byte) bool { return string(name) == "tasks" })
	}
	set("capabilities", capabilities)
	if text := leases.Instructions(problems(s.srv, leases), x.client.Info); text != "" {
		set("instructions", jsonrpc.AppendString(nil, text))
	}
	return ownOutcome(out)
}

// problems reports the configuration's errors and unavailable servers to the model, so that it
// can tell its user. It returns "" if there are none.
func problems(s *Server, leases catalog.Leases) string {
	var lines []string
	if text := s.rejection(); text != "" {
		effect := "what they affect is off or as before"
		if p := s.policy.Load(); len(p.Members)+p.OtherUpstreams == 0 {
			effect = "no server runs"
		}
		lines = append(lines, "The configuration has mistakes, and until they are mended "+effect+":\n"+text)
	}
	for _, l := range leases {
		if reason := unavailableReason(l); reason != "" {
			lines = append(lines, "Not available now: "+l.Name()+" ("+reason+").")
		}
	}
	if lines == nil {
		return ""
	}
	return strings.Join(lines, "\n") + "\nTell the user if it concerns the task."
}

// unavailableReason returns on one line why a server is unavailable, or "" if it is running or
// starting normally.
func unavailableReason(l *catalog.Lease) string {
	err := cmp.Or(l.Member.Spec.Unusable, l.Problem())
	if unavailable, ok := errors.AsType[*upstream.Unavailable](err); ok {
		err = unavailable.Cause
	}
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return excerpt.Shorten(text, 200) // reasons of this program are shorter
}
