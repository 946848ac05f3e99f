package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Client is what a client says of itself when it connects. A server is told
// the same, so that it sees the client and not the proxy.
type Client struct {
	Version      string          // the revision it speaks; "" as the newest with a handshake
	Info         json.RawMessage // clientInfo; nil: this proxy's own
	Capabilities json.RawMessage // nil: none
}

func (c Client) hop() revision.Hop {
	return revision.Hop{Version: revision.Latest, Info: c.info(), Capabilities: c.capabilities()}
}

func (c Client) info() json.RawMessage {
	if c.Info != nil {
		return c.Info
	}
	return json.RawMessage(`{"name":"mcpschedd","version":"0"}`)
}

func (c Client) capabilities() json.RawMessage {
	if c.Capabilities != nil {
		return c.Capabilities
	}
	return json.RawMessage(`{}`)
}

// discoverTimeout bounds the probe for a stateless server: an older one may
// ignore what comes before its handshake.
const discoverTimeout = 5 * time.Second

// handshake agrees on a revision with the server and returns what it says of
// itself, lists aside. A client of one era is matched with a server's same era
// where it has both, so that nothing needs translating. legacy says that the
// server is known to have no stateless revision, or to end when asked for it.
func (c *conn) handshake(ctx context.Context, client Client, legacy bool) (*Offer, error) {
	var probe error // why discover failed; nil if it was not tried
	if revision.Stateless(client.Version) && !legacy {
		quick, cancel := context.WithTimeout(ctx, discoverTimeout)
		defer cancel()
		offer, err := c.discover(quick, client)
		if err == nil || fatal(err) || ctx.Err() != nil {
			return offer, err
		}
		probe = err
	}
	offer, err := c.initialize(ctx, client)
	if err == nil {
		offer.Legacy = legacy || refused(probe)
		return offer, nil
	}
	if !refused(err) || refused(probe) {
		return nil, errors.Join(err, probe)
	}
	if offer, again := c.discover(ctx, client); again == nil {
		return offer, nil // it has no handshake, and was slow to say so
	}
	return nil, errors.Join(err, probe)
}

// refused reports whether the server answered with an error, as against not at
// all.
func refused(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

// fatal reports whether an error of the probe ends the handshake: the
// connection is gone, or wants what only a person can give, or the server is
// stateless and speaks none of our revisions.
func fatal(err error) bool {
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return revision.Modern(answer.Code)
	}
	_, auth := errors.AsType[*authRequired](err)
	_, other := errors.AsType[*notStreamable](err)
	return auth || !other && (errors.Is(err, errClosed) || errors.Is(err, errEnded))
}

// discover asks a server of the stateless era what it is.
func (c *conn) discover(ctx context.Context, client Client) (*Offer, error) {
	c.speak(revision.Latest)
	result, err := c.ask(ctx, &Request{Method: "server/discover", Hop: client.hop()})
	if err != nil {
		c.speak("")
		return nil, err
	}
	var versions []string
	for v := range jsonrpc.Elements(jsonrpc.Get(result, "supportedVersions")) {
		if s, ok := jsonrpc.String(v); ok {
			versions = append(versions, s)
		}
	}
	if !slices.Contains(versions, revision.Latest) {
		c.speak("")
		return nil, fmt.Errorf("server/discover: speaks %q, none of which is known here", versions)
	}
	return bounded(&Offer{
		Version:      revision.Latest,
		Server:       json.RawMessage(revision.ServerInfo(result)),
		Capabilities: json.RawMessage(jsonrpc.Get(result, "capabilities")),
		Instructions: text(jsonrpc.Get(result, "instructions")),
	})
}

// maxCapabilities (bytes) bounds what a server may say that it can do: it is
// joined with the others', member by member.
const maxCapabilities = 64 << 10

func bounded(o *Offer) (*Offer, error) {
	if len(o.Capabilities) > maxCapabilities {
		return nil, fmt.Errorf("capabilities: want at most %d bytes, have %d", maxCapabilities, len(o.Capabilities))
	}
	return o, nil
}

// initialize opens a session with a server of the handshake era.
func (c *conn) initialize(ctx context.Context, client Client) (*Offer, error) {
	version := revision.Negotiate(client.Version)
	params := jsonrpc.AppendString([]byte(`{"protocolVersion":`), version)
	params = append(append(params, `,"capabilities":`...), client.capabilities()...)
	params = append(append(params, `,"clientInfo":`...), client.info()...)
	result, err := c.ask(ctx, &Request{Method: "initialize", Params: append(params, '}')})
	if err != nil {
		return nil, err
	}
	version = text(jsonrpc.Get(result, "protocolVersion"))
	if !revision.Supported(version) || revision.Stateless(version) {
		return nil, fmt.Errorf("initialize: server speaks revision %q, want one of %q", version, revision.SupportedVersions()[1:])
	}
	c.speak(version)
	c.notify("notifications/initialized", nil)
	return bounded(&Offer{
		Version:      version,
		Server:       json.RawMessage(jsonrpc.Get(result, "serverInfo")),
		Capabilities: json.RawMessage(jsonrpc.Get(result, "capabilities")),
		Instructions: text(jsonrpc.Get(result, "instructions")),
	})
}

// speak sets the revision of all later messages.
func (c *conn) speak(version string) {
	c.version.Store(&version)
	if l, ok := c.link.(interface{ setVersion(string) }); ok {
		l.setVersion(version)
	}
}

// ask sends a request of the proxy's own and returns its result.
func (c *conn) ask(ctx context.Context, req *Request) ([]byte, error) {
	a := c.call(ctx, req, func() {})
	if a.err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, a.err)
	}
	if a.msg.Error != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, readError(a.msg.Error))
	}
	return a.msg.Result, nil
}

// maxPages bounds how many pages of one list are read.
const maxPages = 1000

// list reads all pages of one list.
func (c *conn) list(ctx context.Context, l List, hop revision.Hop) ([]Item, error) {
	var all []Item
	var params []byte
	for range maxPages {
		result, err := c.ask(ctx, &Request{Method: l.Method(), Params: params, Hop: hop})
		if err != nil {
			return nil, err
		}
		all = append(all, items(l, jsonrpc.Get(result, l.Member()))...)
		cursor := jsonrpc.Get(result, "nextCursor")
		if cursor == nil || string(cursor) == "null" {
			return all, nil
		}
		next := append(append([]byte(`{"cursor":`), cursor...), '}')
		if string(next) == string(params) {
			return nil, fmt.Errorf("%s: the same cursor %s came twice", l.Method(), cursor)
		}
		params = next
	}
	return nil, fmt.Errorf("%s: more than %d pages", l.Method(), maxPages)
}

// readError reads a raw error object, for errors that stay inside the proxy.
func readError(object []byte) *jsonrpc.Error {
	var code int
	_ = json.Unmarshal(jsonrpc.Get(object, "code"), &code) // no number: 0
	return &jsonrpc.Error{Code: code, Message: text(jsonrpc.Get(object, "message")), Data: jsonrpc.Get(object, "data")}
}

func text(raw []byte) string {
	s, _ := jsonrpc.String(raw)
	return s
}
