package proxy

import (
	"log/slog"
	"slices"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// relay passes on a notification of an upstream that its transport ties to no request.
func (s *session) relay(l *leased, method string, params []byte) {
	handshake := s.client.facts().handshake()
	switch method {
	case "notifications/tasks/status", "notifications/tasks":
		s.tasks.noteStatus(l, jsonrpc.Get(params, "taskId"), jsonrpc.Get(params, "status"))
	case "notifications/message":
		switch {
		case len(l.early.tools()) > 0 && !s.asking(l): // of a prefetch, which has no client
			return
		case handshake && !l.Admits("", params):
			return
		case handshake: // sent below
		default: // a stateless client gets logs with the request that asked for them
			if x := s.requests.only(l); x != nil {
				x.forward(l, method, params)
			}
			return
		}
	case "notifications/resources/updated":
		uri, _ := jsonrpc.String(jsonrpc.Get(params, "uri"))
		covers := func(wanted string) bool { return upstream.Covers(wanted, uri) }
		if s.subscriptions.publish(method, params, func(l *listening) bool { return slices.ContainsFunc(l.uris, covers) }) {
			return
		}
	}
	s.notify(method, params)
}

// notify sends a notification that belongs to no request to a client of the handshake
// era, if that takes some by now.
func (s *session) notify(method string, params []byte) {
	if s.identity.Out != nil && s.client.facts().handshake() && s.questions.isReady() {
		sendNotification(s.srv.log, s.identity.Out, method, params)
	}
}

// sendNotification sends a notification. One that is not delivered is lost.
func sendNotification(log *slog.Logger, to front.Outlet, method string, params []byte) {
	if err := to.Send(jsonrpc.AppendNotification(nil, method, params)); err != nil {
		log.Debug("notification not delivered", "method", method, "err", err)
	}
}
