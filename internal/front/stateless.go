package front

import (
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// stateless serves a message of the stateless era. A disconnect cancels the request.
func (h *HTTP) stateless(w http.ResponseWriter, r *http.Request, m *Message, only string) {
	switch {
	case m.IsResponse():
		refuse(w, http.StatusBadRequest, nil, refusal("responses are not sent in "+revision.Latest))
		return
	case m.IsNotification(): // the revision has none over HTTP: a disconnect cancels
		finish(w, http.StatusAccepted)
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
	s, rpcErr := h.sessions.pool(m.Client.Capabilities, only)
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
	switch version := h.Get(headerVersion); {
	case version == "":
		return Mismatch(headerVersion + ": missing")
	case version != m.Client.Version:
		return Mismatch(headerVersion + ": " + strconv.Quote(version) + ", but the body says " + strconv.Quote(m.Client.Version))
	}
	if rpcErr := m.checkClient(); rpcErr != nil {
		return rpcErr
	}
	if err := mcp.ValidateStandardHeaders(h.Get, m.Client.Version, mcp.MCPMethod(m.Method), nameParams(m)); err != nil {
		return Mismatch(err.Error())
	}
	return nil
}

// Mismatch returns the error for a request whose headers and body do not agree.
func Mismatch(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: revision.CodeHeaderMismatch, Message: "Header mismatch: " + what}
}

// nameParams returns an object with the member of the params that the Mcp-Name header
// repeats. The other members, which may be large, need not be decoded for the check.
func nameParams(m *Message) []byte {
	member := "name"
	if m.Method == "resources/read" {
		member = "uri"
	}
	value := m.Index.Get(member)
	if value == nil {
		return []byte("{}")
	}
	return jsonrpc.Set(nil, member, value)
}
