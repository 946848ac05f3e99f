package upstream

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

// A link carries whole JSON-RPC messages to one server and back: a process's
// pipes, streamable HTTP, or the older HTTP+SSE. It knows nothing of what the
// messages mean; [conn] pairs answers with requests.
type link interface {
	// send hands one message to the server. It waits neither for the answer nor for
	// a server that does not read. When ctx ends, the answer is not wanted any more.
	// An error means that the message has certainly not reached the server.
	send(ctx context.Context, m outgoing) error
	// close ends the link and returns when everything it started has ended.
	close()
}

// outgoing is one message on its way to a server.
type outgoing struct {
	line   []byte      // the message, without line end; not changed or kept by the sender afterwards
	taken  func()      // called once if send succeeds: when the server has taken it, or will not; nil: not of interest
	id     int64       // the request's id; 0 for a notification or an answer
	alone  bool        // Request.Alone
	header http.Header // further HTTP headers (Mcp-Method, Mcp-Name, Mcp-Param-*); nil outside revision 2026-07-28 over HTTP
}

// sink takes what a link reads. Its functions are called from the link's own
// goroutines, must not block for long, and are never called after closed.
type sink struct {
	// message is one parsed message. stream is the id of the request on the response
	// stream of which it came, 0 where the transport does not tell.
	message func(m jsonrpc.Message, stream int64)
	// lost says that the request id will not be answered, and why.
	lost func(id int64, err error)
	// repaired says that a message had to be repaired before it could be read.
	repaired func()
	// garbage is something that was no JSON-RPC message; the link goes on.
	garbage func(head []byte, err error)
	// limited says that the server refuses the request id as one too many, with the
	// Retry-After header as written; its answer, or lost, follows.
	limited func(id int64, retryAfter string)
	// gap says that messages may have been missed (an HTTP stream that broke
	// and could not be resumed).
	gap func()
	// forgot says that the server no longer knows the session; it comes before
	// anything that follows from that.
	forgot func()
	// closed is called exactly once, last: the link is of no more use.
	closed func(err error)
}

// parse reads a message of a server. Where it is not UTF-8, because it holds a text in
// another encoding, for instance, U+FFFD is put in its place, as most clients do:
// otherwise the whole answer would be lost.
func (s *sink) parse(raw []byte) (jsonrpc.Message, error) {
	m, err := jsonrpc.Parse(raw)
	if err == nil {
		return m, nil
	}
	if repaired := jsonrpc.Repair(raw); repaired != nil {
		if m, err := jsonrpc.Parse(repaired); err == nil {
			s.repaired()
			return m, nil
		}
	}
	return m, err
}

// batch returns an array of messages as it can be read, nil if it cannot.
func (s *sink) batch(raw []byte) []byte {
	if jsonrpc.Valid(raw) {
		return raw
	}
	if repaired := jsonrpc.Repair(raw); repaired != nil && jsonrpc.Valid(repaired) {
		s.repaired()
		return repaired
	}
	return nil
}

// messages parses what a line, an event or a body holds: one message, or in revision
// 2025-03-26 an array of them. There must be no line ends in it.
func (s *sink) messages(data []byte) iter.Seq2[jsonrpc.Message, error] {
	return func(yield func(jsonrpc.Message, error) bool) {
		data = bytes.TrimSpace(data)
		var batch []byte
		if len(data) > 0 && data[0] == '[' {
			batch = s.batch(data)
		}
		if batch == nil {
			yield(s.parse(data))
			return
		}
		for element := range jsonrpc.Elements(batch) {
			if !yield(jsonrpc.Parse(element)) {
				return
			}
		}
	}
}

// unreadable reports what is no message, also to the request that it was meant to
// answer; 0: to none. head is its beginning.
func (s *sink) unreadable(answered int64, head []byte, err error) {
	s.garbage(head, err)
	if answered != 0 {
		s.lost(answered, fmt.Errorf("its answer cannot be read: %w", err))
	}
}

// answers returns the id of the request that something unreadable was meant to answer;
// 0: none. m is what was understood of it, head its beginning. An answer has a result
// or an error, and no method before that: a request of the server has an id too, but
// not one of ours. framed says that the transport carries nothing but messages, while a
// process may write its log among them: there what has no method is an answer anyway.
func answers(m jsonrpc.Message, head []byte, framed bool) int64 {
	if m.Method != "" {
		return 0
	}
	if m.Result == nil && m.Error == nil {
		before, _, found := bytes.Cut(head, []byte(`"result"`))
		if !found {
			before, _, found = bytes.Cut(head, []byte(`"error"`))
		}
		if !found && !framed || bytes.Contains(before, []byte(`"method"`)) {
			return 0
		}
	}
	raw := m.ID
	if raw == nil {
		raw = jsonrpc.SalvageID(head)
	}
	id, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
