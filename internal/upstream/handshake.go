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

// noCapabilities are the capabilities of a client that accepts no requests.
var noCapabilities = json.RawMessage("{}")

// forServer returns the client's description with what the server is told: it sees the client
// and not the proxy.
func (s *Spec) forServer(c revision.Client) revision.Client {
	if c.Info == nil {
		c.Info = json.RawMessage(`{"name":"mcpschedd","version":"0"}`)
	}
	if c.Capabilities == nil || s.NoCapabilities {
		c.Capabilities = noCapabilities
	}
	return c
}

// discoverTimeout limits server/discover: an older server may ignore requests before its
// handshake.
const discoverTimeout = 5 * time.Second

// negotiate agrees on a revision and returns the server's description without its lists. If the
// server supports both eras, the client's era is used, so that messages need no translation.
// legacy means that the server is known to have no stateless revision, or to exit on
// server/discover.
func (c *conn) negotiate(ctx context.Context, client revision.Client, legacy bool) (*Offer, error) {
	var probe error // why server/discover failed; nil if not tried
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
	if offer, retryErr := c.discover(ctx, client); retryErr == nil {
		return offer, nil // it has no handshake, and the probe timed out
	}
	return nil, errors.Join(err, probe)
}

// refused reports whether the server answered with a JSON-RPC error.
func refused(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

// fatal reports whether an error of the probe ends the handshake: the connection has ended, the
// server rejects the credentials, or it is stateless but shares no revision with us.
func fatal(err error) bool {
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return revision.Modern(answer.Code)
	}
	return denied(err) || !mayBeSSE(err) && (errors.Is(err, errClosed) || errors.Is(err, errEnded))
}

// discover sends server/discover, the handshake of the stateless era.
func (c *conn) discover(ctx context.Context, client revision.Client) (offer *Offer, err error) {
	c.setRevision(revision.Latest)
	defer func() {
		if err != nil {
			c.setRevision("")
		}
	}()
	result, err := c.ask(ctx, &Request{Method: "server/discover", Client: &client})
	if err != nil {
		return nil, err
	}
	var versions []string
	for v := range jsonrpc.Elements(jsonrpc.Get(result, "supportedVersions")) {
		versions = append(versions, text(v))
	}
	if !slices.Contains(versions, revision.Latest) {
		return nil, fmt.Errorf("server/discover: server supports revisions %q, want %q", versions, revision.Latest)
	}
	return readOffer(result, revision.Latest, revision.ServerInfo(result)), nil
}

// readOffer parses a server's description, without its lists.
func readOffer(result []byte, version string, server []byte) *Offer {
	return &Offer{Version: version, Server: server, Capabilities: jsonrpc.Get(result, "capabilities"), Instructions: text(jsonrpc.Get(result, "instructions"))}
}

// initialize performs the handshake of the older era.
func (c *conn) initialize(ctx context.Context, client revision.Client) (*Offer, error) {
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
	return readOffer(result, version, jsonrpc.Get(result, "serverInfo")), nil
}

// initializedWait is how long to wait for the delivery of notifications/initialized.
const initializedWait = 5 * time.Second

// initialized sends notifications/initialized. Over HTTP it waits for delivery, as no request may
// overtake the notification. The wait is bounded, because a server that holds back the response
// may still answer other messages.
func (c *conn) initialized(ctx context.Context) {
	done := make(chan struct{})
	line := jsonrpc.AppendNotification(nil, "notifications/initialized", nil)
	// Not ctx: a slow delivery may outlast the handshake.
	if c.link.send(context.Background(), outgoing{line: line, done: func() { close(done) }}) != nil {
		return // the connection has ended; the next request fails
	}
	select {
	case <-done:
	case <-time.After(initializedWait):
	case <-ctx.Done():
	}
}

// readError decodes a raw error object, for errors that the proxy handles itself.
func readError(object []byte) *jsonrpc.Error {
	var code int
	_ = json.Unmarshal(jsonrpc.Get(object, "code"), &code) // 0 if it is not a number
	return &jsonrpc.Error{Code: code, Message: text(jsonrpc.Get(object, "message")), Data: jsonrpc.Get(object, "data")}
}

func text(raw []byte) string {
	s, _ := jsonrpc.String(raw)
	return s
}
