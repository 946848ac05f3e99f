package front

import (
	"bytes"
	"net/http"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// listen writes the session's messages that belong to no request, until the client
// disconnects, another stream takes over or the session ends. The client may have
// lost the connection of the first stream long before the proxy notices. If
// endpoint is not empty, the first event announces it as the URL for the client's
// messages.
func (s *httpSession) listen(w http.ResponseWriter, r *http.Request, endpoint string) {
	err := openEvents(w)
	if err == nil && endpoint != "" {
		err = writeEvent(w, "endpoint", []byte(endpoint))
	}
	if err == nil {
		err = s.stream.pump(w, r.Context().Done())
	}
	if err != nil {
		s.log.Debug("client stream broken", "session", s.key.name, "err", err)
	}
}

// openSSE serves GET /sse, the transport of 2024-11-05. The stream carries all
// messages to the client, and the session ends with it.
func (h *HTTP) openSSE(w http.ResponseWriter, r *http.Request) {
	s, rpcErr := h.sessions.begin(legacySSE, "")
	if rpcErr != nil {
		refuse(w, http.StatusServiceUnavailable, nil, rpcErr)
		return
	}
	defer s.serving.Wait()
	defer s.End(ErrEnded)
	defer s.leave()
	s.listen(w, r, "/message?sessionId="+s.key.name)
}

// postSSE serves POST /message. The response is sent on the session's stream.
func (h *HTTP) postSSE(w http.ResponseWriter, r *http.Request) {
	s := h.sessions.find(legacySSE, r.URL.Query().Get("sessionId"), "")
	if s == nil {
		refuse(w, http.StatusNotFound, nil, noSession)
		return
	}
	defer s.leave()
	b, ok := h.bodies.read(w, r)
	if !ok {
		return
	}
	var serving sync.WaitGroup // requests in the body
	defer s.serving.Go(func() {
		serving.Wait()
		b.release()
	})
	data := bytes.TrimSpace(b.data)
	if !jsonrpc.Valid(data) {
		refuse(w, http.StatusBadRequest, nil, refusal("not JSON"))
		return
	}
	jsonrpc.Flatten(data)
	if s.stream.full() {
		refuse(w, http.StatusServiceUnavailable, nil, clientNotReading)
		return
	}
	s.take(data, s.stream, serving.Go)
	finish(w, http.StatusAccepted)
}
