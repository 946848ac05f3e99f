package front

import (
	"bytes"
	"net/http"

	"mcpschedd/internal/jsonrpc"
)

// openSSE serves GET /sse, the transport of 2024-11-05: the session lasts as
// long as this stream, which carries every message to the client.
func (h *HTTP) openSSE(w http.ResponseWriter, r *http.Request) {
	if !accepts(r.Header, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, nil, notAcceptable)
		return
	}
	s, bad := h.begin(legacySSE, "")
	if bad != nil {
		refuse(w, http.StatusServiceUnavailable, nil, bad)
		return
	}
	defer s.serving.Wait()
	defer s.End(ErrEnded)
	defer s.leave()
	s.listen(w, r, "/message?sessionId="+s.id)
}

// postSSE serves POST /message: the answer goes out on the session's stream.
func (h *HTTP) postSSE(w http.ResponseWriter, r *http.Request) {
	s := h.find(legacySSE, r.URL.Query().Get("sessionId"), "")
	if s == nil {
		refuse(w, http.StatusNotFound, nil, noSession)
		return
	}
	defer s.leave()
	b, ok := h.read(w, r)
	if !ok {
		return
	}
	defer b.release()
	data := bytes.TrimSpace(b.data)
	if !jsonrpc.Valid(data) {
		refuse(w, http.StatusBadRequest, nil, notJSON)
		return
	}
	jsonrpc.Flatten(data)
	if room := s.stream.full(); room != nil {
		select {
		case <-room:
		case <-s.Context().Done():
		case <-r.Context().Done():
			return
		}
	}
	s.take(data, s.stream, func(serve func()) {
		b.readers.Add(1)
		s.serving.Go(func() {
			defer b.release()
			serve()
		})
	})
	finish(w, http.StatusAccepted)
}
