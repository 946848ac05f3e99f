package revision

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

// Params holds indexes of the params of one request and of their _meta, so that several
// lookups need one walk.
type Params struct {
	jsonrpc.Index               // of the params
	Meta          jsonrpc.Index // of their _meta; empty if absent
}

// NewParams indexes the params of a parsed message; nil params are empty.
func NewParams(raw []byte) Params { return ParamsOf(jsonrpc.NewIndex(raw)) }

// ParamsOf returns the params with index x.
func ParamsOf(x jsonrpc.Index) Params {
	p := Params{Index: x}
	p.Meta = jsonrpc.NewIndex(p.Get("_meta"))
	return p
}

// Client returns the request's description of its client, or nil if the request has no
// protocol version and so belongs to the handshake era.
func (p *Params) Client() *Client {
	version, ok := jsonrpc.String(p.Meta.Get(keyVersion))
	if !ok {
		return nil
	}
	client := &Client{Version: version}
	for m := range p.Meta.All() {
		switch string(m.Name) {
		case keyInfo:
			client.Info = json.RawMessage(m.Value)
		case keyCapabilities:
			client.Capabilities = json.RawMessage(m.Value)
		case keyLogLevel:
			client.LogLevel, _ = jsonrpc.String(m.Value)
		}
	}
	return client
}

// Token returns the raw progress token of the request, or nil if it has none.
func (p *Params) Token() []byte { return p.Meta.Get(keyToken) }

// targetMember returns the member of a method's params that says what the request is for; "" if there is none.
func targetMember(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read":
		return "uri"
	case "completion/complete":
		return "ref"
	}
	return ""
}

// Named returns an object with the member of the params that the Mcp-Name header of a request repeats, with
// the value target unless that is nil. The other members, which may be large, need not be decoded for it.
func (p *Params) Named(method string, target []byte) []byte {
	member := targetMember(method)
	if target == nil {
		target = p.Get(member)
	}
	if target == nil {
		return []byte("{}")
	}
	return jsonrpc.Set(nil, member, target)
}

// Change describes how a request's params differ on the next hop.
type Change struct {
	Method string  // of the request; in tools/call, absent or null "arguments" become {}
	Target []byte  // new raw value of the member that says what the request is for; nil if it is unchanged
	Token  []byte  // raw progress token of the next hop; nil if no progress is wanted
	Client *Client // description of the client for a stateless server; nil for one with a handshake
}

// Append appends the params for the next hop to dst. It appends the original bytes if c changes
// nothing and there is no _meta: none if there are no params.
func (p *Params) Append(dst []byte, c Change) []byte {
	arguments := p.Get("arguments")
	missing := c.Method == "tools/call" && (arguments == nil || string(arguments) == "null")
	if c.Token == nil && c.Client == nil && c.Target == nil && !missing && p.Get("_meta") == nil {
		return append(dst, p.Raw()...)
	}
	member := targetMember(c.Method)
	out := append(dst, '{')
	for m := range p.All() {
		switch name := string(m.Name); {
		case name == "_meta", missing && name == "arguments":
		case c.Target != nil && name == member:
			out = jsonrpc.AppendMember(out, member, c.Target)
		default:
			out = m.Append(out)
		}
	}
	if missing {
		out = jsonrpc.AppendMember(out, "arguments", []byte("{}"))
	}
	if meta := nextMeta(&p.Meta, c); meta != nil {
		out = jsonrpc.AppendMember(out, "_meta", meta)
	}
	return append(out, '}')
}

// Translate is [Params.Append] for raw params.
func Translate(params []byte, c Change) []byte {
	p := NewParams(params)
	return p.Append(nil, c)
}

// nextMeta returns the _meta for the next hop, or nil if it would be empty.
func nextMeta(meta *jsonrpc.Index, c Change) []byte {
	out := []byte{'{'}
	for m := range meta.All() {
		if !OfHop(m.Name) && string(m.Name) != keyToken {
			out = m.Append(out)
		}
	}
	if c.Token != nil {
		out = jsonrpc.AppendMember(out, keyToken, c.Token)
	}
	if c.Client != nil {
		out = appendClient(out, c.Client)
	}
	if len(out) == len("{") {
		return nil
	}
	return append(out, '}')
}

