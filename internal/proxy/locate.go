package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// locate finds the upstream of a request that is routed by something else than a
// tool's or prompt's name, or those of which one may know what it asks for.
func (x *request) locate() *jsonrpc.Error {
	offers := offersOf(x.s.leases.current())
	var found []*leased
	var target []byte // as the upstream knows it, where that differs
	var err *jsonrpc.Error
	switch x.msg.Method {
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		var uri string
		if uri, err = routing(&x.msg.Index, "uri"); err != nil {
			break
		}
		if _, own := x.s.identity.view.ownResource(uri); own {
			x.local = func() { serveOwnResource(x, uri) }
			return nil
		}
		if x.msg.Method == "resources/unsubscribe" {
			found = watching(offers, uri)
		}
		if found == nil {
			found = holders(offers, uri)
		}
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		found, err = x.s.tasks.holders(x.msg.Method, x.msg.Index.Get("taskId"), offers)
	case "completion/complete":
		if found, target, err = completers(x.s, x.msg.Index.Get("ref"), offers); err == nil && len(found) == 0 { // it is declared whether or not any server can
			x.local = func() { x.finish([]byte(`{"completion":{"values":[]}}`)) }
			return nil
		}
	default:
		if found = x.s.leases.current(); len(found) != 1 {
			err = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method %q not found", x.msg.Method)}
		}
	}
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.msg.Method + ": no upstream offers this"}
	case len(found) == 1:
		x.bind(newCall(x, found[0], target))
	default:
		x.local = func() { serveEach(x, liveFirst(found), target) }
	}
	return nil
}

// completers returns the upstreams that may complete a reference, and the reference as
// its upstream knows it, nil if it is as written; none if no upstream can complete anything.
func completers(s *session, ref []byte, offers []offered) (found []*leased, renamed []byte, err *jsonrpc.Error) {
	completing := leasesOf(offers, func(o offered) bool { return o.offer != nil && o.offer.Has("completions") })
	if len(completing) == 0 {
		return nil, nil, nil
	}
	if name, ok := jsonrpc.String(jsonrpc.Get(ref, "name")); ok {
		t, l := s.named(s.srv.policy.Load(), upstream.Prompts, name)
		if l == nil {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("params.ref: unknown prompt %q", name)}
		}
		if t.name != name {
			renamed = jsonrpc.Set(ref, "name", jsonrpc.AppendString(nil, t.name))
		}
		found = []*leased{l}
	} else if uri, ok := jsonrpc.String(jsonrpc.Get(ref, "uri")); ok {
		found = leasesOf(offers, func(o offered) bool { return o.lists(upstream.Templates, uri) })
		if len(found) == 0 {
			found = holders(offers, uri)
		} else {
			found = found[:1]
		}
	} else {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.ref: want a prompt's name or a resource's uri"}
	}
	able := func(l *leased) bool {
		return slices.ContainsFunc(completing, func(c *leased) bool { return c.Lease == l.Lease })
	}
	return slices.DeleteFunc(found, func(l *leased) bool { return !able(l) }), renamed, nil
}

// serveEach answers a request that one of several upstreams may know the answer to. Only
// requests that change nothing are asked so.
func serveEach(x *request, candidates []*leased, target []byte) {
	ask := func(x *request, done func(outcome)) { askEach(x, candidates, target, outcome{}, done) }
	x.answer(waitFor(func(done func(outcome)) { x.serveCall(ask, done) }))
}

// askEach asks one upstream after the other until one knows what is asked for. best is
// what is answered if no further one does.
func askEach(x *request, candidates []*leased, target []byte, best outcome, done func(outcome)) {
	if len(candidates) == 0 {
		done(best)
		return
	}
	x.bind(newCall(x, candidates[0], target))
	x.ask(func(o outcome) {
		x.call.turn.Leave()
		if o.err == nil && o.answer.Error == nil || x.ctx.Err() != nil {
			done(o)
			return
		}
		if best.answer.Error == nil { // a server's own word tells more than another's absence
			best = o
		}
		askEach(x, candidates[1:], target, best, done)
	})
}

