package front

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// Of sessions over HTTP.
const (
	defaultIdle     = 30 * time.Minute
	defaultSessions = 256
)

// transport is the way a session's messages travel.
type transport string

const (
	streamable transport = "streamable" // 2025-03-26 to 2025-11-25: Mcp-Session-Id
	legacySSE  transport = "sse"        // 2024-11-05: /sse and /message
	pooled     transport = "pool"       // stateless requests that say the same of their clients
)

// sessionKey is by what requests find a session.
type sessionKey struct {
	transport transport
	only      string // its view
	name      string // its id, or what the clients of a pool say of themselves
}

// httpSession is a session that requests find by an id, or by what they say of
// their client.
type httpSession struct {
	intake
	use     use
	id      string         // "" of a pool
	stream  *queue         // what belongs to no request; nil of a pool
	streams atomic.Int64   // open GET streams
	serving sync.WaitGroup // requests whose answers go out on stream
}

// sessions are those over HTTP. Each ends when it has been idle for a while, or the
// longest of all when there is no room for a new one. One token guards the whole
// server, so every holder of an id is the same principal; without a token all clients
// are.
type sessions struct {
	*Options
	requests atomic.Int64 // in flight, of all

	mu       sync.Mutex
	closed   bool
	found    map[sessionKey]*httpSession // those that requests find
	alive    int                         // those included that are ending
	evicting sync.WaitGroup              // the ends of those that made room for others
}

// begin makes a session, entered by the caller.
func (all *sessions) begin(t transport, only string) (*httpSession, *jsonrpc.Error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	id, stream := rand.Text(), newQueue(all.Log)
	return all.addLocked(sessionKey{t, only, id}, &httpSession{id: id, stream: stream}, Client{Only: only, ID: id, Out: stream})
}

// pool returns the session shared by all stateless requests whose clients can
// do the same, and enters it. Capabilities are compared as values: white space and
// the order of members tell no two clients apart. What has no canonical form is
// compared as it is written.
func (all *sessions) pool(capabilities []byte, only string) (*httpSession, *jsonrpc.Error) {
	if can, ok := jsonrpc.AppendCanonical(nil, capabilities); ok {
		capabilities = can
	}
	key := sessionKey{pooled, only, string(capabilities)}
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.found[key]; s != nil && s.use.enter() {
		return s, nil
	}
	return all.addLocked(key, &httpSession{}, Client{Only: only, Pool: true, Anonymous: all.HTTP.Token == ""})
}

// find returns the session of that id and enters it; nil if there is none.
func (all *sessions) find(t transport, id, only string) *httpSession {
	all.mu.Lock()
	s := all.found[sessionKey{t, only, id}]
	all.mu.Unlock()
	if s == nil || !s.use.enter() {
		return nil
	}
	return s
}

// addLocked begins the session of s, if there is room for it, and lets requests
// find it under key until it ends.
func (all *sessions) addLocked(key sessionKey, s *httpSession, c Client) (*httpSession, *jsonrpc.Error) {
	if bad := all.makeRoomLocked(); bad != nil {
		return nil, bad
	}
	n := all.Handler(c)
	if n.Context().Err() != nil {
		n.End(ErrEnded)
		return nil, shuttingDown
	}
	s.intake = intake{log: all.Log, all: &all.requests, Session: n}
	s.use = use{of: n, clock: all.Clock, limit: all.HTTP.SessionIdle}
	s.use.begin()
	all.found[key] = s
	all.alive++
	context.AfterFunc(n.Context(), func() { all.remove(key, s) })
	return s, nil
}

// remove forgets a session that ends, and counts it until it has ended.
func (all *sessions) remove(key sessionKey, s *httpSession) {
	s.use.close()
	if s.stream != nil {
		s.stream.close()
	}
	all.mu.Lock()
	if all.found[key] == s {
		delete(all.found, key)
	}
	all.mu.Unlock()
	s.End(ErrEnded) // which has begun, and is waited for
	all.mu.Lock()
	all.alive--
	all.mu.Unlock()
}

// makeRoomLocked ends the session that has been idle for longest if its
// principal has as many as it may. Sessions that are still ending have processes
// too, so they count, but not against the principal's share.
func (all *sessions) makeRoomLocked() *jsonrpc.Error {
	if all.closed {
		return shuttingDown
	}
	for share := max(1, all.HTTP.MaxSessions/4); ; {
		open, oldest := all.longestIdleLocked()
		if open < share {
			break
		}
		if oldest == nil {
			return allBusy
		}
		if oldest.use.retire() {
			all.evicting.Go(func() { oldest.End(errEvicted) })
			all.Log.Info("longest idle session ended for a new one", "sessions", open)
		}
	}
	if all.alive >= all.HTTP.MaxSessions {
		return stillEnding
	}
	return nil
}

// longestIdleLocked counts the sessions that are open, and finds the one of those
// that may make room that was used longest ago; nil: none may.
func (all *sessions) longestIdleLocked() (open int, oldest *httpSession) {
	now := all.Clock()
	var longest time.Duration
	for _, s := range all.found {
		idle, since, over := s.use.state(now)
		if !over {
			open++
		}
		if idle && (oldest == nil || since > longest) {
			oldest, longest = s, since
		}
	}
	return open, oldest
}

// end ends every session; each then answers what is still open.
func (all *sessions) end(why error) {
	all.mu.Lock()
	all.closed = true
	var ending sync.WaitGroup
	for _, s := range all.found {
		ending.Go(func() { s.End(why) })
	}
	all.mu.Unlock()
	ending.Wait()
	all.evicting.Wait()
}