// appendClient appends the members of _meta that describe the client to a stateless server.
func appendClient(out []byte, client *Client) []byte {
	out = jsonrpc.AppendMember(out, keyVersion, jsonrpc.AppendString(nil, client.Version))
	if client.Info != nil {
		out = jsonrpc.AppendMember(out, keyInfo, client.Info)
	}
	capabilities := []byte(client.Capabilities)
	if capabilities == nil {
		capabilities = []byte("{}")
	}
	out = jsonrpc.AppendMember(out, keyCapabilities, capabilities)
	if client.LogLevel != "" {
		out = jsonrpc.AppendMember(out, keyLogLevel, jsonrpc.AppendString(nil, client.LogLevel))
	}
	return out
}

// Result translates a result from one hop to the next. Between two hops of the handshake
// era it returns the result without reading it. Clients of that era reject structuredContent
// that is not an object, so it is wrapped in one, as the reference servers do.
func Result(result []byte, method string, fromStateless, toStateless bool) []byte {
	if fromStateless {
		result = withoutServer(result)
		if !toStateless {
			result = jsonrpc.Delete(result, func(name []byte) bool { return string(name) == "resultType" })
			if v := jsonrpc.Get(result, "structuredContent"); method == "tools/call" && v != nil && v[0] != '{' {
				result = jsonrpc.Set(result, "structuredContent", jsonrpc.Set(nil, "result", v))
			}
		}
	}
	if toStateless {
		result = Complete(result, method)
	}
	return result
}

// Tool translates a tool for a client of the handshake era, which rejects a whole list if one
// outputSchema in it is not that of an object.
func Tool(raw []byte) []byte {
	if schema := jsonrpc.Get(raw, "outputSchema"); schema == nil || jsonrpc.Text(schema, "type") == "object" {
		return raw
	}
	return jsonrpc.Delete(raw, func(name []byte) bool { return string(name) == "outputSchema" })
}

// withoutServer removes serverInfo and other keys of the hop from a result's _meta: on the
// next hop the server is this proxy.
func withoutServer(result []byte) []byte {
	meta := jsonrpc.Get(result, "_meta")
	kept := jsonrpc.Delete(meta, OfHop)
	if len(kept) == len(meta) {
		return result
	}
	if index := jsonrpc.NewIndex(kept); index.Len() == 0 {
		return jsonrpc.Delete(result, func(name []byte) bool { return string(name) == "_meta" })
	}
	return jsonrpc.Set(result, "_meta", kept)
}

// cacheable holds the methods of which complete results must have caching hints in the
// stateless revision.
var cacheable = []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}

// Complete adds the members that a stateless revision requires of a result, if they are
// missing: resultType and, for cacheable methods, hints that allow no caching.
func Complete(result []byte, method string) []byte {
	body := bytes.TrimLeft(result, " \t\r\n")
	if len(body) == 0 || body[0] != '{' {
		return result // not an object, so not a valid result of MCP
	}
	members := jsonrpc.NewIndex(body)
	out := []byte{'{'}
	kind := members.Get("resultType")
	if kind == nil {
		out = jsonrpc.AppendMember(out, "resultType", []byte(`"complete"`))
	}
	if slices.Contains(cacheable, method) && (kind == nil || string(kind) == `"complete"`) {
		if members.Get("ttlMs") == nil {
			out = jsonrpc.AppendMember(out, "ttlMs", []byte("0"))
		}
		if members.Get("cacheScope") == nil {
			out = jsonrpc.AppendMember(out, "cacheScope", []byte(`"private"`))
		}
	}
	if len(out) == len("{") {
		return result
	}
	if members.Len() == 0 {
		return append(out, '}')
	}
	return append(append(out, ','), bytes.TrimLeft(body[1:], " \t\r\n")...)
}

// Error translates a raw error object for the next hop: the stateless revision has no
// code for a resource that was not found.
func Error(object []byte, method string, toStateless bool) []byte {
	if toStateless && method == "resources/read" && string(jsonrpc.Get(object, "code")) == strconv.Itoa(CodeResourceNotFound) {
		return jsonrpc.Set(object, "code", strconv.AppendInt(nil, jsonrpc.CodeInvalidParams, 10))
	}
	return object
}
