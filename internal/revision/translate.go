package revision

import (
	"bytes"

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

// Translate returns the params as the next hop wants them, and the bytes that they
// were made from where nothing differs.
func (p *Params) Translate(c Change) []byte {
	if p.same(c) {
		return p.Raw()
	}
	next := appendMeta(nil, &p.Meta, c)
	out := make([]byte, 0, len(p.Raw())+len(next)+len(c.Target)+32)
	out = append(out, '{')
	arguments := !c.Arguments
	for m := range p.All() {
		switch {
		case string(m.Name) == "_meta":
			continue
		case c.Target != nil && string(m.Name) == c.Member:
			out = appendMember(out, c.Member, c.Target)
		case c.Arguments && string(m.Name) == "arguments":
			arguments = true
			value := m.Value
			if string(value) == "null" {
				value = []byte("{}")
			}
			out = appendMember(out, "arguments", value)
		default:
			out = append(append(out, m.Raw...), ',')
		}
	}
	if !arguments {
		out = appendMember(out, "arguments", []byte("{}"))
	}
	if next != nil {
		out = appendMember(out, "_meta", next)
	}
	return closeObject(out)
}

// Translate is [Params.Translate] for params that are asked nothing else.
func Translate(params []byte, c Change) []byte {
	p := NewParams(params)
	return p.Translate(c)
}

// same reports whether c changes nothing.
func (p *Params) same(c Change) bool {
	if c.Hop != nil || c.Token != nil || c.Target != nil {
		return false
	}
	if p.Raw() == nil {
		return !c.Arguments
	}
	for m := range p.Meta.All() {
		if ofThisHop(m.Name) {
			return false
		}
	}
	if p.Repeated("_meta") {
		return false // the server might read the other
	}
	if c.Arguments {
		arguments := p.Get("arguments")
		return arguments != nil && string(arguments) != "null"
	}
	return true
}

// ofThisHop reports whether a key of a request's _meta is not passed on.
func ofThisHop(name []byte) bool { return hopKey(name) || string(name) == keyToken }

// appendMeta returns the next hop's _meta, nil if it would be empty.
func appendMeta(out []byte, meta *jsonrpc.Index, c Change) []byte {
	out = append(out, '{')
	for m := range meta.All() {
		if !ofThisHop(m.Name) {
			out = append(append(out, m.Raw...), ',')
		}
	}
	if c.Token != nil {
		out = appendMember(out, keyToken, c.Token)
	}
	if c.Hop != nil {
		out = appendHop(out, c.Hop)
	}
	if len(out) == 1 {
		return nil
	}
	return closeObject(out)
}

// appendHop appends the members that tell a stateless server of its client.
func appendHop(out []byte, h *Hop) []byte {
	out = appendMember(out, keyVersion, jsonrpc.AppendString(nil, h.Version))
	if h.Info != nil {
		out = appendMember(out, keyInfo, h.Info)
	}
	capabilities := []byte(h.Capabilities)
	if capabilities == nil {
		capabilities = []byte("{}")
	}
	out = appendMember(out, keyCapabilities, capabilities)
	if h.LogLevel != "" {
		out = appendMember(out, keyLogLevel, jsonrpc.AppendString(nil, h.LogLevel))
	}
	return out
}

func appendMember(out []byte, name string, value []byte) []byte {
	out = append(jsonrpc.AppendString(out, name), ':')
	return append(append(out, value...), ',')
}

// closeObject ends an object whose members each stand with a comma behind.
func closeObject(out []byte) []byte {
	if out[len(out)-1] == ',' {
		out[len(out)-1] = '}'
		return out
	}
	return append(out, '}')
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
		result = Complete(result, Cacheable(method))
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
	kept := jsonrpc.Delete(meta, hopKey)
	if jsonrpc.Get(result, "_meta") != nil && len(bytes.TrimSpace(kept)) <= 2 {
		return jsonrpc.Delete(result, func(name []byte) bool { return string(name) == "_meta" })
	}
	return jsonrpc.Set(result, "_meta", kept)
}

// Cacheable reports whether the stateless revision demands caching hints on
// complete results of method.
func Cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// Complete adds what every result of a stateless revision must carry and the
// result lacks: its type and, if cacheable, hints that promise nothing.
func Complete(result []byte, cacheable bool) []byte {
	kind, ttl, scope := false, false, false
	for m := range jsonrpc.Members(result) {
		switch string(m.Name) {
		case "resultType":
			kind = true
			cacheable = cacheable && string(m.Value) == `"complete"`
		case "ttlMs":
			ttl = true
		case "cacheScope":
			scope = true
		}
	}
	body := bytes.TrimLeft(result, " \t\r\n")
	if len(body) == 0 || body[0] != '{' {
		return result // no object, so no result of MCP; not ours to mend
	}
	add := make([]byte, 0, 80)
	if !kind {
		add = append(add, `"resultType":"complete",`...)
	}
	if cacheable && !ttl {
		add = append(add, `"ttlMs":0,`...)
	}
	if cacheable && !scope {
		add = append(add, `"cacheScope":"private",`...)
	}
	if len(add) == 0 {
		return result
	}
	rest := bytes.TrimLeft(body[1:], " \t\r\n")
	if rest[0] == '}' {
		add = add[:len(add)-1]
	}
	out := make([]byte, 0, 1+len(add)+len(rest))
	return append(append(append(out, '{'), add...), rest...)
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