// liveFirst puts the upstreams that can be asked at once before those that must be
// waited for.
func liveFirst(leases []*leased) []*leased {
	live, others := []*leased{}, []*leased{}
	for _, l := range leases {
		if l.Live() {
			live = append(live, l)
		} else {
			others = append(others, l)
		}
	}
	return append(live, others...)
}

// named finds what a tool or prompt of that name stands for; nil: nothing that the
// session may use.
func (s *session) named(p *policy, l upstream.List, name string) (target, *leased) {
	t, ok := s.identity.view.resolve(p, l, name)
	if !ok {
		t, ok = offering(offersOf(s.leases.current()), l, name)
	}
	lease := s.leases.find(t.upstream)
	if !ok || lease == nil || l == upstream.Tools && !lease.member.allows(t.name) {
		return target{}, nil
	}
	return t, lease
}

// leasesOf are the leases on the upstreams whose offers fit.
func leasesOf(offers []offered, fits func(offered) bool) (leases []*leased) {
	for _, o := range offers {
		if fits(o) {
			leases = append(leases, o.lease)
		}
	}
	return leases
}

// offering is the first upstream that lists an item of that name.
func offering(offers []offered, l upstream.List, name string) (t target, ok bool) {
	for _, o := range offers {
		if o.lists(l, name) {
			return target{o.lease.member.Spec.Name, name}, true
		}
	}
	return target{}, false
}

// lists reports whether the upstream lists an item of that name.
func (o offered) lists(l upstream.List, name string) bool {
	if o.offer == nil {
		return false
	}
	_, ok := o.offer.Find(l, name)
	return ok
}

// holders returns the leases on upstreams that may hold a resource: on the one that lists
// it, else on the one that has a template it fits, else on all with resources, to be asked
// in turn.
func holders(offers []offered, uri string) []*leased {
	if len(offers) == 1 {
		return []*leased{offers[0].lease}
	}
	listing := leasesOf(offers, func(o offered) bool { return o.lists(upstream.Resources, uri) })
	if len(listing) > 0 {
		return listing[:1]
	}
	fitting := leasesOf(offers, func(o offered) bool {
		return slices.ContainsFunc(o.items(upstream.Templates), func(i upstream.Item) bool { return fitsTemplate(i.Name, uri) })
	})
	if len(fitting) > 0 {
		return fitting[:1]
	}
	return having(offers, "resources")
}

func fitsTemplate(template, uri string) bool {
	if before, _, found := strings.Cut(template, "{"); !found || !strings.HasPrefix(uri, before) {
		return template == uri
	}
	t, err := uritemplate.New(template)
	return err == nil && t.Match(uri) != nil
}

// watching returns the leases that are subscribed to a resource, nil if none is.
func watching(offers []offered, uri string) []*leased {
	return leasesOf(offers, func(o offered) bool { return slices.Contains(o.lease.Watches(), uri) })
}

// extension is the prefix of MCP's own extensions among the capabilities.
const extension = "io.modelcontextprotocol/"

// having returns the leases on servers that declared a capability, as part of
// the protocol or as an extension, or that are not known yet.
func having(offers []offered, capability string) []*leased {
	return leasesOf(offers, func(o offered) bool {
		return o.offer == nil || o.offer.Has(capability) || jsonrpc.Get(jsonrpc.Get(o.offer.Capabilities, "extensions"), extension+capability) != nil
	})
}

// routing reads the member that routes a request. One that is written twice, or once
// more in other letters, is refused: the server might read the other.
func routing(params *revision.Params, member string) (string, *jsonrpc.Error) {
	value, rival := params.Sole(member)
	text, ok := jsonrpc.String(value)
	switch {
	case rival != nil:
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params." + string(rival) + ": stands beside, or in place of, params." + member}
	case value == nil:
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params." + member + ": missing"}
	case !ok:
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params." + member + ": want a string"}
	}
	return text, nil
}
