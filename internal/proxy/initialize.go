package proxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// serveInitialize serves initialize and server/discover with the joined capabilities and
// instructions of the servers and the proxy. It does not wait for servers that are starting:
// the client's requests for lists do.
func serveInitialize(x *request) outcome {
	s, leases := x.s, x.s.leases.current()
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
	var own []byte
	if s.view().own() {
		own = emptyCapabilities
	}
	capabilities := joinCapabilities(own, leases)
	if x.msg.Stateless() { // its revision has tasks as an extension, which a server declares as such
		capabilities = jsonrpc.Delete(capabilities, func(name []byte) bool { return string(name) == "tasks" })
	}
	set("capabilities", capabilities)
	if text := instructionsFor(s, leases, x.client.Info); text != "" {
		set("instructions", jsonrpc.AppendString(nil, text))
	}
	return ownOutcome(out)
}

// emptyCapabilities holds the capabilities that a server without any items can honour: empty
// lists, completion without values, a log without messages.
var emptyCapabilities = []byte(`{"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`)

// joinCapabilities adds the servers' capabilities to the proxy's own. A client reads them once and
// never uses an undeclared capability, so a server without a known offer counts as having all
// emptyCapabilities.
func joinCapabilities(own []byte, leases []*sessionLease) []byte {
	out := own
	for _, l := range leases {
		capabilities := emptyCapabilities
		if offer := l.Offer(); offer != nil {
			capabilities = offer.Capabilities
		}
		for m := range jsonrpc.Members(capabilities) {
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

// joinValues joins two values of one capability: objects member by member, else the first
// unless it is absent or false.
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

// instructionsFor returns the instructions of the proxy and of all servers with a known offer,
// each under its server's name if there are several, for the client with the given clientInfo.
// If the client would cut off some, each has at most its fair share of what it keeps.
func instructionsFor(s *session, leases []*sessionLease, info []byte) string {
	type section struct{ head, text string }
	sections := []*section{{"# mcpschedd\n", problems(s.srv, leases)}} // first, as clients cut off the end
	for _, l := range leases {
		if offer := l.Offer(); offer != nil {
			sections = append(sections, &section{"# " + l.Name() + "\n", offer.Instructions})
		}
	}
	isEmpty := func(part *section) bool { return part.text == "" }
	sections = slices.DeleteFunc(sections, isEmpty)
	if len(leases) <= 1 && len(sections) == 1 {
		sections[0].head = ""
	}
	const gap = "\n\n"
	if left := maxInstructions[jsonrpc.Text(info, "name")]; left > 0 { // max-min fairness: what a short one leaves is for the longer ones
		shortest := slices.Clone(sections)
		slices.SortStableFunc(shortest, func(a, b *section) int { return cmp.Compare(len(a.text), len(b.text)) })
		for n, part := range shortest {
			share := left / (len(shortest) - n)
			part.text = excerpt.Shorten(part.text, share-len(part.head)-len(gap))
			if part.text != "" {
				left -= len(part.head) + len(part.text) + len(gap)
			}
		}
	}
	var parts []string
	for _, part := range slices.DeleteFunc(sections, isEmpty) {
		parts = append(parts, part.head+part.text)
	}
	return strings.Join(parts, gap)
}

// maxInstructions is the number of bytes of instructions that a client passes to its model,
// by the name in clientInfo. Such clients silently cut off the rest.
var maxInstructions = map[string]int{
	"claude-code": 4096, // 2.1.328
}

// problems reports the configuration's errors and unavailable servers to the model, so that it
// can tell its user. It returns "" if there are none.
func problems(s *Server, leases []*sessionLease) string {
	var lines []string
	if text := s.rejection(); text != "" {
		effect := "what they affect is off or as before"
		if p := s.policy.Load(); len(p.members)+p.OtherUpstreams == 0 {
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
func unavailableReason(l *sessionLease) string {
	err := cmp.Or(l.member.Spec.Unusable, l.Problem())
	if unavailable, ok := errors.AsType[*upstream.Unavailable](err); ok {
		err = unavailable.Cause
	}
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return excerpt.Shorten(text, 200) // reasons of this program are shorter
}
