package revision

import (
	"bytes"
	"slices"

	"mcpschedd/internal/jsonrpc"
)

// Change says how a request's params differ on the next hop.
type Change struct {
	Member    string // the member that names the target ("name", "uri"); "": none is renamed
	Target    []byte // its new value, raw JSON; nil: as it was
	Token     []byte // the progress token of the next hop, raw; nil: none is wanted
	Hop       *Hop   // what a stateless server is told of the client; nil: the server has had a handshake
	Arguments bool   // an absent or null "arguments" becomes {}
}

// Translate returns the params as the next hop wants them: the bytes that they were
// made from, where there is nothing to change.
func (p *Params) Translate(c Change) []byte {
	given := p.Get("arguments")
	lacking := c.Arguments && (given == nil || string(given) == "null")
	if c.Token == nil && c.Hop == nil && c.Target == nil && !lacking && p.Get("_meta") == nil {
		return p.Raw()
	}
	meta := nextMeta(&p.Meta, c)
	out := append(make([]byte, 0, len(p.Raw())+len(meta)+len(c.Target)+32), '{')
	for m := range p.All() {
		switch name := string(m.Name); {
		case name == "_meta", lacking && name == "arguments":
		case c.Target != nil && name == c.Member:
			out = jsonrpc.AppendMember(out, c.Member, c.Target)
		default:
			out = m.Append(out)
		}
	}
	if lacking {
		out = jsonrpc.AppendMember(out, "arguments", []byte("{}"))
	}
	if meta != nil {
		out = jsonrpc.AppendMember(out, "_meta", meta)
	}
	return append(out, '}')
}

// Translate is [Params.Translate] for params that are asked nothing else.
func Translate(params []byte, c Change) []byte {
	p := NewParams(params)
	return p.Translate(c)
}

// nextMeta returns the next hop's _meta, nil if it would be empty.
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
	if c.Hop != nil {
		out = appendHop(out, c.Hop)
	}
	if len(out) == len("{") {
		return nil
	}
	return append(out, '}')
}

// appendHop appends the members that tell a stateless server of its client.
func appendHop(out []byte, h *Hop) []byte {
	out = jsonrpc.AppendMember(out, keyVersion, jsonrpc.AppendString(nil, h.Version))
	if h.Info != nil {
		out = jsonrpc.AppendMember(out, keyInfo, h.Info)
	}
	capabilities := []byte(h.Capabilities)
	if capabilities == nil {
		capabilities = []byte("{}")
	}
	out = jsonrpc.AppendMember(out, keyCapabilities, capabilities)
	if h.LogLevel != "" {
		out = jsonrpc.AppendMember(out, keyLogLevel, jsonrpc.AppendString(nil, h.LogLevel))
	}
	return out
}

// Result carries a result from one hop to the next. With both hops of the
// handshake era it is returned untouched and unread.
func Result(result []byte, method string, fromStateless, toStateless bool) []byte {
	if fromStateless {
		result = withoutServer(result)
		if !toStateless {
			result = jsonrpc.Delete(result, func(name []byte) bool { return string(name) == "resultType" })
		}
	}
	if toStateless {
		result = Complete(result, method)
	}
	return result
}

// withoutServer cuts what the server says of itself out of a result's _meta:
// on the next hop the server is this proxy.
func withoutServer(result []byte) []byte {
	meta := jsonrpc.Get(result, "_meta")
	if !bytes.Contains(meta, []byte(keyServerInfo)) {
		return result
	}
	kept := jsonrpc.Delete(meta, OfHop)
	if index := jsonrpc.NewIndex(kept); index.Len() == 0 {
		return jsonrpc.Delete(result, func(name []byte) bool { return string(name) == "_meta" })
	}
	return jsonrpc.Set(result, "_meta", kept)
}

// cacheable are the methods on whose complete results the stateless revision demands
// caching hints.
var cacheable = []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}

// Complete adds what every result of a stateless revision must carry and the
// result lacks: its type and, where they are demanded, hints that promise nothing.
func Complete(result []byte, method string) []byte {
	body := bytes.TrimLeft(result, " \t\r\n")
	if len(body) == 0 || body[0] != '{' {
		return result // no object, so no result of MCP; not ours to mend
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

// InputRequired reports whether a result of a stateless server asks for input
// before it can be completed.
func InputRequired(result []byte) bool {
	return string(jsonrpc.Get(result, "resultType")) == `"input_required"`
}

// Error carries a raw error object to the next hop: the stateless revision
// withdrew the code for a resource that was not found.
func Error(object []byte, method string, toStateless bool) []byte {
	if toStateless && method == "resources/read" && string(jsonrpc.Get(object, "code")) == "-32002" {
		return jsonrpc.Set(object, "code", []byte("-32602"))
	}
	return object
}
