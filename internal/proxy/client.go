package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// clientState owns what a session's client has said of itself.
type clientState struct {
	mu    sync.Mutex                  // held while known is replaced
	known atomic.Pointer[clientFacts] // nil: nothing yet
}

// clientFacts are what a client has said of itself so far. They are not changed once
// they can be seen.
type clientFacts struct {
	upstream.Client
	opened     time.Time // when the session was opened for it; zero: not yet
	negotiated string    // the revision agreed on in a handshake; "" before it, and in the stateless era
	level      string    // the log level it wants; "": it did not say
}

// facts is what is known now.
func (c *clientState) facts() *clientFacts {
	if f := c.known.Load(); f != nil {
		return f
	}
	return &clientFacts{}
}

// update changes what is known.
func (c *clientState) update(change func(*clientFacts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.facts()
	change(&next)
	c.known.Store(&next)
}

// handshake reports whether the client has opened the session with a handshake: one that
// has not, or has not yet, is sent nothing but what its requests ask for.
func (f *clientFacts) handshake() bool { return f.negotiated != "" }

// hop is what the facts say for a request that does not say it itself.
func (f *clientFacts) hop() revision.Hop {
	return revision.Hop{Version: revision.Latest, Info: f.Info, Capabilities: f.Capabilities, LogLevel: f.level}
}
