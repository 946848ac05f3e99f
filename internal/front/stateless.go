package front

import (
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// stateless serves a message of the stateless era. Its client's going away
// cancels it.
func (h *HTTP) stateless(w http.ResponseWriter, r *http.Request, m *Message, only string) {
	switch {
	case m.IsResponse():
		refuse(w, http.StatusBadRequest, nil, refusal("responses are not sent in "+revision.Latest))
		return
	case m.IsNotification(): // the revision has none over HTTP: cancelling is hanging up
		finish(w, http.StatusAccepted)
		return
	}
	if bad := checkHeaders(r.Header, m); bad != nil {
		status := http.StatusBadRequest
		if bad.Code == jsonrpc.CodeMethodNotFound {
			status = http.StatusNotFound
		}
		refuse(w, status, m.ID, bad)
		return
	}
	s, bad := h.sessions.pool(m.Hop.Capabilities, only)
	if bad != nil {
		refuse(w, http.StatusServiceUnavailable, m.ID, bad)
		return
	}
	defer s.leave()
	m.Header = r.Header
	_ = s.serve(r.Context(), w, m) // logged where it was written
}

// checkHeaders holds the headers of a stateless request against its body, so
// that what reads only the one is not told something else than what reads both.
func checkHeaders(h http.Header, m *Message) *jsonrpc.Error {
	if m.Hop == nil || m.Hop.Version == "" {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params._meta: io.modelcontextprotocol/protocolVersion: missing"}
	}
	switch version := h.Get(headerVersion); {
	case version == "":
		return Mismatch(headerVersion + ": missing")
	case version != m.Hop.Version:
		return Mismatch(headerVersion + ": " + strconv.Quote(version) + ", but the body says " + strconv.Quote(m.Hop.Version))
	}
	if bad := m.checkHop(); bad != nil {
		return bad
	}
	if err := mcp.ValidateStandardHeaders(h.Get, m.Hop.Version, mcp.MCPMethod(m.Method), named(m)); err != nil {
		return Mismatch(err.Error())
	}
	return nil
}

// Mismatch refuses a request of which header and body do not agree.
func Mismatch(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: revision.CodeHeaderMismatch, Message: "Header mismatch: " + what}
}

// named is what of the params Mcp-Name can be about; the rest, which may be
// large, is not decoded for it.
func named(m *Message) []byte {
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
