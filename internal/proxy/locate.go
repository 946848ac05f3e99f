package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// locate finds the upstream of a request that is routed by something else than a
// tool's or prompt's name, or those of which one may know what it asks for.
func (x *request) locate() *jsonrpc.Error {
	candidates, err := x.candidates()
	if x.msg.Method == "completion/complete" {
		if candidates, err = x.completers(); err == nil && len(candidates) == 0 { // it is declared whether or not any server can
			x.local = func() { x.finish([]byte(`{"completion":{"values":[]}}`)) }
			return nil
		}
	}
	switch uri := x.ownURI(); {
	case err != nil:
		return err
	case candidates == nil && uri != "":
		x.local = func() { x.serveOwn(uri) }
	case len(candidates) == 0:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.msg.Method + ": no upstream offers this"}
	case len(candidates) > 1:
		slices.SortStableFunc(candidates, func(a, b *leased) int { return up(b) - up(a) })
		x.among = candidates
	default:
		x.bind(candidates[0])
	}
	return nil
}

// candidates returns the upstreams that may answer a request that is routed by a
// resource, by a task, or by nothing; nil without an error: none, or the proxy itself.
func (x *request) candidates() ([]*leased, *jsonrpc.Error) {
	switch x.msg.Method {
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		raw, err := routing(x.msg.Params, "uri")
		uri, ok := jsonrpc.String(raw)
		if err == nil && !ok {
			err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.uri: want a string"}
		}
		if err != nil || x.ownURI() != "" {
			return nil, err
		}
		if x.msg.Method == "resources/unsubscribe" {
			if watching := x.s.watching(uri); watching != nil {
				return watching, nil
			}
		}
		return x.s.holders(uri), nil
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		found := x.s.taskHolders(jsonrpc.Get(x.msg.Params, "taskId"))
		if changes := x.msg.Method == "tasks/cancel" || x.msg.Method == "tasks/update"; changes && len(found) > 1 {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.taskId: no task of this session"}
		}
		return found, nil
	}
	found := x.s.leases.current()
	if len(found) != 1 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method %q not found", x.msg.Method)}
	}
	return found, nil
}

// subscribes reports whether the request changes the session's subscriptions.
func (x *request) subscribes() bool {
	return x.msg.Method == "resources/subscribe" || x.msg.Method == "resources/unsubscribe"
}

// watched notes what a request changes about the session's subscriptions, which
// outlive the server's process, and reports whether the server need not be
// told.
func (x *request) watched() bool {
	uri, _ := jsonrpc.String(jsonrpc.Get(x.msg.Params, "uri"))
	switch x.msg.Method {
	case "resources/subscribe":
		x.lease.Subscribe(uri) // before it is sent: an update may precede the answer
		return x.lease.Stateless()
	case "resources/unsubscribe":
		return !x.lease.Unsubscribe(uri) || x.lease.Stateless()
	}
	return false
}

// subscription makes a request that changes the session's subscriptions. A stateless
// server knows no such request: it is told what to watch in another way.
func (x *request) subscription(req *upstream.Request, done func(outcome)) {
	empty := outcome{answer: upstream.Answer{Result: []byte("{}")}}
	if x.watched() {
		done(empty)
		return
	}
	x.fetch(x.ctx, x.turn, req, func(o outcome) {
		switch {
		case o.err == nil && o.answer.Stateless:
			o = empty
		case x.msg.Method == "resources/subscribe" && (o.err != nil || o.answer.Error != nil):
			uri, _ := jsonrpc.String(jsonrpc.Get(x.msg.Params, "uri"))
			x.lease.Unsubscribe(uri)
		}
		done(o)
	})
}

// askEach asks one upstream after the other, those that are up first, until one knows
// what is asked for. Only requests that change nothing are asked so. best is what is
// answered if no further one does.
func (x *request) askEach(candidates []*leased, best outcome, done func(outcome)) {
	if len(candidates) == 0 {
		done(best)
		return
	}
	x.bind(candidates[0])
	x.ask(func(o outcome) {
		x.turn.Leave()
		if o.err == nil && o.answer.Error == nil || x.ctx.Err() != nil {
			done(o)
			return
		}
		if best.answer.Error == nil { // a server's own word tells more than another's absence
			best = o
		}
		x.askEach(candidates[1:], best, done)
	})
}

func up(l *leased) int {
	if l.Live() {
		return 1
	}
	return 0
}

// offered looks a name up in what the upstreams offer.
func (s *session) offered(l upstream.List, name string) (target, bool) {
	for _, lease := range s.leases.current() {
		if offer := lease.Offer(); offer != nil {
			if _, ok := offer.Find(l, name); ok {
				return target{lease.Name(), name}, true
			}
		}
	}
	return target{}, false
}

