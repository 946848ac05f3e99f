package upstream

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Request is one request to a server.
type Request struct {
	Method string
	Params []byte               // as the client wrote them; unused if Index is set
	Index  *revision.Params     // parsed params; nil if not parsed yet
	Target []byte               // raw JSON that replaces the routing member of params; nil leaves it
	Client *revision.Client     // the client's description for a stateless server; may be nil
	Token  bool                 // request progress notifications
	Notify func(string, []byte) // receives progress and the notifications on this request's stream; may be nil
	Ask    askFunc              // answers server requests on this request's stream; nil means Listener.Ask
	// Admit is called when the request has its turn and a live server, and reports whether it may
	// be sent. With wait false it must not block. If it returns false, it is called again with
	// wait true, and blocks until the request may be sent or fails. Nil admits every request.
	Admit func(ctx context.Context, wait bool) (ok bool, err error)
	// Fence is called immediately before the request's bytes are written, at least once per
	// attempt. If it returns an error, the bytes are not written and the request fails with that
	// error. Nil means no fence.
	Fence func() error
	// Sent is called once per attempt when the request has been passed to the server, before the
	// next request in the queue is sent. It may be nil.
	Sent func()
	// Isolated means that a rejection concerns only this request: it does not invalidate the
	// credentials or the session, and the request is not retried.
	Isolated bool
	// Timeout limits the wait for an answer and is restarted by progress; zero means none. It
	// also limits, separately, the wait for a turn at a live server.
	Timeout time.Duration
	// Late is called once, on the reader, if an answer arrives after the request was cancelled or
	// timed out. It may be called before the caller is notified of that. It is not called if no
	// answer can arrive because the connection ended or the HTTP response was closed. It may be
	// nil.
	Late func()
}

// Answer is a server's answer to a request. If the request failed, the message is empty.
type Answer struct {
	jsonrpc.Message        // unmodified, with a Result or an Error; the caller may release its Buffer
	Stateless       bool   // the connection has a stateless revision
	Sent            bool   // the server may have received the request
	Sends           int    // number of times it was sent to the server
	Limited         bool   // the HTTP status was a rate limit (429, or 503 with Retry-After)
	RetryAfter      string // the Retry-After header if Limited; may be empty
}

// frame encodes the request for the revision of the connection.
func (c *conn) frame(id int64, req *Request) outgoing {
	var number [20]byte
	raw := strconv.AppendInt(number[:0], id, 10)
	change := revision.Change{Target: req.Target, Member: targetMember(req.Method), Arguments: req.Method == "tools/call"}
	if req.Token {
		change.Token = raw
	}
	version := c.revision()
	stateless := revision.Stateless(version)
	if stateless {
		var client revision.Client
		if req.Client != nil {
			client = *req.Client
		}
		client.Version = version
		if c.in.up.spec.NoCapabilities {
			client.Capabilities = noCapabilities
		}
		change.Client = &client
	}
	index := req.Index
	if index == nil {
		own := revision.NewParams(req.Params)
		index = &own
	}
	params := index.Translate(change)
	out := outgoing{id: id, isolated: req.Isolated, fence: req.Fence}
	if c.http && stateless {
		out.header = headers(c.in.offer.Load(), version, req.Method, params)
	}
	out.line = jsonrpc.AppendRequest(make([]byte, 0, len(params)+len(req.Method)+64), raw, req.Method, params)
	return out
}

// targetMember returns the member of a method's params that routes the request, or "".
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

// headers returns the HTTP headers of one request of the stateless era.
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
