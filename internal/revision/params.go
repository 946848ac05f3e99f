package revision

import (
	"encoding/json"

	"mcpschedd/internal/jsonrpc"
)

// Params are the params of one request, with their _meta: each an index that is
// made once and then serves all that is asked of the request.
type Params struct {
	jsonrpc.Index               // of the params
	Meta          jsonrpc.Index // of their _meta; without members if they have none
}

// NewParams indexes the params of a parsed message; nil are without members.
func NewParams(raw []byte) Params { return ParamsOf(jsonrpc.NewIndex(raw)) }

// ParamsOf are the params that have that index.
func ParamsOf(x jsonrpc.Index) Params {
	p := Params{Index: x}
	p.Meta = jsonrpc.NewIndex(p.Get("_meta"))
	return p
}

// Hop is what the request says of its client, nil where it names no protocol version: the
// request belongs to the handshake era.
func (p *Params) Hop() *Hop {
	version, ok := jsonrpc.String(p.Meta.Get(keyVersion))
	if !ok {
		return nil
	}
	hop := &Hop{Version: version}
	for m := range p.Meta.All() {
		switch string(m.Name) {
		case keyInfo:
			hop.Info = json.RawMessage(m.Value)
		case keyCapabilities:
			hop.Capabilities = json.RawMessage(m.Value)
		case keyLogLevel:
			hop.LogLevel, _ = jsonrpc.String(m.Value)
		}
	}
	return hop
}

// Token is the raw progress token of the request, nil if it has none.
func (p *Params) Token() []byte { return p.Meta.Get(keyToken) }
