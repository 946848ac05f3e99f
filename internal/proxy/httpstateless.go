package proxy

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// stateless serves a message of the stateless era. Its client's going away
// cancels it.
func (f *front) stateless(w http.ResponseWriter, r *http.Request, m jsonrpc.Message, hop revision.Hop, only string) {
	switch {
	case m.IsResponse():
		refuse(w, http.StatusBadRequest, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "responses are not sent in " + revision.Latest})
		return
	case m.IsNotification(): // the revision has none over HTTP: cancelling is hanging up
		finish(w, http.StatusAccepted)
		return
	}
	if bad := checkHeaders(r.Header, m, hop); bad != nil {
		status := http.StatusBadRequest
		if bad.Code == jsonrpc.CodeMethodNotFound {
			status = http.StatusNotFound
		}
		refuse(w, status, m.ID, bad)
		return
	}
	h, bad := f.pool(hop, only)
	if bad != nil {
		refuse(w, http.StatusServiceUnavailable, m.ID, bad)
		return
	}
	defer h.leave()
	if m.Method == "tools/call" {
		if bad := h.checkParamHeaders(r.Header, m.Params); bad != nil {
			refuse(w, http.StatusBadRequest, m.ID, bad)
			return
		}
	}
	base := h.ctx
	if m.Method == "subscriptions/listen" {
		base = context.Background() // it hears of the session's end by itself, and says so
	}
	ctx, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	stop := context.AfterFunc(r.Context(), func() { cancel(withdrawn{"the client has gone"}) })
	defer stop()
	_ = f.serve(w, h, ctx, m, true) // logged where it was written
}

// checkHeaders holds the headers of a stateless request against its body, so
// that who reads only the one is not told something else than who reads both.
func checkHeaders(h http.Header, m jsonrpc.Message, hop revision.Hop) *jsonrpc.Error {
	if hop.Version == "" {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params._meta: io.modelcontextprotocol/protocolVersion: missing"}
	}
	switch version := h.Get(headerVersion); {
	case version == "":
		return mismatch(headerVersion + ": missing")
	case version != hop.Version:
		return mismatch(headerVersion + ": " + strconv.Quote(version) + ", but the body says " + strconv.Quote(hop.Version))
	}
	if bad := (&request{msg: m, hop: hop}).checkHop(); bad != nil {
		return bad
	}
	if err := mcp.ValidateStandardHeaders(h.Get, hop.Version, mcp.MCPMethod(m.Method), named(m)); err != nil {
		return mismatch(err.Error())
	}
	return nil
}

func mismatch(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: revision.CodeHeaderMismatch, Message: "Header mismatch: " + what}
}

// named is what of the params Mcp-Name can be about; the rest, which may be
// large, is not decoded for it.
func named(m jsonrpc.Message) []byte {
	member := "name"
	if m.Method == "resources/read" {
		member = "uri"
	}
	value := jsonrpc.Get(m.Params, member)
	if value == nil {
		return []byte("{}")
	}
	return jsonrpc.Set(nil, member, value)
}

// checkParamHeaders holds Mcp-Param-* against the arguments, for a tool whose
// schema asks for such headers. One that is not known yet asks for none.
func (h *httpSession) checkParamHeaders(header http.Header, params []byte) *jsonrpc.Error {
	name, _ := jsonrpc.String(jsonrpc.Get(params, "name"))
	t, ok := h.view.resolve(h.srv.policy.Load(), upstream.Tools, name)
	if !ok {
		t, ok = h.offered(upstream.Tools, name)
	}
	l := h.session.find(t.upstream)
	if !ok || l == nil || l.Offer() == nil {
		return nil
	}
	item, ok := l.Offer().Find(upstream.Tools, t.name)
	if !ok || !bytes.Contains(item.Raw, []byte(`"x-mcp-header"`)) {
		return nil
	}
	tool := &mcp.Tool{RawInputSchema: jsonrpc.Get(item.Raw, "inputSchema")}
	lookup := func(name string) (string, bool) {
		values := header.Values(name)
		if len(values) != 1 {
			return "", false
		}
		return values[0], true
	}
	if err := mcp.ValidateParamHeadersLookup(lookup, tool, params); err != nil {
		return mismatch(err.Error())
	}
	return nil
}
