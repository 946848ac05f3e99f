package upstream

import (
	"context"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// notify passes on what the server says to nobody in particular.
func (in *instance) notify(method string, params []byte) {
	if strings.HasSuffix(method, "/list_changed") {
		for l := range Lists {
			if l.Changed() == method {
				in.refresh(l)
			}
		}
		return
	}
	in.mu.Lock()
	leases := in.leases
	var to []*Lease
	switch {
	case method == "notifications/resources/updated":
		uri := text(jsonrpc.Get(params, "uri"))
		for _, l := range leases {
			if covers(l.uris, uri) {
				to = append(to, l)
			}
		}
	case len(leases) == 1: // with more, it would reach a session it is not for
		to = leases
	}
	in.mu.Unlock()
	for _, l := range to {
		if l.listener.Notify != nil {
			l.listener.Notify(method, stripped(params))
		}
	}
}

// covers reports whether uri, or a resource it is part of, is subscribed to.
func covers(uris map[string]bool, uri string) bool {
	if uris[uri] {
		return true
	}
	for u := range uris {
		if Covers(u, uri) {
			return true
		}
	}
	return false
}

// Covers reports whether an update of uri is one for who subscribed to
// another: the same, or one above it.
func Covers(subscribed, uri string) bool {
	return subscribed == uri || strings.HasPrefix(uri, strings.TrimSuffix(subscribed, "/")+"/")
}

// ask passes a question of the server to the one session that can be meant.
func (in *instance) ask(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
	in.up.asked(in.id, method)
	in.mu.Lock()
	leases := in.leases
	in.mu.Unlock()
	if len(leases) != 1 || leases[0].listener.Ask == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": this server is shared by several sessions, none of which can be asked"}
	}
	return leases[0].listener.Ask(ctx, method, params)
}
