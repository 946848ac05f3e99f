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

func (c Client) hop() *revision.Hop {
	return &revision.Hop{Version: revision.Latest, Info: c.Info, Capabilities: c.Capabilities}
}

// noCapabilities are those of a client that cannot be asked for anything.
var noCapabilities = json.RawMessage("{}")

// forServer is what a server is told of a client.
func (s *Spec) forServer(c Client) Client {
	if c.Info == nil {
		c.Info = json.RawMessage(`{"name":"mcpschedd","version":"0"}`)
	}
	if c.Capabilities == nil || s.NoCapabilities {
		c.Capabilities = noCapabilities
	}
	return c
}

// discoverTimeout bounds the probe for a stateless server: an older one may
// ignore what comes before its handshake.
const discoverTimeout = 5 * time.Second

// negotiate agrees on a revision with the server and returns what it says of
// itself, lists aside. If the server has revisions of both eras, one of the client's
// era is chosen, so that nothing needs translating. legacy says that the server is
// known to have no stateless revision, or to end when asked for it.
func (c *conn) negotiate(ctx context.Context, client Client, legacy bool) (*Offer, error) {
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

// refused reports whether the server answered, with an error.
func refused(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

// fatal reports whether an error of the probe ends the handshake: the connection has
// ended, the server wants other credentials, or it is stateless and speaks none of our
// revisions.
func fatal(err error) bool {
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return revision.Modern(answer.Code)
	}
	return denied(err) || !older(err) && (errors.Is(err, errClosed) || errors.Is(err, errEnded))
}

// discover asks a server of the stateless era what it is.
func (c *conn) discover(ctx context.Context, client Client) (offer *Offer, err error) {
	c.setRevision(revision.Latest)
	defer func() {
		if err != nil {
			c.setRevision("")
		}
	}()
	result, err := c.ask(ctx, &Request{Method: "server/discover", Hop: client.hop()})
	if err != nil {
		return nil, err
	}
	var versions []string
	for v := range jsonrpc.Elements(jsonrpc.Get(result, "supportedVersions")) {
		versions = append(versions, text(v))
	}
	if !slices.Contains(versions, revision.Latest) {
		return nil, fmt.Errorf("server/discover: speaks %q, none of which is known here", versions)
	}
	return readOffer(result, revision.Latest, revision.ServerInfo(result))
}

// maxCapabilities (bytes) bounds the capabilities of a server: they are joined with
// those of the others, member by member.
const maxCapabilities = 64 << 10

// readOffer reads what a server says of itself, lists aside.
func readOffer(result []byte, version string, server []byte) (*Offer, error) {
	capabilities := jsonrpc.Get(result, "capabilities")
	if len(capabilities) > maxCapabilities {
		return nil, fmt.Errorf("capabilities: want at most %d bytes, have %d", maxCapabilities, len(capabilities))
	}
	return &Offer{Version: version, Server: server, Capabilities: capabilities, Instructions: text(jsonrpc.Get(result, "instructions"))}, nil
}

// initialize opens a session with a server of the handshake era.
func (c *conn) initialize(ctx context.Context, client Client) (*Offer, error) {
	version := revision.Negotiate(client.Version)
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, version, client.Capabilities, client.Info)
	result, err := c.ask(ctx, &Request{Method: "initialize", Params: params})
	if err != nil {
		return nil, err
	}
	version = text(jsonrpc.Get(result, "protocolVersion"))
	if !revision.Supported(version) || revision.Stateless(version) {
		return nil, fmt.Errorf("initialize: server speaks revision %q, want one of %q", version, revision.SupportedVersions()[1:])
	}
	c.setRevision(version)
	c.initialized(ctx)
	return readOffer(result, version, jsonrpc.Get(result, "serverInfo"))
}

// initializedWait is how long the server may take over notifications/initialized.
const initializedWait = 5 * time.Second

// initialized tells the server that the handshake is over. Over HTTP nothing must
// overtake that, so it waits until the server has taken it, but not for ever: a server
// that holds the response back may still answer other messages.
func (c *conn) initialized(ctx context.Context) {
	taken := make(chan struct{})
	line := jsonrpc.AppendNotification(nil, "notifications/initialized", nil)
	// A server that takes longer than the handshake waits may go on.
	if c.link.send(context.Background(), outgoing{line: line, taken: func() { close(taken) }}) != nil {
		return // the connection has ended, which the next request finds
	}
	select {
	case <-taken:
	case <-time.After(initializedWait):
	case <-ctx.Done():
	}
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
