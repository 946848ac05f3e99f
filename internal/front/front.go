// Package front implements the client-facing transports: stdio, streamable HTTP, the SSE
// transport of 2024-11-05, and stateless HTTP.
//
// A transport reads messages, writes responses, and bounds the resources of each client.
// It passes each message to the client's [Session], which [Options.NewSession] creates:
//
//	web := front.NewHTTP(front.Options{NewSession: begin})
//	err := web.Serve(ctx, listener)
//
// The package parses each message once and passes it on as bytes with an index of its
// params. It rejects malformed messages, checks Host, Origin and token, and limits
// sessions, streams and bodies.
//
// It does not know upstream servers, tool names, calls or the cache.
package front

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Options configures a transport.
type Options struct {
	NewSession   func(Client) Session       // creates the session of a client
	Has          func(upstream string) bool // reports whether /mcp/NAME exists; nil means never
	Pages        []Page                     // served beside MCP
	MaxMessage   int                        // bytes of one message; zero means 64 MiB
	DrainTimeout time.Duration              // limit for open requests after stdin ends
	Replayed     []string                   // stdio: raw ids of requests that another process may have received already
	Log          *slog.Logger               // nil means discard
	HTTP         HTTPOptions
}

func (o Options) withDefaults() Options {
	if o.Has == nil {
		o.Has = func(string) bool { return false }
	}
	o.MaxMessage = cmp.Or(o.MaxMessage, 64<<20)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Client describes a client before its first message.
type Client struct {
	Only        string // only upstream server in its view, under that server's own names; "" means all
	ID          string // session id by which other connections find the session; "" if there is none
	Multiplexed bool   // any number of stateless clients with the same name and capabilities; their request ids may collide
	Anonymous   bool   // the clients of a pool may be different principals: no token is required
	NonBlocking bool   // Out.Answer never blocks, so that a server's reader goroutine may call it
	Out         Outlet // for messages that belong to no request; nil if the client cannot receive any
}

// Outlet carries messages to a client: its stdout, the response to one POST, or a
// stream that the client keeps open.
type Outlet interface {
	// Send writes a message other than the response to the current request. It never
	// blocks on the client, and may retain line.
	Send(line []byte) error
	// Answer writes the response, which may end the outlet. It does not retain line.
	Answer(line []byte) error
	// Connected reports whether the client still reads what is sent, as far as is known.
	Connected() bool
}

// Session serves one client.
type Session interface {
	// Accept processes one message on the goroutine that reads the client's messages.
	// All work that depends on message order is done when Accept returns. The
	// returned function serves a request: it writes the response to out, and stops
	// when ctx ends. It is nil if no work is left. The session limits its requests.
	Accept(ctx context.Context, m *Message, out Outlet) (serve func())
	// Refuse answers a message that cannot be accepted; m has the parts that could be
	// parsed. A malformed response to a request of the proxy ends that request.
	Refuse(m *Message, cause *jsonrpc.Error, out Outlet)
	// Pending reports work that continues without an open request: a call suspended
	// until its client answers, or a task that runs between two polls. It does not block.
	Pending() bool
	// Drain blocks until every request has been served, d has passed or ctx ends. No
	// message may be accepted afterwards.
	Drain(ctx context.Context, d time.Duration) error
	// End ends the session and returns when all accepted requests have been served. It may be
	// called again.
	End(cause error)
	// Context is done when the session ends.
	Context() context.Context
}

// Message is one message of a client.
type Message struct {
	jsonrpc.Message
	Index    revision.Params  // of the params
	Client   *revision.Client // the client's description in the message; nil if a handshake has it
	Replayed bool             // another process may have received the request and carried it out
	Header   http.Header      // HTTP header of a stateless request, which may repeat arguments; else nil
}

// Stateless reports whether the message carries the description of its client.
func (m *Message) Stateless() bool { return m.Client != nil }

// Page is an HTTP handler served beside MCP.
type Page struct {
	Pattern string // of [http.ServeMux]
	Handler http.Handler
	OwnAuth bool // Handler checks the token itself, as a page for browsers must
}

// Reasons why a session ends.
var (
	ErrEnded    = errors.New("session ended")
	ErrShutdown = errors.New("mcpschedd is shutting down")
)

// backlog is the number of unread bytes above which no more requests are accepted from
// a client.
const backlog = 8 << 20

// shutdownFlush is how long a client may take to read its last messages after a signal, and the least that it
// may take after stdin ends. Claude Code sends SIGKILL 490 ms after its first signal.
const shutdownFlush = 100 * time.Millisecond
