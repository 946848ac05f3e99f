package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// intake parses the messages of one client and passes them to its session.
type intake struct {
	Session
	batches atomic.Bool // the client's revision has batches

	replayed map[string]bool // raw ids not yet seen of Options.Replayed; used by the reader goroutine only
}

// take processes one message or a batch. It passes run a function that serves a
// request. Requests continue after their client disconnects.
func (in *intake) take(data []byte, out Outlet, run func(serve func())) {
	if !in.batches.Load() {
		in.takeOne(data, out, run)
		return
	}
	empty := true
	for raw := range jsonrpc.Split(data) {
		empty = false
		in.takeOne(raw, out, run)
	}
	if empty {
		in.Refuse(&Message{}, refusal("empty batch"), out)
	}
}

// takeOne processes one message. An array is refused, since batches do not nest.
func (in *intake) takeOne(raw []byte, out Outlet, run func(serve func())) {
	m, rpcErr := parse(raw)
	if rpcErr != nil {
		in.Refuse(m, rpcErr, out)
		return
	}
	if m.IsRequest() && in.replayed[string(m.ID)] {
		delete(in.replayed, string(m.ID))
		m.Replayed = true
	}
	if m.Stateless() && m.IsRequest() {
		if rpcErr := m.checkClient(); rpcErr != nil {
			in.Refuse(m, rpcErr, out)
			return
		}
	}
	if serve := in.pass(context.Background(), m, out); serve != nil {
		run(serve)
	}
}

// pass passes a message to the session, unless it describes its client at too great a length.
func (in *intake) pass(ctx context.Context, m *Message, out Outlet) func() {
	if m.IsRequest() && m.Method == "initialize" {
		in.batches.Store(revision.Negotiate(m.Index.Text("protocolVersion")) == revision.Batches)
		if rpcErr := checkClientSize(m.Index.Get("clientInfo"), m.Index.Get("capabilities")); rpcErr != nil {
			in.Refuse(m, rpcErr, out)
			return nil
		}
	}
	return in.Accept(ctx, m, out)
}

// parse parses one message. On error the message has the parts that could be
// parsed.
func parse(raw []byte) (*Message, *jsonrpc.Error) {
	m, err := jsonrpc.Parse(raw)
	if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &Message{Message: m}, rpcErr
	}
	full := &Message{Message: m, Index: revision.ParamsOf(m.Index(m.Params))}
	full.Client = full.Index.Client()
	return full, nil
}

// maxClientInfo limits clientInfo and capabilities together, in bytes: they are
// kept for the life of the session and sent to its upstream servers.
const maxClientInfo = 2 << 20

// checkClientSize returns an error if clientInfo and capabilities are too long.
func checkClientSize(info, capabilities []byte) *jsonrpc.Error {
	if len(info)+len(capabilities) > maxClientInfo {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "clientInfo and capabilities: want at most 2 MiB"}
	}
	return nil
}

// checkClient checks a stateless request's version, capabilities and method.
func (m *Message) checkClient() *jsonrpc.Error {
	if !revision.Supported(m.Client.Version) || !revision.Stateless(m.Client.Version) {
		return unsupported(m.Client.Version)
	}
	if !bytes.HasPrefix(m.Client.Capabilities, []byte("{")) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params._meta: io.modelcontextprotocol/clientCapabilities: want an object"}
	}
	if rpcErr := checkClientSize(m.Client.Info, m.Client.Capabilities); rpcErr != nil {
		return rpcErr
	}
	switch m.Method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list":
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: m.Method + ": not part of " + m.Client.Version}
	}
	return nil
}

func unsupported(version string) *jsonrpc.Error {
	data, _ := json.Marshal(map[string]any{"supported": revision.SupportedVersions(), "requested": version}) // strings always marshal
	return &jsonrpc.Error{Code: revision.CodeUnsupportedVersion, Message: "Unsupported protocol version", Data: data}
}
