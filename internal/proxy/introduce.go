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
		versions, _ := json.Marshal(revision.SupportedVersions()) // strings always marshal
		say("supportedVersions", versions)
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

// instruction is what one upstream, or the proxy, says to the model.
type instruction struct{ by, text string }

// instructionsFor are those of the proxy and of the upstreams that are known, as a client
// is to see them; info is its clientInfo.
func instructionsFor(s *session, leases []*leased, info []byte) string {
	all := troubles(s.srv, leases)
	headed := len(all)+len(leases) > 1
	for _, l := range leases {
		if offer := l.Offer(); offer != nil && offer.Instructions != "" {
			all = append(all, instruction{l.Name(), offer.Instructions})
		}
	}
	name, _ := jsonrpc.String(jsonrpc.Get(info, "name"))
	return joinInstructions(all, headed, allowances[name])
}

// troubles is what the model is told of what does not work, so that it can tell its user: what
// is wrong with the configuration, and which upstreams cannot be asked. It comes first, for
// what is beyond an allowance is cut off.
func troubles(s *Server, leases []*leased) []instruction {
	var lines []string
	if err := s.figures.rejected.Load(); err != nil {
		lines = append(lines, "The configuration has mistakes, and what they concern is off:\n"+summary(*err))
	}
	var away []string
	for _, l := range leases {
		if why := whyAway(l); why != "" {
			away = append(away, l.Name()+" ("+why+")")
		}
	}
	if len(away) > 0 {
		lines = append(lines, "Not available now: "+strings.Join(away, ", ")+".")
	}
	if len(lines) == 0 {
		return nil
	}
	return []instruction{{"mcpschedd", strings.Join(lines, "\n") + "\nTell the user if it concerns the task."}}
}

// summary is an error in a few lines.
func summary(err error) string {
	if short, ok := errors.AsType[interface {
		error
		Summary() string
	}](err); ok {
		return short.Summary()
	}
	return err.Error()
}

// whyAway is why an upstream cannot be asked, on one line; "" if it can or is starting as it should.
func whyAway(l *leased) string {
	err := cmp.Or(l.Problem(), l.member.Spec.Unusable, l.Garbled())
	if away, ok := errors.AsType[*upstream.Unavailable](err); ok {
		err = away.Cause
	}
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return shortened(text, longReason)
}

// longReason (characters) is more than the reasons of this program need.
const longReason = 200

// allowances are how many characters of a server's instructions a client shows to
// its model, by the client's name, where that is known; what is beyond is cut off without
// a word.
var allowances = map[string]int{
	"claude-code": 4096, // 2.1.328
}

// joinInstructions joins the texts, each under its upstream's name if headed. Where
// they exceed the allowance they share it evenly, and what the short ones leave goes
// to the long ones.
func joinInstructions(all []instruction, headed bool, allowance int) string {
	const between = "\n\n"
	heads, sizes := make([]string, len(all)), make([]int, len(all))
	for i, in := range all {
		if headed {
			heads[i] = "# " + in.by + "\n"
		}
		sizes[i] = length(heads[i]) + length(in.text) + len(between)
	}
	share := fairShare(sizes, allowance+len(between))
	var parts []string
	for i, in := range all {
		text := in.text
		if allowance > 0 && sizes[i] > share {
			text = shortened(text, share-length(heads[i])-len(between))
		}
		if text != "" {
			parts = append(parts, heads[i]+text)
		}
	}
	return strings.Join(parts, between)
}

// fairShare is the most that each may get of total if all get the same, or what they
// want if that is less.
func fairShare(wants []int, total int) (share int) {
	for i, want := range slices.Sorted(slices.Values(wants)) {
		if share = total / (len(wants) - i); want > share {
			break
		}
		total -= want
	}
	return share
}

// length is how many characters a text has as JavaScript counts them, which most
// clients are written in.
func length(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// left stands where a text was shortened.
const left = " […]"

// shortened is a text, or as much of it as fits into so many characters: whole sentences,
// or whole words where the first sentence does not fit. It is "" if not even a word
// does.
func shortened(text string, most int) string {
	if length(text) <= most {
		return text
	}
	most -= length(left)
	for i, r := range text {
		if most -= utf16.RuneLen(r); most < 0 {
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
	return strings.TrimSpace(text[:end+size]) + left
}
