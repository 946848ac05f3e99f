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
// messages mean: it gives what it reads to its [conn], from goroutines of its own, and
// conn.closed is the last that it calls.
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
	line   []byte       // the message, without line end; not changed or kept by the sender afterwards
	taken  func()       // called once if send succeeds: when the server has taken it, or will not; nil: not of interest
	id     int64        // the request's id; 0 for a notification or an answer
	alone  bool         // Request.Alone
	fence  func() error // Request.Fence
	header http.Header  // further HTTP headers (Mcp-Method, Mcp-Name, Mcp-Param-*); nil outside revision 2026-07-28 over HTTP
}

// parse reads a message of a server. Where it is not UTF-8, because it holds a text in
// another encoding, for instance, U+FFFD is put in its place, as most clients do:
// otherwise the whole answer would be lost. text is what was read in the end.
func (c *conn) parse(raw []byte) (m jsonrpc.Message, text []byte, err error) {
	if m, err = jsonrpc.Parse(raw); err == nil {
		return m, raw, nil
	}
	if repaired := jsonrpc.Repair(raw); repaired != nil && jsonrpc.Valid(repaired) {
		if c.in.up.counts.repaired.Add(1) == 1 {
			c.in.up.log.Warn("upstream sends what is not UTF-8: it is read with U+FFFD in its place", "upstream", c.in.up.spec.Name)
		}
		m, err = jsonrpc.Parse(repaired)
		return m, repaired, err
	}
	return m, raw, err
}

// messages parses what a line, an event or a body holds: one message, or in revision
// 2025-03-26 an array of them. There must be no line ends in it.
func (c *conn) messages(data []byte) iter.Seq2[jsonrpc.Message, error] {
	return func(yield func(jsonrpc.Message, error) bool) {
		m, text, err := c.parse(bytes.TrimSpace(data))
		if err == nil || len(text) == 0 || text[0] != '[' || !jsonrpc.Valid(text) {
			yield(m, err)
			return
		}
		for element := range jsonrpc.Elements(text) {
			if !yield(jsonrpc.Parse(element)) {
				return
			}
		}
	}
}

// unreadable reports what is no message, also to the request that it was meant to
// answer; 0: to none. head is its beginning.
func (c *conn) unreadable(answered int64, head []byte, err error) {
	c.garbage(head, err)
	if answered != 0 {
		c.lost(answered, fmt.Errorf("its answer cannot be read: %w", err))
	}
}

// answers returns the id of the request that something unreadable was meant to answer;
// 0: none. m is what was understood of it, head its beginning. An answer has a result
// or an error, and no method before that: a request of the server has an id too, but
// not one of ours. framed says that the transport carries nothing but messages, while a
// process may write its log among them: there what has no method is an answer anyway.
func answers(m jsonrpc.Message, head []byte, framed bool) int64 {
	before, _, found := bytes.Cut(head, []byte(`"result"`))
	if !found {
		before, _, found = bytes.Cut(head, []byte(`"error"`))
	}
	if m.Method != "" || !found && !framed || bytes.Contains(before, []byte(`"method"`)) {
		return 0
	}
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
