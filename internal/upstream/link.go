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

// A link carries whole JSON-RPC messages to and from one server: over a process's pipes,
// streamable HTTP, or HTTP+SSE. It does not interpret messages. It passes each message it reads
// to its [conn] on goroutines of its own. Its last call is conn.closed.
type link interface {
	// send sends one message. It waits neither for the answer nor for a server that does not
	// read. When ctx ends, the answer is no longer needed. An error means that the message
	// certainly did not reach the server.
	send(ctx context.Context, m outgoing) error
	// close closes the link and returns when its goroutines have ended.
	close()
}

// outgoing is one message to a server.
type outgoing struct {
	line     []byte       // the message without a line end; not modified or reused after send
	done     func()       // called once after send succeeded, when the message was delivered or dropped; may be nil
	id       int64        // the request id; 0 for a notification or a response
	isolated bool         // Request.Alone
	fence    func() error // Request.Fence
	header   http.Header  // Mcp-Method, Mcp-Name and Mcp-Param-* headers; nil unless 2026-07-28 over HTTP
}

// parse parses a message from the server. Invalid UTF-8 is replaced by U+FFFD, as most clients
// do, rather than losing the whole answer. text is the input that was finally parsed.
func (c *conn) parse(raw []byte) (m jsonrpc.Message, text []byte, err error) {
	if m, err = jsonrpc.Parse(raw); err == nil {
		return m, raw, nil
	}
	if repaired := jsonrpc.Repair(raw); repaired != nil && jsonrpc.Valid(repaired) {
		if c.in.up.counts.repaired.Add(1) == 1 {
			c.in.up.log.Warn("upstream sends invalid UTF-8: it is replaced by U+FFFD", "upstream", c.in.up.spec.Name)
		}
		m, err = jsonrpc.Parse(repaired)
		return m, repaired, err
	}
	return m, raw, err
}

// messages parses the content of a line, an event or a body: one message, or, in revision
// 2025-03-26, a batch. data must not contain line ends.
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

// unreadable logs an invalid message and fails the request that it was meant to answer, if
// answered is not 0. head is the beginning of the message.
func (c *conn) unreadable(answered int64, head []byte, err error) {
	c.logInvalid(head, err)
	if answered != 0 {
		c.failRequest(answered, fmt.Errorf("its answer cannot be read: %w", err))
	}
}

// answeredID returns the id of the request that an invalid message was meant to answer, or 0. m
// is the part of the message that was understood, head its beginning. An answer has a result or
// an error and no method before it: a request from the server also has an id, but not one of
// ours. framed means that the transport carries only messages, so that an id without a method is
// enough; the stdout of a process may also contain log lines.
func answeredID(m jsonrpc.Message, head []byte, framed bool) int64 {
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
