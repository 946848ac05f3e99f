package revision

import (
	"encoding/json"

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
