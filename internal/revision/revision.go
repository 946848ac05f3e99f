// Package revision owns what differs between the revisions of MCP: which of
// them open with a handshake and which carry everything in each request, which
// keys of _meta belong to one hop, and how parameters and results are carried
// from a hop of one era to a hop of the other.
//
// The idea: a message is changed only where its two hops differ, by cutting
// and joining bytes; what is not named here travels as it came. Everything is
// a pure function. What is asked of the params of one request at several places is
// asked of [Params], which walks over their bytes once:
//
//	params := revision.NewParams(m.Params)
//	hop := params.Hop()
//	next := params.Translate(revision.Change{Member: "name", Target: tool, Token: id, Hop: hop})
//
// It knows neither connections nor sessions.
package revision

import (
	"encoding/json"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

const (
	// Latest is the newest revision; it is stateless: no handshake, the
	// version and capabilities stand in every request.
	Latest = mcp.ProtocolVersion20260728
	// LatestHandshake is the newest revision that opens with initialize.
	LatestHandshake = mcp.ProtocolVersion20251125
	// Batches is the only revision in which a message may be an array.
	Batches = mcp.ProtocolVersion20250326
)

// Stateless reports whether version belongs to the era without a handshake.
func Stateless(version string) bool { return mcp.IsModernProtocol(version) }

// Supported reports whether version is one this proxy speaks.
func Supported(version string) bool { return slices.Contains(mcp.ValidProtocolVersions, version) }

// SupportedVersions lists what this proxy speaks, newest first.
func SupportedVersions() []string { return slices.Clone(mcp.ValidProtocolVersions) }

// Negotiate answers the version of an initialize request: the one asked for if
// it is known and opens with a handshake, else the newest that does.
func Negotiate(asked string) string {
	if Supported(asked) && !Stateless(asked) {
		return asked
	}
	return LatestHandshake
}

// Error codes of the specification that JSON-RPC itself does not define.
const (
	CodeHeaderMismatch     = -32020 // 2026-07-28: an HTTP header contradicts the body
	CodeMissingCapability  = -32021 // 2026-07-28: the client did not declare what the request needs
	CodeUnsupportedVersion = -32022 // 2026-07-28: data.supported lists the versions
	CodeResourceNotFound   = -32002 // up to 2025-11-25; CodeInvalidParams since
)

// Modern reports whether code is one of the errors by which a server shows
// that it speaks a stateless revision.
func Modern(code int) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion
}

// Hop is what the client of one hop says of itself in every stateless request.
type Hop struct {
	Version      string
	Info         json.RawMessage // clientInfo; nil: not said
	Capabilities json.RawMessage // clientCapabilities; nil: not said, which a server must refuse
	LogLevel     string          // "" : no log messages wanted
}

const prefix = "io.modelcontextprotocol/"

// The keys of _meta that belong to one hop. Others under the same prefix
// (related-task, extensions) travel.
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

// Subscription returns the raw id of the listen request that a notification
// belongs to, nil if it names none.
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

// ServerInfo returns what the server of a stateless hop says of itself in a
// result's _meta, nil if nothing.
func ServerInfo(result []byte) []byte {
	return jsonrpc.Get(jsonrpc.Get(result, "_meta"), keyServerInfo)
}
