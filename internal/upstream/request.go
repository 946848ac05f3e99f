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

// Request is one request of a client on its way to a server.
type Request struct {
	Method string
	Params []byte               // as the client wrote them; not needed beside Index
	Index  *revision.Params     // of the params, where they have been read already; nil: they have not
	Target []byte               // raw JSON; replaces the member that names the target; nil leaves it
	Hop    *revision.Hop        // what the client says of itself, for a stateless server; nil: nothing
	Token  bool                 // progress is wanted
	Notify func(string, []byte) // gets the notifications that came on this request's stream, and its progress; nil: none
	Ask    askFunc              // answers the questions that came on this request's stream; nil: Listener.Ask does
	// Reads says that the request changes nothing, and Host names the host the limit of
	// which it needs: reads for one host may be sent while those for another wait.
	Reads bool
	Host  string
	// Admit is asked whether the request may be sent, once its turn has come and its
	// server is there. Without wait it must answer at once. If it says no, it is called
	// again with wait, and returns once the request may be sent, or with an error;
	// meanwhile reads for other hosts may pass a read. Nil: the request may be sent.
	Admit func(ctx context.Context, wait bool) (ok bool, err error)
	// Fence is asked at the last moment, when the bytes that the server needs to run the
	// request are handed to it, once for each sending or more often. With an error the
	// server does not get them, and the request fails with it. Nil: it is not kept back.
	Fence func() error
	// Sent is called when the request has been handed to the server, before the next one
	// in its queue is, once for each sending; nil: not of interest.
	Sent func()
	// Alone says that a refusal concerns this request only: it does not count as one of
	// the credentials or of the session, and the request is not sent again.
	Isolated bool
	// Timeout without an answer, restarted by progress; 0 is none. It also bounds the
	// wait of a request with a turn to be sent to a server that is there, and counts
	// anew from when it is.
	Timeout time.Duration
	// Late is called once, on the reader, when the answer comes after all to a request
	// that was given up, because its context has ended or its time was up. That may be
	// before the caller is told of the end. It is never called where no answer can come
	// any more: the connection has ended, or the response over HTTP was dropped. Nil: not
	// of interest.
	Late func()
}

// Answer is what a server answered to a request. Beside an error, the message is empty.
type Answer struct {
	jsonrpc.Message        // as it came, with a Result or an Error; a caller that writes it on may give its Buffer back
	Stateless       bool   // it came over a hop of the stateless era
	Sent            bool   // the server may have been handed the request
	Sends           int    // how often it went out: again where it certainly had not been run
	Limited         bool   // the server refused it by HTTP status, as one request too many
	RetryAfter      string // if Limited: the raw Retry-After header; "" without one
}

// frame writes the request as this server wants it.
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
		var hop revision.Hop
		if req.Hop != nil {
			hop = *req.Hop
		}
		hop.Version = version
		if c.in.up.spec.NoCapabilities {
			hop.Capabilities = noCapabilities
		}
		change.Hop = &hop
	}
	index := req.Index
	if index == nil {
		own := revision.NewParams(req.Params)
		index = &own
	}
	params := index.Translate(change)
	out := outgoing{id: id, alone: req.Isolated, fence: req.Fence}
	if c.http && stateless {
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