// holders returns who may hold a resource: the one that lists it, else the one
// whose template it fits, else every upstream with resources, to be asked in
// turn.
func (s *session) holders(uri string) []*leased {
	leases := s.leases.current()
	if len(leases) == 1 {
		return leases
	}
	for _, fits := range []func(*upstream.Offer) bool{
		func(o *upstream.Offer) bool { _, ok := o.Find(upstream.Resources, uri); return ok },
		func(o *upstream.Offer) bool {
			return slices.ContainsFunc(o.Lists[upstream.Templates], func(i upstream.Item) bool { return fitsTemplate(i.Name, uri) })
		},
	} {
		for _, l := range leases {
			if offer := l.Offer(); offer != nil && fits(offer) {
				return []*leased{l}
			}
		}
	}
	return having(leases, "resources")
}

// watching returns the leases that are subscribed to a resource, nil if none is.
func (s *session) watching(uri string) []*leased {
	var out []*leased
	for _, l := range s.leases.current() {
		if slices.Contains(l.Watches(), uri) {
			out = append(out, l)
		}
	}
	return out
}

// extension is the prefix of MCP's own extensions among the capabilities.
const extension = "io.modelcontextprotocol/"

// having returns the leases on servers that declared a capability, as part of
// the protocol or as an extension, or that are not known yet.
func having(leases []*leased, capability string) []*leased {
	var out []*leased
	for _, l := range leases {
		if offer := l.Offer(); offer == nil || offer.Has(capability) || jsonrpc.Get(jsonrpc.Get(offer.Capabilities, "extensions"), extension+capability) != nil {
			out = append(out, l)
		}
	}
	return out
}

func fitsTemplate(template, uri string) bool {
	if before, _, found := strings.Cut(template, "{"); !found || !strings.HasPrefix(uri, before) {
		return template == uri
	}
	t, err := uritemplate.New(template)
	return err == nil && t.Match(uri) != nil
}

// completers returns the upstreams that may complete a reference, and renames the
// reference as its upstream knows it.
func (x *request) completers() ([]*leased, *jsonrpc.Error) {
	if len(completing(x.s.leases.current())) == 0 {
		return nil, nil
	}
	found, err := x.referenced()
	return completing(found), err
}

// referenced returns the upstreams that may have what a reference is to.
func (x *request) referenced() ([]*leased, *jsonrpc.Error) {
	ref := jsonrpc.Get(x.msg.Params, "ref")
	if name, ok := jsonrpc.String(jsonrpc.Get(ref, "name")); ok {
		t, known := x.s.identity.view.resolve(x.s.srv.policy.Load(), upstream.Prompts, name)
		if !known {
			t, known = x.s.offered(upstream.Prompts, name)
		}
		l := x.s.leases.find(t.upstream)
		if !known || l == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("params.ref: unknown prompt %q", name)}
		}
		if t.name != name {
			x.name = jsonrpc.Set(ref, "name", jsonrpc.AppendString(nil, t.name))
		}
		return []*leased{l}, nil
	}
	uri, ok := jsonrpc.String(jsonrpc.Get(ref, "uri"))
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.ref: want a prompt's name or a resource's uri"}
	}
	for _, l := range x.s.leases.current() {
		if offer := l.Offer(); offer != nil {
			if _, ok := offer.Find(upstream.Templates, uri); ok {
				return []*leased{l}, nil
			}
		}
	}
	return x.s.holders(uri), nil
}

// completing returns the leases on servers that are known to complete.
func completing(leases []*leased) []*leased {
	return slices.DeleteFunc(slices.Clone(leases), func(l *leased) bool {
		offer := l.Offer()
		return offer == nil || !offer.Has("completions")
	})
}

// taskHolders returns the leases on upstreams that may know a task: the one that runs it for
// this session, else all that have tasks.
func (s *session) taskHolders(rawID []byte) []*leased {
	id, _ := jsonrpc.String(rawID)
	leases := s.leases.current()
	if l := s.tasks.runner(leases, id); l != nil {
		return []*leased{l}
	}
	return having(leases, "tasks")
}

// listTasks joins the tasks of every upstream that has some.
func (x *request) listTasks() {
	out := []byte(`{"tasks":[`)
	for _, l := range having(x.s.leases.current(), "tasks") {
		if !l.Live() {
			continue // a server that is starting has no tasks yet
		}
		x.bind(l)
		o := waitFor(x.ask)
		x.turn.Leave()
		if o.err != nil || o.answer.Error != nil {
			continue
		}
		for task := range jsonrpc.Elements(jsonrpc.Get(o.answer.Result, "tasks")) {
			out = append(append(out, task...), ',')
		}
	}
	if out[len(out)-1] == ',' {
		out = out[:len(out)-1]
	}
	x.finish(append(out, "]}"...))
}

// equalFold compares ASCII letters without case, as some servers' JSON readers
// do.
func equalFold(name []byte, member string) bool {
	return len(name) == len(member) && strings.EqualFold(string(name), member)
}
