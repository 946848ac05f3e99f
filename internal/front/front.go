// Package front is the client's side of the wire: stdio, streamable HTTP, the SSE
// transport of 2024-11-05, and stateless HTTP.
//
// The one idea: a transport decides where the bytes of a message come from, where an
// answer goes, and how much of either one client may have. What a message means is
// for its [Session], of which [Options.NewSession] begins one for each client:
//
//	web := front.NewHTTP(front.Options{NewSession: begin})
//	err := web.Serve(ctx, listener)
//
// A message is parsed here once and passed on as bytes with an index of its params.
// What is no message is refused here. The guard, which looks at Host, Origin and the
// token, and all bounds on sessions, streams, requests and bodies stand here too.
//
// It leaves out upstreams, names, calls and stored answers.
package front

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Options is what a front is told. Zero values mean the defaults named.
type Options struct {
	NewSession   func(Client) Session       // begins a session for a client
	Has          func(upstream string) bool // whether /mcp/NAME exists; nil: none does
	Pages        []Page                     // served beside MCP
	MaxMessage   int                        // bytes of one message; 0: 64 MiB
	DrainTimeout time.Duration              // how long requests may go on after stdin has ended
	Repeated     []string                   // on stdio: raw ids of requests that another process may have had already
	Log          *slog.Logger               // nil: discards
	Clock        func() age.Moment          // what idleness goes by; nil: age.Now
	HTTP         HTTPOptions
}

func (o Options) withDefaults() Options {
	if o.Has == nil {
		o.Has = func(string) bool { return false }
	}
	o.MaxMessage = cmp.Or(o.MaxMessage, 64<<20)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Clock == nil {
		o.Clock = age.Now
	}
	return o
}

// Client is what the wire knows of a client before its first message.
type Client struct {
	Only      string // the one upstream that it sees, under its own names; "": all
	ID        string // by which the client finds its session again on another connection; "": it cannot
	Pool      bool   // it is any number of stateless clients that can do the same: their ids may clash
	Anonymous bool   // no credentials tell that the clients of a pool are one principal
	Unblocked bool   // Answer never waits for it: any goroutine may call it, a server's reader too
	Out       Outlet // for what belongs to no request; nil: the client listens to nothing else
}

// Outlet is where messages to a client go: its stdout, the response to one POST, or
// a stream that it keeps open.
type Outlet interface {
	// Send writes a message that is not the answer to the request at hand. It never
	// waits for the client.
	Send(line []byte) error
	// Answer writes the answer, which may end the outlet. It does not keep line.
	Answer(line []byte) error
}

// Session is what serves one client.
type Session interface {
	// Accept takes one message, on the goroutine that reads the client's messages:
	// what must keep their order is done before it returns. A request is served by
	// running the function that it returns, which writes the answer to out and
	// gives up when ctx ends; nil means that there is nothing left to do.
	Accept(ctx context.Context, m *Message, out Outlet) (serve func())
	// Refuse answers a message that cannot be accepted, of which as much is known
	// as could be read. A broken answer to a question of the proxy's ends that.
	Refuse(m *Message, why *jsonrpc.Error, out Outlet)
	// Pending reports what goes on while no request is open: a call that is
	// suspended until its client answers, a task that runs. It does not wait.
	Pending() (suspended, task bool)
	// Drain waits until every request has been served, at most d or until ctx ends.
	// No more will come.
	Drain(ctx context.Context, d time.Duration) error
	// End ends the session, and returns when all that was accepted has been served.
	End(why error)
	// Context ends with the session.
	Context() context.Context
}

// Message is one message of a client.
type Message struct {
	jsonrpc.Message
	Index     revision.Params // of its params
	Stateless bool            // it says itself what revision and client it is of
	Hop       *revision.Hop   // what it says of them; nil: it is not stateless
	Repeated  bool            // another process may have had it, and may have done what it asks for
	Header    http.Header     // of its HTTP request, where that speaks of the arguments; nil: it does not
}

// Page is what HTTP serves beside MCP.
type Page struct {
	Pattern string // of [http.ServeMux]
	Handler http.Handler
	Asks    bool // for the token itself, as browsers need it
}

// Why a session ends.
var (
	ErrEnded    = errors.New("session ended")
	ErrShutdown = errors.New("mcpschedd is shutting down")
	errIdle     = errors.New("session unused for too long")
	errEvicted  = errors.New("session ended for a new one; it was unused for longest")
)

// backlog is how many bytes may wait for a client that does not read before
// no more of its requests are taken.
const backlog = 8 << 20

// shutdownFlush is how long a client may take to read what it is told at a signal.
// Claude Code kills 490 ms after its first.
const shutdownFlush = 100 * time.Millisecond
