package upstream

import (
	"context"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// notify passes on what the server says on no stream of a request that wants it.
func (in *instance) notify(c *conn, p *pending, method string, params []byte) {
	if strings.HasSuffix(method, "/list_changed") {
		for l := range Lists {
			if l.Changed() == method {
				in.refresh(l)
			}
		}
		return
	}
	if method == "notifications/resources/updated" {
		for _, l := range in.watchers(text(jsonrpc.Get(params, "uri"))) {
			l.hear(method, params)
		}
		return
	}
	if l := in.attribute(c, p); l != nil {
		l.hear(method, params)
	} else {
		in.up.counts.dropped.Add(1)
	}
}

func (l *Lease) hear(method string, params []byte) {
	if l.listener.Notify != nil {
		l.listener.Notify(method, stripped(params))
	}
}

// watchers returns the leases that subscribed to a resource.
func (in *instance) watchers(uri string) (to []*Lease) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, l := range in.leases {
		if covers(l.uris, uri) {
			to = append(to, l)
		}
	}
	return to
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

// asker returns what passes a question of the server to the one session that can
// be meant. That is found out on the reader: what comes after the question, such
// as the answer to the request that it is about, must not change it.
func (in *instance) asker(c *conn, p *pending, method string) askFunc {
	var ask askFunc
	if l := in.attribute(c, p); l != nil && l.listener.Ask != nil {
		ask = l.listener.Ask(method)
	}
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		in.up.asked(in.id, method)
		if ask == nil {
			in.up.counts.refused.Add(1)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": this server is shared by several sessions, and which of them is meant cannot be told"}
		}
		return ask(ctx, method, params)
	}
}
