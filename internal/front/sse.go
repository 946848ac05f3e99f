package front

import (
	"bytes"
	"net/http"
	"sync/atomic"

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
	e := newSSEWriter(w)
	err := e.open()
	if err == nil {
		err = e.event("endpoint", []byte("/message?sessionId="+s.id))
	}
	if err == nil {
		err = s.stream.pump(e, r.Context().Done())
	}
	if err != nil {
		h.Log.Debug("client stream broken", "session", s.id, "err", err)
	}
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
	var readers atomic.Int64 // of the body: this goroutine, and each request in it
	readers.Add(1)
	done := func() {
		if readers.Add(-1) == 0 {
			b.release()
		}
	}
	defer done()
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
		readers.Add(1)
		s.serving.Go(func() {
			defer done()
			serve()
		})
	})
	finish(w, http.StatusAccepted)
}
