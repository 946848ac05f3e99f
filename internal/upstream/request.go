package upstream

import (
	"context"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Request is one request of a client on its way to a server.
type Request struct {
	Method string
	Params []byte               // as the client wrote them; not needed beside Index
	Index  *revision.Params     // of the params, where they have been read already; nil: they have not
	Target []byte               // raw JSON; replaces the member that names the target; nil leaves it
	Hop    revision.Hop         // what the client says of itself, for a stateless server
	Token  bool                 // progress is wanted
	Notify func(string, []byte) // gets the notifications that came on this request's stream, and its progress; nil: none
	Ask    func(context.Context, string, []byte) ([]byte, *jsonrpc.Error)
	// Reads says that the request changes nothing, and Host names the host the limit of
	// which it needs: reads for one host may be sent while those for another wait.
	Reads bool
	Host  string
	// Admit is asked whether the request may be sent, once its turn has come and its
	// server is there. Without wait it must answer at once. If it says no, it is called
	// again with wait, and returns once the request may be sent, or with an error;
	// meanwhile reads for other hosts may pass a read. Nil: the request may be sent.
	Admit func(ctx context.Context, wait bool) (ok bool, err error)
	// Sent is called when the request has been handed to the server, before the next one
	// in its queue is, once for each sending; nil: not of interest.
	Sent func()
	// Alone says that a refusal concerns this request only: it does not count as one of
	// the credentials or of the session, and the request is not sent again.
	Alone bool
	// Timeout without an answer, restarted by progress; 0 is none. It also bounds the
	// wait of a request with a turn to be sent to a server that is there, and counts
	// anew from when it is.
	Timeout time.Duration
	// Late is called once, on the reader, when the answer comes after all to a
	// request whose caller has given up: its context has ended, or its time was
	// up. That may be before the caller is told of the end. It is never called where
	// no answer can come any more: the connection has ended, or the response over
	// HTTP was dropped. Nil: not of interest.
	Late func()
}
