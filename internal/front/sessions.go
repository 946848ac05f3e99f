package front

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

const (
	defaultIdle     = 30 * time.Minute
	defaultSessions = 256
)

// begin makes a session, entered by the caller.
func (h *HTTP) begin(t transport, only string) (*httpSession, *jsonrpc.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bad := h.makeRoomLocked(); bad != nil {
		return nil, bad
	}
	id, stream := rand.Text(), newQueue(h.Log)
	s := &httpSession{transport: t, only: only, id: id, stream: stream}
	return h.keepLocked(id, s, Client{Only: only, ID: id, Out: stream})
}

// pool returns the session shared by all stateless requests whose clients can
// do the same, and enters it. Capabilities are compared as values: white space and
// the order of members tell no two clients apart. What has no canonical form is
// compared as it is written.
func (h *HTTP) pool(hop revision.Hop, only string) (*httpSession, *jsonrpc.Error) {
	can, ok := jsonrpc.AppendCanonical(nil, hop.Capabilities)
	if !ok {
		can = hop.Capabilities
	}
	key := only + "\x00" + string(can) // no id looks like that
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[key]; s != nil && s.enter() {
		return s, nil
	}
	if bad := h.makeRoomLocked(); bad != nil {
		return nil, bad
	}
	return h.keepLocked(key, &httpSession{transport: pooled, only: only}, Client{Only: only, Pool: true, Anonymous: h.HTTP.Token == ""})
}

// find returns the session of that id and enters it; nil if there is none.
func (h *HTTP) find(t transport, id, only string) *httpSession {
	h.mu.Lock()
	s := h.sessions[id]
	h.mu.Unlock()
	if s == nil || s.transport != t || s.only != only || !s.enter() {
		return nil
	}
	return s
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

// keepLocked begins the session of s and lets requests find it under key until it
// ends.
func (h *HTTP) keepLocked(key string, s *httpSession, c Client) (*httpSession, *jsonrpc.Error) {
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
	s := h.find(streamable, r.Header.Get(headerSession), only)
	if s == nil {
		refuse(w, http.StatusNotFound, nil, noSession)
		return
	}
	defer s.leave()
	if !s.openStream() {
		refuse(w, http.StatusTooManyRequests, nil, manyStreams)
		return
	}
	defer s.closeStream()
	e := newSSEWriter(w)
	err := e.open()
	if err == nil {
		err = s.stream.pump(e, r.Context().Done())
	}
	if err != nil {
		h.Log.Debug("client stream broken", "session", s.id, "err", err)
	}
}

// deleteSession serves DELETE.
func (h *HTTP) deleteSession(w http.ResponseWriter, r *http.Request, only string) {
	s := h.find(streamable, r.Header.Get(headerSession), only)
	if s == nil {
		refuse(w, http.StatusNotFound, nil, noSession)
		return
	}
	defer s.leave()
	s.End(ErrEnded)
	finish(w, http.StatusNoContent)
}
