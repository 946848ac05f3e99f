package front

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// Of sessions over HTTP.
const (
	defaultIdle     = 30 * time.Minute
	defaultSessions = 256
	mostStreams     = 16 // of one session at once: one is in use, the others are being replaced
)

// transport is the way a session's messages travel.
type transport string

const (
	streamable transport = "streamable" // 2025-03-26 to 2025-11-25: Mcp-Session-Id
	legacySSE  transport = "sse"        // 2024-11-05: /sse and /message
	pooled     transport = "pool"       // stateless requests that say the same of their clients
)

// key is by what requests of a transport find a session with that view: name is its
// id, or what the clients of a pool say of themselves.
func (t transport) key(only, name string) string { return string(t) + "\x00" + only + "\x00" + name }

// begin makes a session, entered by the caller.
func (h *HTTP) begin(t transport, only string) (*httpSession, *jsonrpc.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, stream := rand.Text(), newQueue(h.Log)
	return h.keepLocked(t.key(only, id), &httpSession{id: id, stream: stream}, Client{Only: only, ID: id, Out: stream})
}

// pool returns the session shared by all stateless requests whose clients can
// do the same, and enters it. Capabilities are compared as values: white space and
// the order of members tell no two clients apart. What has no canonical form is
// compared as it is written.
func (h *HTTP) pool(capabilities []byte, only string) (*httpSession, *jsonrpc.Error) {
	if can, ok := jsonrpc.AppendCanonical(nil, capabilities); ok {
		capabilities = can
	}
	key := pooled.key(only, string(capabilities))
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[key]; s != nil && s.enter() {
		return s, nil
	}
	return h.keepLocked(key, &httpSession{}, Client{Only: only, Pool: true, Anonymous: h.HTTP.Token == ""})
}

// find returns the session of that id and enters it; nil if there is none.
func (h *HTTP) find(t transport, id, only string) *httpSession {
	h.mu.Lock()
	s := h.sessions[t.key(only, id)]
	h.mu.Unlock()
	if s == nil || !s.enter() {
		return nil
	}
	return s
}

// keepLocked begins the session of s, if there is room for it, and lets requests
// find it under key until it ends.
func (h *HTTP) keepLocked(key string, s *httpSession, c Client) (*httpSession, *jsonrpc.Error) {
	if bad := h.makeRoomLocked(); bad != nil {
		return nil, bad
	}
	s.intake = intake{log: h.Log, all: &h.requests, Session: h.Handler(c)}
	if s.Context().Err() != nil {
		s.End(ErrEnded)
		return nil, shuttingDown
	}
	s.clock, s.idle, s.users = h.Clock, h.HTTP.SessionIdle, 1
	s.timer = time.AfterFunc(s.idle, s.expire)
	h.sessions[key] = s
	h.alive++
	context.AfterFunc(s.Context(), func() {
		s.close()
		h.mu.Lock()
		if h.sessions[key] == s {
			delete(h.sessions, key)
		}
		h.mu.Unlock()
		s.End(ErrEnded) // which has begun, and is waited for
		h.mu.Lock()
		h.alive--
		h.mu.Unlock()
	})
	return s, nil
}

// makeRoomLocked ends the session that has been idle for longest if its
// principal has as many as it may. Sessions that are still ending have processes
// too, so they count, but not against the principal's share.
func (h *HTTP) makeRoomLocked() *jsonrpc.Error {
	if h.closed {
		return shuttingDown
	}
	for share := max(1, h.HTTP.MaxSessions/4); ; {
		open, oldest := h.longestIdleLocked()
		if open < share {
			break
		}
		if oldest == nil {
			return allBusy
		}
		if oldest.retire() {
			h.evicting.Go(func() { oldest.End(errEvicted) })
			h.Log.Info("longest idle session ended for a new one", "sessions", open)
		}
	}
	if h.alive >= h.HTTP.MaxSessions {
		return stillEnding
	}
	return nil
}

// longestIdleLocked counts the sessions that are open, and finds the one of those
// that may make room that was used longest ago; nil: none may.
func (h *HTTP) longestIdleLocked() (open int, oldest *httpSession) {
	now := h.Clock()
	var longest time.Duration
	for _, s := range h.sessions {
		idle, unused, over := s.state(now)
		if !over {
			open++
		}
		if idle && (oldest == nil || unused > longest) {
			oldest, longest = s, unused
		}
	}
	return open, oldest
}

// end ends every session; each then answers what is still open.
func (h *HTTP) end(why error) {
	h.mu.Lock()
	h.closed = true
	var ending sync.WaitGroup
	for _, s := range h.sessions {
		ending.Go(func() { s.End(why) })
	}
	h.mu.Unlock()
	ending.Wait()
	h.evicting.Wait()
}

// getStream serves GET: what the session says that belongs to no request. A
// second stream takes over from the first, whose client may have lost it long
// before this end can know.
func (h *HTTP) getStream(w http.ResponseWriter, r *http.Request, only string) {
	if !accepts(r.Header, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, nil, notAcceptable)
		return
	}
	s := h.enterSession(w, r, nil, only)
	if s == nil {
		return
	}
	defer s.leave()
	defer s.streams.Add(-1)
	if s.streams.Add(1) > mostStreams {
		refuse(w, http.StatusTooManyRequests, nil, manyStreams)
		return
	}
	s.listen(w, r, "")
}

// deleteSession serves DELETE.
func (h *HTTP) deleteSession(w http.ResponseWriter, r *http.Request, only string) {
	s := h.enterSession(w, r, nil, only)
	if s == nil {
		return
	}
	defer s.leave()
	s.End(ErrEnded)
	finish(w, http.StatusNoContent)
}
