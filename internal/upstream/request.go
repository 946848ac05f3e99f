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
	Notify func(string, []byte) // hears what the transport attributes to this request, progress always; nil: nothing
	Ask    func(context.Context, string, []byte) ([]byte, *jsonrpc.Error)
	// Reads says that the request changes nothing, and Host by whose limit it goes:
	// reads for one host may be sent while those for another wait for its limit.
	Reads bool
	Host  string
	// Admit lets the request go, once its turn has come and its server is there. Without
	// wait it answers at once; where it says no, it is called again, with wait, to return
	// once the request may go or with an error. Of reads, those behind may pass this one
	// meanwhile if they are for another host. Nil: it may go.
	Admit func(ctx context.Context, wait bool) (ok bool, err error)
	// Sent is called when the request has been handed to the server, before what is
	// behind it in its lane is, once or more often; nil: not of interest.
	Sent func()
	// Alone is a request that may be refused for what it is: neither its credentials
	// nor its session count as refused with it, and it is not sent again.
	Alone bool
	// Timeout without an answer, restarted by progress; 0 is none. It also bounds the
	// wait of a request with a turn to be sent to a server that is there, and counts
	// anew from when it is.
	Timeout time.Duration
	// Late is called once, on the reader, when the answer comes after all to a
	// request whose caller has given up: its context has ended, or its time was
	// up. That may be before the caller hears of the end. It is never called where
	// no answer can come any more: the connection has ended, or the response over
	// HTTP was dropped. Nil hears nothing.
	Late func()
}
