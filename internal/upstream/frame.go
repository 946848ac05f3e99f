package upstream

import (
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// frame writes the request as this server wants it.
func (c *conn) frame(id int64, req *Request) outgoing {
	var number [20]byte
	raw := strconv.AppendInt(number[:0], id, 10)
	change := revision.Change{Target: req.Target, Member: targetMember(req.Method), Arguments: req.Method == "tools/call"}
	if req.Token {
		change.Token = raw
	}
	out := outgoing{id: id, alone: req.Alone}
	version := c.revision()
	if revision.Stateless(version) {
		hop := req.Hop
		hop.Version = version
		change.Hop = &hop
	}
	index := req.Index
	if index == nil {
		own := revision.NewParams(req.Params)
		index = &own
	}
	params := index.Translate(change)
	if c.http && revision.Stateless(version) {
		out.header = headers(c.in.offer.Load(), version, req.Method, params)
	}
	out.line = jsonrpc.AppendRequest(make([]byte, 0, len(params)+len(req.Method)+64), raw, req.Method, params)
	return out
}

// targetMember names the member of a method's params that routes it.
func targetMember(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return "uri"
	case "completion/complete":
		return "ref"
	}
	return ""
}

// headers are those of one request of the stateless era.
func headers(offer *Offer, version, method string, params []byte) http.Header {
	header := make(http.Header)
	for k, v := range mcp.StandardHeaders(version, mcp.MCPMethod(method), params) {
		header.Set(k, v)
	}
	if method == "tools/call" {
		for k, v := range offer.paramHeaders(params) {
			header.Set(k, v)
		}
	}
	return header
}
