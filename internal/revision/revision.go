// Package revision implements the differences between the revisions of MCP: which
// revisions start with a handshake and which are stateless, which keys of _meta belong to
// one hop (a client's or a server's connection to the proxy), and how params and results
// are translated between the eras.
//
// A translation copies bytes and changes only the parts in which the two hops differ. All
// functions are pure. [Params] indexes the params of a request once for several lookups:
//
//	params := revision.NewParams(m.Params)
//	client := params.Client()
//	next := params.Append(nil, revision.Change{Method: "tools/call", Target: tool, Token: id, Client: client})
//
// The package does not know connections or sessions.
package revision

import (
	"encoding/json"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

const (
	// Latest is the newest revision. It is stateless: there is no handshake, and every
	// request has the version and capabilities.
	Latest = mcp.ProtocolVersion20260728
	// LatestHandshake is the newest revision that starts with initialize.
	LatestHandshake = mcp.ProtocolVersion20251125
	// Batches is the only revision that has batches: every receiver must accept them.
	Batches = mcp.ProtocolVersion20250326
)

// Stateless reports whether version belongs to the era without a handshake. A version that is not
// [Supported] is one of them if its text sorts after the first stateless version.
func Stateless(version string) bool { return mcp.IsModernProtocol(version) }

// Supported reports whether the proxy supports version.
func Supported(version string) bool { return slices.Contains(mcp.ValidProtocolVersions, version) }

// SupportedVersions returns the supported versions, newest first.
func SupportedVersions() []string { return slices.Clone(mcp.ValidProtocolVersions) }

// Negotiate returns the version for the response to initialize: the requested one if it
// is supported and has a handshake, else [LatestHandshake].
func Negotiate(requested string) string {
	if Supported(requested) && !Stateless(requested) {
		return requested
	}
	return LatestHandshake
}

// Error codes of the specification that JSON-RPC itself does not define.
const (
	CodeHeaderMismatch     = -32020 // 2026-07-28: an HTTP header contradicts the body
	CodeMissingCapability  = -32021 // 2026-07-28: the client lacks a capability that the request needs
	CodeUnsupportedVersion = -32022 // 2026-07-28: data.supported lists the versions
	CodeResourceNotFound   = -32002 // up to 2025-11-25; CodeInvalidParams since
)

// Modern reports whether code is an error that only servers of stateless revisions
// return.
func Modern(code int) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion
}

// Client describes a client: in a handshake, or in the _meta of every stateless request.
type Client struct {
	Version      string          // negotiated or declared protocol revision
	Info         json.RawMessage // clientInfo; nil if absent
	Capabilities json.RawMessage // clientCapabilities; nil if absent, which a server must refuse
	LogLevel     string          // "" if the client wants no log messages
}

// Handshake reports whether the client has made a handshake.
func (c *Client) Handshake() bool { return c.Version != "" && !Stateless(c.Version) }

const prefix = "io.modelcontextprotocol/"

// Keys of _meta that belong to one hop. Other keys with the same prefix (related-task,
// extensions) are forwarded.
const (
	keyVersion      = prefix + "protocolVersion"
	keyInfo         = prefix + "clientInfo"
	keyCapabilities = prefix + "clientCapabilities"
	keyLogLevel     = prefix + "logLevel"
	keySubscription = prefix + "subscriptionId"
	keyServerInfo   = prefix + "serverInfo"
	keyToken        = "progressToken"
)

// OfHop reports whether a key of _meta belongs to one hop.
func OfHop(name []byte) bool {
	switch string(name) {
	case keyVersion, keyInfo, keyCapabilities, keyLogLevel, keySubscription, keyServerInfo:
		return true
	}
	return false
}

// Subscription returns the raw id of the listen request that a notification belongs to,
// or nil if it has none.
func Subscription(params []byte) []byte {
	return jsonrpc.Get(jsonrpc.Get(params, "_meta"), keySubscription)
}

// WithSubscription returns params with the id of the listen request in _meta.
func WithSubscription(params, id []byte) []byte {
	if params == nil {
		params = []byte("{}")
	}
	meta := jsonrpc.Delete(jsonrpc.Get(params, "_meta"), OfHop)
	return jsonrpc.Set(params, "_meta", jsonrpc.Set(meta, keySubscription, id))
}

// ServerInfo returns the raw serverInfo in the _meta of a stateless server's result, or
// nil if absent.
func ServerInfo(result []byte) []byte {
	return jsonrpc.Get(jsonrpc.Get(result, "_meta"), keyServerInfo)
}
