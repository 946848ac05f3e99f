package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Bounds on requests in flight over HTTP. Stateless clients that can do the same
// count as one session.
const (
	mostRequests = 512  // of one session
	mostOfAll    = 2048 // of all sessions
)

var manyRequests = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("too many requests are in flight; want at most %d in a session and %d in all", mostRequests, mostOfAll)}

// intake hands the messages of one client to its session.
type intake struct {
	Session
	log     *slog.Logger
	batches atomic.Bool   // the client's revision has arrays of messages
	open    atomic.Int64  // requests being served
	all     *atomic.Int64 // those of all sessions; nil: they are not bounded

	repeated map[string]bool // raw ids of requests to come that another process may have had; the reader's own
}

// take takes a message as it came, or each of a batch; run has a request served.
// Requests go on when their client goes away.
func (in *intake) take(data []byte, out Outlet, run func(serve func())) {
	if data[0] != '[' || !in.batches.Load() || !jsonrpc.Valid(data) {
		in.takeOne(data, out, run)
		return
	}
	empty := true
	for raw := range jsonrpc.Elements(data) {
		empty = false
		in.takeOne(raw, out, run)
	}
	if empty {
		in.refuse(&Message{}, emptyBatch, out)
	}
}

var emptyBatch = refusal("empty batch")

// takeOne takes one message. An array is none: a batch holds no others.
func (in *intake) takeOne(raw []byte, out Outlet, run func(serve func())) {
	m, bad := parse(raw)
	if bad != nil {
		in.refuse(m, bad, out)
		return
	}
	if m.IsRequest() && in.repeated[string(m.ID)] {
		delete(in.repeated, string(m.ID))
		m.Repeated = true
	}
	if m.Stateless && m.IsRequest() {
		if bad := m.checkHop(); bad != nil {
			in.Refuse(m, bad, out)
			return
		}
	}
	if serve := in.accept(context.Background(), m, out); serve != nil {
		run(serve)
	}
}

// accept lets the session take a message, if no more requests than there may be are
// in flight.
func (in *intake) accept(ctx context.Context, m *Message, out Outlet) func() {
	if !m.IsRequest() {
		return in.Accept(ctx, m, out)
	}
	if m.Method == "initialize" {
		if bad := checkSize(m.Index.Get("clientInfo"), m.Index.Get("capabilities")); bad != nil {
			in.Refuse(m, bad, out)
			return nil
		}
		asked, _ := jsonrpc.String(m.Index.Get("protocolVersion"))
		in.batches.Store(revision.Negotiate(asked) == revision.Batches)
	}
	if in.all == nil {
		return in.Accept(ctx, m, out)
	}
	if !in.reserve() {
		in.Refuse(m, manyRequests, out)
		return nil
	}
	serve := in.Accept(ctx, m, out)
	if serve == nil {
		in.release()
		return nil
	}
	return func() {
		defer in.release()
		serve()
	}
}

// reserve counts a request, unless too many are in flight.
func (in *intake) reserve() bool {
	if in.open.Add(1) > mostRequests {
		in.open.Add(-1)
		return false
	}
	if in.all.Add(1) > mostOfAll {
		in.release()
		return false
	}
	return true
}

func (in *intake) release() {
	in.open.Add(-1)
	in.all.Add(-1)
}

// refuse answers what is no message.
func (in *intake) refuse(m *Message, bad *jsonrpc.Error, out Outlet) {
	in.log.Warn("client message refused", "err", bad.Message)
	in.Refuse(m, bad, out)
}

// parse reads one message. Of what is none it returns what could be read.
func parse(raw []byte) (*Message, *jsonrpc.Error) {
	m, err := jsonrpc.Parse(raw)
	if bad, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &Message{Message: m}, bad
	}
	full := &Message{Message: m, Index: revision.ParamsOf(m.Index(m.Params))}
	full.Hop = full.Index.Hop()
	full.Stateless = full.Hop != nil
	return full, nil
}

// mostOfClient is how many bytes a client may say of itself: they are kept as
// long as its session, and told to its upstreams.
const mostOfClient = 2 << 20

// checkSize refuses a client that says more of itself than is kept.
func checkSize(info, capabilities []byte) *jsonrpc.Error {
	if len(info)+len(capabilities) <= mostOfClient {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "clientInfo and capabilities: want at most 2 MiB"}
}

// checkHop refuses what a stateless request must not be.
func (m *Message) checkHop() *jsonrpc.Error {
	if !revision.Supported(m.Hop.Version) || !revision.Stateless(m.Hop.Version) {
		return unsupported(m.Hop.Version)
	}
	if !bytes.HasPrefix(m.Hop.Capabilities, []byte("{")) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params._meta: io.modelcontextprotocol/clientCapabilities: want an object"}
	}
	if bad := checkSize(m.Hop.Info, m.Hop.Capabilities); bad != nil {
		return bad
	}
	switch m.Method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list":
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: m.Method + ": not part of " + m.Hop.Version}
	}
	return nil
}

func unsupported(version string) *jsonrpc.Error {
	data, err := json.Marshal(map[string]any{"supported": revision.SupportedVersions(), "requested": version})
	if err != nil {
		data = nil // strings always marshal
	}
	return &jsonrpc.Error{Code: revision.CodeUnsupportedVersion, Message: "Unsupported protocol version", Data: data}
}
