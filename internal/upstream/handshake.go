package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// noCapabilities are the capabilities of a client that accepts no requests.
var noCapabilities = json.RawMessage("{}")

// forServer returns the description of the client that the server gets: the client's own, not the
// proxy's.
func (s *Spec) forServer(c revision.Client) revision.Client {
	if c.Info == nil {
		c.Info = json.RawMessage(`{"name":"mcpschedd","version":"0"}`)
	}
	if c.Capabilities == nil || s.NoCapabilities {
		c.Capabilities = noCapabilities
	}
	c.LogLevel = "" // for the client's own requests only
	return c
}

const (
	// discoverTimeout limits server/discover: an older server may ignore requests before its
	// handshake.
	discoverTimeout = 5 * time.Second
	// initializedWait is how long to wait for the delivery of notifications/initialized.
	initializedWait = 5 * time.Second
)

// negotiate agrees on a revision and returns the server's description without its lists. If the
// server supports both eras, the client's era is used, so that messages need no translation.
// initializeFirst means that server/discover is not sent at first: the server is thought to have no
// stateless revision, or to exit.
func negotiate(ctx context.Context, c *conn, initializeFirst bool) (*Offer, error) {
	var probe error // why server/discover failed; nil if not tried
	if revision.Stateless(c.in.client.Version) && !initializeFirst {
		quick, cancel := context.WithTimeout(ctx, discoverTimeout)
		defer cancel()
		offer, err := discover(quick, c)
		if err == nil || endsConnection(err) || ctx.Err() != nil { // no other error shows that there is no handshake
			return offer, err
		}
		probe = err
	}
	offer, err := initialize(ctx, c)
	if err == nil {
		if answer := errorResponse(probe); answer != nil { // with another error of the stateless era it has a stateless revision
			offer.Legacy = answer.Code == revision.CodeUnsupportedVersion || !revision.Modern(answer.Code)
		}
		return offer, nil
	}
	if errorResponse(err) != nil && errorResponse(probe) == nil { // it has no handshake; there was no probe, or it timed out
		if offer, retryErr := discover(ctx, c); retryErr == nil {
			return offer, nil
		}
	}
	return nil, errors.Join(err, probe)
}

// discover sends server/discover, the handshake of the stateless era.
func discover(ctx context.Context, c *conn) (offer *Offer, err error) {
	c.version.Store(revision.Latest)
	defer func() {
		if err != nil {
			c.version.Store("")
		}
	}()
	result, err := c.ownRequest(ctx, &Request{Method: "server/discover", Client: &c.in.client})
	if err != nil {
		return nil, err
	}
	var versions []string
	_ = json.Unmarshal(jsonrpc.Get(result, "supportedVersions"), &versions) // what is no list of texts has no revision
	if !slices.Contains(versions, revision.Latest) {
		return nil, fmt.Errorf("server/discover: server supports revisions %q, want %q", strings.Join(versions, ", "), revision.Latest)
	}
	return readOffer(result, revision.Latest, revision.ServerInfo(result)), nil
}

// readOffer parses a server's description, without its lists.
func readOffer(result []byte, version string, server []byte) *Offer {
	capabilities := replaced(jsonrpc.Get(result, "capabilities"), absent)
	return &Offer{Version: version, Server: server, Capabilities: capabilities, Instructions: jsonrpc.Text(result, "instructions")}
}

// initialize performs the handshake of the older era.
func initialize(ctx context.Context, c *conn) (*Offer, error) {
	client := c.in.client
	version := revision.Negotiate(client.Version)
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, version, client.Capabilities, client.Info)
	result, err := c.ownRequest(ctx, &Request{Method: "initialize", Params: params})
	if err != nil {
		return nil, err
	}
	version = jsonrpc.Text(result, "protocolVersion")
	if !revision.Supported(version) || revision.Stateless(version) {
		return nil, fmt.Errorf("initialize: server speaks revision %q, want one of %s", version, strings.Join(revision.SupportedVersions()[1:], ", "))
	}
	c.version.Store(version)
	initialized(ctx, c)
	return readOffer(result, version, jsonrpc.Get(result, "serverInfo")), nil
}

// initialized sends notifications/initialized. Over HTTP it waits for delivery, as no request may
// overtake the notification. The wait is bounded, because a server that holds back the response
// may still answer other messages.
func initialized(ctx context.Context, c *conn) {
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

// listenRequest manages the subscriptions/listen request to a stateless server.
type listenRequest struct {
	mu     sync.Mutex         // held while the request is replaced, so that the latest change wins
	params []byte             // of the current request; nil if there is none
	stop   context.CancelFunc // cancels the current request; nil if there is none

	acknowledged atomic.Bool // a request of the connection was acknowledged
}

// listen opens the stream of change notifications: a subscriptions/listen request to a stateless
// server, replaced whenever the subscriptions change, or the GET stream of an older server over
// HTTP. It sends a new request before it cancels the old one, so that no change is missed. Over HTTP
// the server may receive it after the old one has ended: its acknowledgement invalidates cached answers, and
// the lists are read again. Not so for the first one, although a list that changes between its first reading and
// then is out of date until its next change: at each start all lists would be read twice.
func (in *instance) listen(c *conn) {
	if !c.stateless() {
		if l, ok := c.link.(*httpLink); ok && !l.sse {
			l.listen()
		}
		return
	}
	n := &c.listening
	n.mu.Lock()
	defer n.mu.Unlock()
	params := in.listenParams()
	if bytes.Equal(params, n.params) { // another session watches the same resources
		return
	}
	old := n.stop
	n.params, n.stop = params, nil
	if params != nil {
		ctx, stop := context.WithCancel(c.life)
		sent := make(chan struct{})
		if c.spawn(func() { keepListening(ctx, c, params, sync.OnceFunc(func() { close(sent) })) }) {
			<-sent
		}
		n.stop = stop
	}
	if old != nil {
		old()
	}
}

// listenParams returns the params of the listen request, or nil if there is nothing to listen
// for: the server would end such a request at once.
func (in *instance) listenParams() []byte {
	wanted := make(map[string]any)
	offer := in.offer.Load()
	for _, l := range []List{Tools, Prompts, Resources} {
		if string(jsonrpc.Get(jsonrpc.Get(offer.Capabilities, l.Capability()), "listChanged")) == "true" {
			wanted[l.Capability()+"ListChanged"] = true
		}
	}
	if uris := in.watched(); len(uris) > 0 {
		wanted["resourceSubscriptions"] = uris
	}
	if len(wanted) == 0 {
		return nil
	}
	params, _ := json.Marshal(map[string]any{"notifications": wanted}) // cannot fail
	return params
}

// keepListening sends the listen request, and repeats it with exponential backoff whenever it
// ends, until ctx or the connection ends or the server does not know the method. Changes between
// two streams may be missed. sent is called when the first request was sent or failed.
func keepListening(ctx context.Context, c *conn, params []byte, sent func()) {
	req := &Request{Method: "subscriptions/listen", Params: params, Client: &c.in.client, Sent: sent}
	for pause := backoff.NewExponentialBackOff(); ; {
		began := time.Now()
		_, err := c.ownRequest(ctx, req)
		sent() // in case it failed before it was sent
		answer := errorResponse(err)
		if ctx.Err() != nil || answer != nil && answer.Code == jsonrpc.CodeMethodNotFound {
			return
		}
		if answer == nil {
			c.in.up.o.Invalidated("gap")
		}
		if time.Since(began) >= stableAfter {
			pause.Reset()
		}
		if sleep(ctx, pause.NextBackOff()) != nil {
			return
		}
		if answer == nil {
			c.noteGap()
		}
	}
}
