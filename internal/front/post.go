package front

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// post serves POST to an MCP endpoint. A message is stateless if its _meta has a protocol
// version, or if the MCP-Protocol-Version header has a stateless one.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, only string) {
	b, ok := h.bodies.read(w, r)
	if !ok {
		return
	}
	defer b.release()
	data, version := bytes.TrimSpace(b.data), r.Header.Get(mcp.HeaderProtocolVersion)
	batch := bytes.HasPrefix(data, []byte("[")) && jsonrpc.Valid(data)
	m, rpcErr := parse(data)
	if rpcErr != nil && !batch {
		refuse(w, http.StatusBadRequest, m.ID, rpcErr)
		return
	}
	jsonrpc.Flatten(data)
	switch {
	case version != "" && !revision.Supported(version):
		refuse(w, http.StatusBadRequest, m.ID, unsupported(version)) // a batch has no id
	case batch:
		h.batch(w, r, data, only)
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
		w.Header().Set(mcp.HeaderSessionID, s.key.name)
	} else if s = h.enterSession(w, r, m.ID, only); s == nil {
		return
	}
	defer s.leave()
	if m.IsRequest() {
		if accepted := s.serve(context.Background(), w, m); !accepted && m.Method == "initialize" {
			s.End(ErrEnded)
		}
		return
	}
	s.pass(context.Background(), m, nil)
	writeStatus(w, http.StatusAccepted)
}

// enterSession returns the session that the request names, and enters it. If there
// is none, it refuses the request and returns nil.
func (h *HTTP) enterSession(w http.ResponseWriter, r *http.Request, id []byte, only string) *httpSession {
	name := r.Header.Get(mcp.HeaderSessionID)
	if name == "" {
		refuse(w, http.StatusBadRequest, id, refusal(mcp.HeaderSessionID+": missing; start a session with initialize"))
		return nil
	}
	s := h.sessions.find(streamable, name, only)
	if s == nil {
		refuse(w, http.StatusNotFound, id, noSession)
	}
	return s
}

// serve serves one request on the caller's goroutine. It returns false if the request was refused.
func (s *httpSession) serve(ctx context.Context, w http.ResponseWriter, m *Message) (accepted bool) {
	named := m.Method == "tools/call" || m.Method == "prompts/get"
	out := &response{w: w, log: s.all.Log, id: m.ID, stateless: m.Stateless(), named: named}
	defer out.finish()
	serve := s.pass(ctx, m, out)
	if serve != nil {
		serve()
	}
	return serve != nil
}

// batch serves an array of messages. The responses are sent on one stream, each as
// soon as it is ready.
func (h *HTTP) batch(w http.ResponseWriter, r *http.Request, data []byte, only string) {
	s := h.enterSession(w, r, nil, only)
	if s == nil {
		return
	}
	defer s.leave()
	if !s.batches.Load() {
		refuse(w, http.StatusBadRequest, nil, refusal("want one message, an object; only "+revision.Batches+" has batches"))
		return
	}
	out := &response{w: w, log: h.Log}
	defer out.finish()
	var serving sync.WaitGroup
	s.take(data, out, serving.Go)
	serving.Wait()
}

// stateless serves a message of the stateless era. A disconnect cancels the request.
func (h *HTTP) stateless(w http.ResponseWriter, r *http.Request, m *Message, only string) {
	switch {
	case m.IsResponse():
		refuse(w, http.StatusBadRequest, nil, refusal("responses are not sent in "+revision.Latest))
		return
	case m.IsNotification(): // the revision has none over HTTP: a disconnect cancels
		writeStatus(w, http.StatusAccepted)
		return
	}
	if rpcErr := checkHeaders(r.Header, m); rpcErr != nil {
		status := http.StatusBadRequest
		if rpcErr.Code == jsonrpc.CodeMethodNotFound {
			status = http.StatusNotFound
		}
		refuse(w, status, m.ID, rpcErr)
		return
	}
	s, rpcErr := h.sessions.pool(m.Client, only)
	if rpcErr != nil {
		refuse(w, http.StatusServiceUnavailable, m.ID, rpcErr)
		return
	}
	defer s.leave()
	m.Header = r.Header
	s.serve(r.Context(), w, m)
}

// checkHeaders checks that the headers of a stateless request agree with its body, so
// that an intermediary which reads only the headers is not misled.
func checkHeaders(h http.Header, m *Message) *jsonrpc.Error {
	if m.Client == nil || m.Client.Version == "" {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params._meta: io.modelcontextprotocol/protocolVersion: missing"}
	}
	switch version := h.Get(mcp.HeaderProtocolVersion); {
	case version == "":
		return Mismatch(mcp.HeaderProtocolVersion + ": missing")
	case version != m.Client.Version:
		return Mismatch(mcp.HeaderProtocolVersion + ": " + strconv.Quote(version) + ", but the body says " + strconv.Quote(m.Client.Version))
	}
	if rpcErr := m.checkClient(); rpcErr != nil {
		return rpcErr
	}
	if err := mcp.ValidateStandardHeaders(h.Get, m.Client.Version, mcp.MCPMethod(m.Method), m.Index.Named(m.Method, nil)); err != nil {
		return Mismatch(err.Error())
	}
	return nil
}

// Mismatch returns the error for a request if its headers and body do not agree.
func Mismatch(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: revision.CodeHeaderMismatch, Message: "Header mismatch: " + strings.TrimPrefix(what, "header mismatch: ")}
}
