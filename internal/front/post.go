package front

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// post serves POST to an MCP endpoint. A message is stateless if its _meta or the
// MCP-Protocol-Version header has a stateless revision.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, only string) {
	b, ok := h.bodies.read(w, r)
	if !ok {
		return
	}
	defer b.release()
	data := bytes.TrimSpace(b.data)
	if bytes.HasPrefix(data, []byte("[")) && jsonrpc.Valid(data) {
		h.batch(w, r, data, only)
		return
	}
	m, rpcErr := parse(data)
	if rpcErr != nil {
		refuse(w, http.StatusBadRequest, m.ID, rpcErr)
		return
	}
	jsonrpc.Flatten(data)
	version := r.Header.Get(headerVersion)
	switch {
	case version != "" && !revision.Supported(version):
		refuse(w, http.StatusBadRequest, m.ID, unsupported(version))
	case m.Stateless() || revision.Stateless(version):
		h.stateless(w, r, m, only)
	default:
		h.inSession(w, r, m, only)
	}
}

// inSession serves a message of the handshake era; initialize starts a session. A
// disconnect does not cancel the request: the call continues and its response is
// lost.
func (h *HTTP) inSession(w http.ResponseWriter, r *http.Request, m *Message, only string) {
	var s *httpSession
	if m.Method == "initialize" && m.IsRequest() {
		started, rpcErr := h.sessions.begin(streamable, only)
		if rpcErr != nil {
			refuse(w, http.StatusServiceUnavailable, m.ID, rpcErr)
			return
		}
		s = started
		w.Header().Set(headerSession, s.key.name)
	} else if s = h.enterSession(w, r, m.ID, only); s == nil {
		return
	}
	defer s.leave()
	if m.IsRequest() {
		s.serve(context.Background(), w, m)
		return
	}
	s.accept(context.Background(), m, nil)
	finish(w, http.StatusAccepted)
}

// enterSession returns the session that the request names, and enters it. If there
// is none, it refuses the request and returns nil.
func (h *HTTP) enterSession(w http.ResponseWriter, r *http.Request, id []byte, only string) *httpSession {
	name := r.Header.Get(headerSession)
	if name == "" {
		refuse(w, http.StatusBadRequest, id, refusal(headerSession+": missing; start a session with initialize"))
		return nil
	}
	s := h.sessions.find(streamable, name, only)
	if s == nil {
		refuse(w, http.StatusNotFound, id, noSession)
	}
	return s
}

// serve serves one request on the caller's goroutine.
func (s *httpSession) serve(ctx context.Context, w http.ResponseWriter, m *Message) {
	out := &response{w: w, log: s.log, id: m.ID, stateless: m.Stateless()}
	defer out.finish()
	if serve := s.accept(ctx, m, out); serve != nil {
		serve()
	}
}

// batch serves an array of messages. The responses are sent on one stream, each as
// soon as it is ready.
func (h *HTTP) batch(w http.ResponseWriter, r *http.Request, data []byte, only string) {
	jsonrpc.Flatten(data)
	s := h.enterSession(w, r, nil, only)
	if s == nil {
		return
	}
	defer s.leave()
	if !s.batches.Load() {
		refuse(w, http.StatusBadRequest, nil, refusal("want one message, an object; only "+revision.Batches+" has batches"))
		return
	}
	out := &response{w: w, log: s.log}
	defer out.finish()
	var serving sync.WaitGroup
	s.take(data, out, serving.Go)
	serving.Wait()
}
