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

// Defaults of [HTTPOptions].
const (
	defaultIdle     = 30 * time.Minute
	defaultSessions = 256
)

// transport is the transport of a session.
type transport string

const (
	streamable transport = "streamable" // 2025-03-26 to 2025-11-25: Mcp-Session-Id
	legacySSE  transport = "sse"        // 2024-11-05: /sse and /message
	pooled     transport = "pool"       // stateless requests of clients with the same capabilities
)

// sessionKey identifies a session.
type sessionKey struct {
	transport transport
	only      string // see Client.Only
	name      string // session id, or the capabilities of the clients of a pool
}

// httpSession is a session over HTTP. It is idle while no request or stream is open. An
// idle session may be evicted for a new one, and ends after SessionIdle.
type httpSession struct {
	intake
	all     *sessions
	key     sessionKey
	stream  *queue         // messages that belong to no request; nil for a pool
	serving sync.WaitGroup // requests of the SSE transport

	// Guarded by all.mu.
	open      int         // requests and streams
	idleSince age.Moment  // when open became 0
	ending    bool        // the session has ended or is about to
	timer     *time.Timer // ends the session after SessionIdle
}

// sessions holds all sessions over HTTP. A session ends when it has been idle for
// SessionIdle; the one idle for longest ends when there is no room for a new one. One
// token guards the whole server, so all clients are the same principal, as they are
// without a token.
type sessions struct {
	*Options
	requests atomic.Int64 // in flight, of all sessions

	mu     sync.Mutex // may be held while Session.Pending is called
	closed bool
	byKey  map[sessionKey]*httpSession // sessions that requests may enter
	work   sync.WaitGroup              // ends of sessions
}

// begin creates a session and enters it.
func (all *sessions) begin(t transport, only string) (*httpSession, *jsonrpc.Error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	id, stream := rand.Text(), newQueue()
	return all.addLocked(&httpSession{key: sessionKey{t, only, id}, stream: stream}, Client{Only: only, ID: id, Out: stream})
}

// pool enters the session shared by all stateless clients with the given capabilities,
// and creates it if there is none. Capabilities are compared in canonical form, so that
// white space and the order of members do not matter, or as text if they have none.
func (all *sessions) pool(capabilities []byte, only string) (*httpSession, *jsonrpc.Error) {
	if canonical, ok := jsonrpc.AppendCanonical(nil, capabilities); ok {
		capabilities = canonical
	}
	key := sessionKey{pooled, only, string(capabilities)}
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.byKey[key]; s != nil && s.enterLocked() {
		return s, nil
	}
	return all.addLocked(&httpSession{key: key}, Client{Only: only, Pool: true, Anonymous: all.HTTP.Token == ""})
}

// find enters the session with the given id, or returns nil if there is none.
func (all *sessions) find(t transport, id, only string) *httpSession {
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.byKey[sessionKey{t, only, id}]; s != nil && s.enterLocked() {
		return s
	}
	return nil
}

// addLocked starts the session of s if there is room for it, and registers it until it
// ends.
func (all *sessions) addLocked(s *httpSession, c Client) (*httpSession, *jsonrpc.Error) {
	if all.closed {
		return nil, shuttingDown
	}
	if !all.makeRoomLocked() {
		return nil, noFreeSession
	}
	n := all.NewSession(c)
	if n.Context().Err() != nil {
		n.End(ErrEnded)
		return nil, shuttingDown
	}
	s.intake, s.all, s.open = intake{log: all.Log, all: &all.requests, Session: n}, all, 1
	s.timer = time.AfterFunc(all.HTTP.SessionIdle, s.expire)
	all.byKey[s.key] = s
	context.AfterFunc(n.Context(), s.remove)
	return s, nil
}

// makeRoomLocked evicts the session that has been idle for longest if the principal has
// reached its share of MaxSessions. It returns false if all are in use. A session with a running
// task is not evicted, although it has no open request between two polls of the task.
func (all *sessions) makeRoomLocked() bool {
	open, longest := 0, time.Duration(-1)
	var oldest *httpSession
	for _, s := range all.byKey {
		if s.ending || s.Context().Err() != nil {
			continue
		}
		open++
		idle, unused := s.idleLocked()
		if _, task := s.Pending(); unused && !task && idle > longest {
			oldest, longest = s, idle
		}
	}
	if open < max(1, all.HTTP.MaxSessions/4) {
		return true
	}
	if oldest == nil {
		return false
	}
	oldest.ending = true
	all.work.Go(func() { oldest.End(errEvicted) })
	all.Log.Info("longest idle session ended for a new one", "sessions", open)
	return true
}

// end ends every session, which answers its open requests, and returns when all have
// ended.
func (all *sessions) end(cause error) {
	all.mu.Lock()
	all.closed = true
	for _, s := range all.byKey {
		all.work.Go(func() { s.End(cause) })
	}
	all.mu.Unlock()
	all.work.Wait()
}

// enterLocked keeps the session from becoming idle until leave is called, or returns
// false if the session has ended. Timers stop while the machine sleeps, so enterLocked
// checks the idle time as well.
func (s *httpSession) enterLocked() bool {
	if s.ending || s.Context().Err() != nil {
		return false
	}
	if idle, _ := s.idleLocked(); idle >= s.all.HTTP.SessionIdle {
		s.timer.Reset(0)
		return false
	}
	s.open++
	return true
}

// leave ends a request or stream that entered the session.
func (s *httpSession) leave() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.open--; s.open == 0 {
		s.idleSince = s.all.Clock()
	}
}

// idleLocked returns how long the session has been idle, or false if it is not. A
// session with a suspended call is not idle.
func (s *httpSession) idleLocked() (time.Duration, bool) {
	if suspended, _ := s.Pending(); s.open > 0 || suspended {
		return 0, false
	}
	return s.all.Clock().Since(s.idleSince), true
}

// expire ends the session if it has been idle for SessionIdle, and else waits for the rest.
func (s *httpSession) expire() {
	s.all.mu.Lock()
	idle, _ := s.idleLocked()
	switch wait := s.all.HTTP.SessionIdle - idle; {
	case s.ending, s.all.closed: // resetting the timer would retain the session
	case wait > 0:
		s.timer.Reset(wait)
	default:
		s.ending = true
		s.all.work.Go(func() { s.End(errIdle) })
	}
	s.all.mu.Unlock()
}

// remove unregisters a session whose context is done.
func (s *httpSession) remove() {
	s.all.mu.Lock()
	s.ending = true
	s.timer.Stop()
	if s.all.byKey[s.key] == s {
		delete(s.all.byKey, s.key)
	}
	s.all.mu.Unlock()
	if s.stream != nil {
		s.stream.close()
	}
}
