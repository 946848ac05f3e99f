package front

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
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
	pooled     transport = "pool"       // stateless requests of clients with the same name and capabilities
)

// sessionKey identifies a session.
type sessionKey struct {
	transport transport
	only      string // see Client.Only
	name      string // session id, or the name and capabilities of the clients of a pool
}

// httpSession is a session over HTTP. It is idle while no request or stream is
// open. An idle session may be evicted for a new one, and ends after SessionIdle.
type httpSession struct {
	intake
	all    *sessions
	key    sessionKey
	stream *queue // messages that belong to no request; nil for a pool

	// Guarded by all.mu.
	open      int         // requests and streams
	idleSince time.Time   // when open became 0
	ending    bool        // the session has ended or is about to
	timer     *time.Timer // calls expire
}

// sessions holds all sessions over HTTP. All clients share one quota of them, with or
// without a token.
type sessions struct {
	*Options

	mu     sync.Mutex // may be held while Session.Pending is called
	closed bool
	byKey  map[sessionKey]*httpSession // sessions that have not ended
	live   int                         // sessions, including those still ending
	work   sync.WaitGroup              // ends of sessions
}

// begin creates a session and enters it.
func (all *sessions) begin(t transport, only string) (*httpSession, *jsonrpc.Error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	id, stream := rand.Text(), new(queue)
	return all.addLocked(&httpSession{key: sessionKey{t, only, id}, stream: stream}, Client{Only: only, ID: id, Out: stream})
}

// pool enters the session shared by all stateless clients with the given name and
// capabilities, and creates it if there is none. Capabilities are compared in
// canonical form, so that white space and the order of members do not matter, or as
// text if they have none.
func (all *sessions) pool(client *revision.Client, only string) (*httpSession, *jsonrpc.Error) {
	capabilities := client.Capabilities
	if canonical, ok := jsonrpc.AppendCanonical(nil, capabilities); ok {
		capabilities = canonical
	}
	key := sessionKey{pooled, only, jsonrpc.Text(client.Info, "name") + "\x00" + string(capabilities)}
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.byKey[key]; s != nil && s.enterLocked() {
		return s, nil
	}
	return all.addLocked(&httpSession{key: key}, Client{Only: only, Multiplexed: true, Anonymous: all.HTTP.Token == ""})
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

// addLocked starts the session of s if there is room for it, and registers it until
// it ends.
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
	s.intake, s.all, s.open = intake{Session: n}, all, 1
	s.timer = time.AfterFunc(all.HTTP.SessionIdle, s.expire)
	s.timer.Stop() // until the session is idle
	all.byKey[s.key] = s
	all.live++
	context.AfterFunc(n.Context(), s.remove)
	return s, nil
}

// makeRoomLocked evicts the session that has been idle for longest if a quarter of
// MaxSessions is open. It returns false if all are in use, or if there
// are MaxSessions with those still ending.
func (all *sessions) makeRoomLocked() bool {
	most := max(1, all.HTTP.MaxSessions/4)
	switch {
	case all.live >= all.HTTP.MaxSessions:
		return false
	case len(all.byKey) < most: // so none has to be asked
		return true
	}
	open := 0
	var oldest *httpSession
	for _, s := range all.byKey {
		if s.ending || s.Context().Err() != nil {
			continue
		}
		open++
		if s.open == 0 && (oldest == nil || s.idleSince.Before(oldest.idleSince)) && !s.Pending() {
			oldest = s
		}
	}
	if open < most {
		return true
	}
	if oldest == nil {
		return false
	}
	oldest.endLocked(ErrEnded)
	all.Log.Info("longest idle session ended for a new one", "sessions", open)
	return true
}

// end ends every session, which answers its open requests, and returns when all
// have ended.
func (all *sessions) end() {
	all.mu.Lock()
	all.closed = true
	for _, s := range all.byKey {
		s.endLocked(ErrShutdown)
	}
	all.mu.Unlock()
	all.work.Wait()
}

// enterLocked keeps the session from becoming idle until leave is called, or
// returns false if the session has ended.
func (s *httpSession) enterLocked() bool {
	if s.ending || s.Context().Err() != nil {
		return false
	}
	s.timer.Stop()
	s.open++
	return true
}

// leave ends a request or stream that entered the session.
func (s *httpSession) leave() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.open--; s.open == 0 && !s.ending { // else the timer would retain the session
		s.idleSince = time.Now()
		s.timer.Reset(s.all.HTTP.SessionIdle)
	}
}

// expire ends the session, or waits once more if it has pending work.
func (s *httpSession) expire() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.Pending() && !s.ending {
		s.timer.Reset(s.all.HTTP.SessionIdle)
	} else if s.open == 0 && time.Since(s.idleSince) >= s.all.HTTP.SessionIdle {
		s.endLocked(ErrEnded)
	}
}

// end ends the session in the background.
func (s *httpSession) end() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if !s.ending {
		s.endLocked(ErrEnded)
	}
}

// endLocked ends the session in the background.
func (s *httpSession) endLocked(cause error) {
	s.ending = true
	s.timer.Stop()
	s.all.work.Go(func() { s.End(cause) })
}

// remove unregisters a session after its context is done, and waits for its end. Its stream ends
// behind the answers to the requests that were cut off.
func (s *httpSession) remove() {
	s.all.mu.Lock()
	s.ending = true
	s.timer.Stop()
	if s.all.byKey[s.key] == s {
		delete(s.all.byKey, s.key)
	}
	s.all.mu.Unlock()
	if s.stream != nil {
		_ = s.Drain(context.Background(), ioTimeout) // what is still served then gets no answer
		s.stream.close()
	}
	s.End(ErrEnded)
	s.all.mu.Lock()
	s.all.live--
	s.all.mu.Unlock()
}
