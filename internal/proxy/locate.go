package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// locate finds the upstream of a request that is routed by something else
// than a tool's or prompt's name. It answers the request itself, and reports
// false, where there is none.
func (x *request) locate() bool {
	var candidates []*leased
	var err *jsonrpc.Error
	if x.msg.Method == "completion/complete" {
		if len(completing(x.s.leases.current())) > 0 {
			if candidates = x.referenced(); candidates == nil {
				return false
			}
		}
		if candidates = completing(candidates); len(candidates) == 0 { // it is declared whether or not any server can
			x.finish([]byte(`{"completion":{"values":[]}}`))
			return false
		}
	} else if candidates, err = x.candidates(); err != nil {
		x.fail(err)
		return false
	}
	switch {
	case candidates == nil && x.ownURI() != "":
		x.serveOwn(x.ownURI())
		return false
	case len(candidates) == 0:
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.msg.Method + ": no upstream offers this"})
		return false
	case len(candidates) > 1:
		x.askEach(candidates)
		return false
	}
	x.bind(candidates[0])
	return true
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

// evident returns the upstream that a request is for where only one can be, nil
// where that takes asking, or there is something to say against the request.
func (x *request) evident() *leased {
	if found, err := x.candidates(); err == nil && len(found) == 1 {
		return found[0]
	}
	return nil
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

// watching settles a subscription by the server's answer: a stateless one knows
// no such request, and was told with the listen request.
func (x *request) watching(answer upstream.Answer, err error) (upstream.Answer, error) {
	switch {
	case !x.subscribes():
	case err == nil && answer.Stateless:
		answer = upstream.Answer{Result: []byte("{}")}
	case x.msg.Method == "resources/subscribe" && (err != nil || answer.Error != nil):
		uri, _ := jsonrpc.String(jsonrpc.Get(x.msg.Params, "uri"))
		x.lease.Unsubscribe(uri)
	}
	return answer, err
}

// askEach asks one upstream after the other, those that are up first, until
// one knows what is asked for. Only requests that change nothing are asked so.
func (x *request) askEach(candidates []*leased) {
	slices.SortStableFunc(candidates, func(a, b *leased) int { return up(b) - up(a) })
	var said upstream.Answer
	var failed error
	for _, l := range candidates {
		x.bind(l)
		answer, err := x.ask()
		x.turn.Leave()
		switch {
		case err == nil && answer.Error == nil || x.ctx.Err() != nil:
			x.answer(answer, err)
			return
		case err == nil && said.Error == nil:
			said = answer
		case err != nil:
			failed = err
		}
	}
	if said.Error != nil {
		failed = nil // a server's own word tells more than another's absence
	}
	x.answer(said, failed)
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

// referenced returns who may complete a reference, and renames the reference
// as its upstream knows it. nil: the request has been answered.
func (x *request) referenced() []*leased {
	ref := jsonrpc.Get(x.msg.Params, "ref")
	if name, ok := jsonrpc.String(jsonrpc.Get(ref, "name")); ok {
		t, known := x.s.identity.view.resolve(x.s.srv.policy.Load(), upstream.Prompts, name)
		if !known {
			t, known = x.s.offered(upstream.Prompts, name)
		}
		l := x.s.leases.find(t.upstream)
		if !known || l == nil {
			x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("params.ref: unknown prompt %q", name)})
			return nil
		}
		if t.name != name {
			x.name = jsonrpc.Set(ref, "name", jsonrpc.AppendString(nil, t.name))
		}
		return []*leased{l}
	}
	uri, ok := jsonrpc.String(jsonrpc.Get(ref, "uri"))
	if !ok {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.ref: want a prompt's name or a resource's uri"})
		return nil
	}
	for _, l := range x.s.leases.current() {
		if offer := l.Offer(); offer != nil {
			if _, ok := offer.Find(upstream.Templates, uri); ok {
				return []*leased{l}
			}
		}
	}
	return x.s.holders(uri)
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
		answer, err := x.ask()
		x.turn.Leave()
		if err != nil || answer.Error != nil {
			continue
		}
		for task := range jsonrpc.Elements(jsonrpc.Get(answer.Result, "tasks")) {
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
