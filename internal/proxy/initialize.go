package proxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

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
		set("protocolVersion", jsonrpc.AppendString(nil, s.client.facts().negotiated))
		set("serverInfo", info)
	} else {
		set("resultType", []byte(`"complete"`))
		versions, _ := json.Marshal(revision.SupportedVersions()) // strings always marshal
		set("supportedVersions", versions)
		set("_meta", jsonrpc.Set(nil, "io.modelcontextprotocol/serverInfo", info))
	}
	var own []byte
	if s.identity.view.offersOwn() {
		own = emptyCapabilities
	}
	set("capabilities", joinCapabilities(own, leases))
	if text := instructionsFor(s, leases, x.hop.Info); text != "" {
		set("instructions", jsonrpc.AppendString(nil, text))
	}
	return ownOutcome(out)
}

// emptyCapabilities holds the capabilities that a server without any items can honour: empty
// lists, completion without values, a log without messages.
var emptyCapabilities = []byte(`{"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`)

// joinCapabilities adds the servers' capabilities to the proxy's own. A client reads them once
// and never uses an undeclared capability, so a server whose offer is not known yet counts as
// having all emptyCapabilities.
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

// instruction holds the instructions to the model of one server or of the proxy.
type instruction struct{ from, text string }

// instructionsFor returns the instructions of the proxy and of all servers with a known offer,
// joined for the client with the given clientInfo.
func instructionsFor(s *session, leases []*sessionLease, info []byte) string {
	all := problems(s.srv, leases)
	withHeads := len(all)+len(leases) > 1
	for _, l := range leases {
		if offer := l.Offer(); offer != nil && offer.Instructions != "" {
			all = append(all, instruction{l.Name(), offer.Instructions})
		}
	}
	name, _ := jsonrpc.String(jsonrpc.Get(info, "name"))
	return joinInstructions(all, withHeads, maxInstructions[name])
}

// problems returns instructions that report the configuration's errors and unavailable servers
// to the model, so that it can tell its user. They come first, since clients cut off the end.
func problems(s *Server, leases []*sessionLease) []instruction {
	var lines []string
	if err := s.rejected.Load(); err != nil && *err != nil {
		lines = append(lines, "The configuration has mistakes, and the blocks with them are off:\n"+summary(*err))
	}
	var unavailable []string
	for _, l := range leases {
		if reason := unavailableReason(l); reason != "" {
			unavailable = append(unavailable, l.Name()+" ("+reason+")")
		}
	}
	if len(unavailable) > 0 {
		lines = append(lines, "Not available now: "+strings.Join(unavailable, ", ")+".")
	}
	if len(lines) == 0 {
		return nil
	}
	return []instruction{{"mcpschedd", strings.Join(lines, "\n") + "\nTell the user if it concerns the task."}}
}

// summary returns an error's text in a few lines.
func summary(err error) string {
	if short, ok := errors.AsType[interface {
		error
		Summary() string
	}](err); ok {
		return short.Summary()
	}
	return err.Error()
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
	return shortened(text, maxReason)
}

// maxReason limits a reason, in characters. Reasons of this program are shorter.
const maxReason = 200

// maxInstructions is the number of characters of instructions that a client passes to its
// model, by the name in clientInfo. Such clients silently cut off the rest.
var maxInstructions = map[string]int{
	"claude-code": 4096, // 2.1.328
}

// joinInstructions joins the texts, each under its server's name if withHeads is set. If they
// exceed limit, it is divided evenly, and the shares that short texts do not use go to the
// long ones. A limit of zero means none.
func joinInstructions(all []instruction, withHeads bool, limit int) string {
	const paragraph = "\n\n"
	heads, sizes := make([]string, len(all)), make([]int, len(all))
	for i, in := range all {
		if withHeads {
			heads[i] = "# " + in.from + "\n"
		}
		sizes[i] = length(heads[i]) + length(in.text) + len(paragraph)
	}
	share := fairShare(sizes, limit+len(paragraph))
	var parts []string
	for i, in := range all {
		text := in.text
		if limit > 0 && sizes[i] > share {
			text = shortened(text, share-length(heads[i])-len(paragraph))
		}
		if text != "" {
			parts = append(parts, heads[i]+text)
		}
	}
	return strings.Join(parts, paragraph)
}

// fairShare returns the max-min fair share of total: the limit for each of wants with which
// all together use at most total.
func fairShare(wants []int, total int) (share int) {
	for i, want := range slices.Sorted(slices.Values(wants)) {
		if share = total / (len(wants) - i); want > share {
			break
		}
		total -= want
	}
	return share
}

// length returns the number of UTF-16 code units of a text: most clients are written in
// JavaScript, which counts these.
func length(text string) int { return len(utf16.Encode([]rune(text))) }

// ellipsis marks the end of a shortened text.
const ellipsis = " […]"

// shortened returns text cut to limit characters after a whole sentence, or after a whole word
// if the first sentence does not fit. It returns "" if not even a word fits.
func shortened(text string, limit int) string {
	if length(text) <= limit {
		return text
	}
	limit -= length(ellipsis)
	for i, r := range text {
		if limit -= utf16.RuneLen(r); limit < 0 {
			text = text[:i]
			break
		}
	}
	end := strings.LastIndexFunc(text, func(r rune) bool { return strings.ContainsRune(".!?:;\n。！？", r) })
	if end < 0 {
		end = strings.LastIndexFunc(text, unicode.IsSpace)
	}
	if end < 0 {
		return ""
	}
	_, size := utf8.DecodeRuneInString(text[end:])
	return strings.TrimSpace(text[:end+size]) + ellipsis
}
