package front

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/age"
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
// their client. One in which nothing has been open for a while is idle: it may make room
// for another, and ends in the end.
type httpSession struct {
	intake
	all     *sessions
	key     sessionKey
	stream  *queue         // what belongs to no request; nil of a pool
	streams atomic.Int64   // open GET streams
	serving sync.WaitGroup // requests, the answers to which go out on stream

	// Guarded by all.mu.
	open  int         // requests and streams
	left  age.Moment  // when open fell to 0
	over  bool        // the session has ended, or is about to
	timer *time.Timer // ends the session when it has been idle for long
}

// sessions are those over HTTP. Each ends when it has been idle for a while, or the
// longest of all when there is no room for a new one. One token guards the whole
// server, so every holder of an id is the same principal; without a token all clients
// are.
type sessions struct {
	*Options
	requests atomic.Int64 // in flight, of all

	mu       sync.Mutex // its holder may ask a session what is pending
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
	return all.addLocked(&httpSession{key: sessionKey{t, only, id}, stream: stream}, Client{Only: only, ID: id, Out: stream})
}

// pool returns the session shared by all stateless requests of clients that can
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
	if s := all.found[key]; s != nil && s.enterLocked() {
		return s, nil
	}
	return all.addLocked(&httpSession{key: key}, Client{Only: only, Pool: true, Anonymous: all.HTTP.Token == ""})
}

// find returns the session of that id and enters it; nil if there is none.
func (all *sessions) find(t transport, id, only string) *httpSession {
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.found[sessionKey{t, only, id}]; s != nil && s.enterLocked() {
		return s
	}
	return nil
}

// addLocked begins the session of s, if there is room for it, and lets requests
// find it until it ends.
func (all *sessions) addLocked(s *httpSession, c Client) (*httpSession, *jsonrpc.Error) {
	if bad := all.makeRoomLocked(); bad != nil {
		return nil, bad
	}
	n := all.NewSession(c)
	if n.Context().Err() != nil {
		n.End(ErrEnded)
		return nil, shuttingDown
	}
	s.intake, s.all, s.open = intake{log: all.Log, all: &all.requests, Session: n}, all, 1
	s.timer = time.AfterFunc(all.HTTP.SessionIdle, s.expire)
	all.found[s.key] = s
	all.alive++
	context.AfterFunc(n.Context(), s.remove)
	return s, nil
}

// makeRoomLocked ends the session that has been idle for longest if its
// principal has as many as it may. Sessions that are still ending have processes
// too, so they count, but not against the principal's share. One with a task that runs
// makes no room, although nothing of it is open between two questions about the task.
func (all *sessions) makeRoomLocked() *jsonrpc.Error {
	open, longest := 0, time.Duration(-1)
	var oldest *httpSession
	for _, s := range all.found {
		if s.over || s.Context().Err() != nil {
			continue
		}
		open++
		idle, unused := s.idleLocked()
		if _, task := s.Pending(); unused && !task && idle > longest {
			oldest, longest = s, idle
		}
	}
	full := open >= max(1, all.HTTP.MaxSessions/4)
	switch {
	case all.closed:
		return shuttingDown
	case full && oldest == nil:
		return allBusy
	case full:
		oldest.over = true
		all.evicting.Go(func() { oldest.End(errEvicted) })
		all.Log.Info("longest idle session ended for a new one", "sessions", open)
	}
	if all.alive >= all.HTTP.MaxSessions {
		return stillEnding
	}
	return nil
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

// enterLocked keeps the session from ending as idle until leave; false: it has ended.
// Timers stop while the machine sleeps, so the age is looked at here as well.
func (s *httpSession) enterLocked() bool {
	if s.over || s.Context().Err() != nil {
		return false
	}
	if idle, _ := s.idleLocked(); idle >= s.all.HTTP.SessionIdle {
		s.timer.Reset(0)
		return false
	}
	s.open++
	return true
}

// leave is the end of a request or stream.
func (s *httpSession) leave() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.open--; s.open == 0 {
		s.left = s.all.Clock()
	}
}

// idleLocked is how long nothing has been open; false: something is. A call that waits
// for its client's answers is open too.
func (s *httpSession) idleLocked() (time.Duration, bool) {
	if suspended, _ := s.Pending(); s.open > 0 || suspended {
		return 0, false
	}
	return s.all.Clock().Since(s.left), true
}

// expire ends the session if it has been idle for long enough.
func (s *httpSession) expire() {
	if s.expired() {
		s.End(errIdle)
	}
}

// expired lets no request into a session that has been idle for long enough; any other
// is looked at again when it may have been.
func (s *httpSession) expired() bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.over { // its timer, set again, would keep it for ever
		return false
	}
	idle, _ := s.idleLocked()
	if wait := s.all.HTTP.SessionIdle - idle; wait > 0 {
		s.timer.Reset(wait)
		return false
	}
	s.over = true
	return true
}

// remove lets no request into a session that ends, and counts it until it has ended.
func (s *httpSession) remove() {
	all := s.all
	all.mu.Lock()
	s.over = true
	s.timer.Stop()
	if all.found[s.key] == s {
		delete(all.found, s.key)
	}
	all.mu.Unlock()
	if s.stream != nil {
		s.stream.close()
	}
	s.End(ErrEnded) // which has begun, and is waited for
	all.mu.Lock()
	all.alive--
	all.mu.Unlock()
}
