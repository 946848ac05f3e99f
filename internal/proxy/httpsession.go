package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// Of sessions over HTTP.
const (
	defaultIdle     = 30 * time.Minute
	defaultSessions = 256
	mostStreams     = 16   // of one session at once: one is in use, the others are being replaced
	mostRequests    = 512  // in flight, of one session; stateless clients that can do the same are one
	mostOfAll       = 2048 // in flight, of all sessions
)

var (
	errIdle    = errors.New("session unused for too long")
	errEvicted = errors.New("session ended for a new one; it was unused for longest")
)

// transport is the way a session's messages travel.
type transport int

const (
	streamable transport = iota // 2025-03-26 to 2025-11-25: Mcp-Session-Id
	legacySSE                   // 2024-11-05: /sse and /message
	pooled                      // stateless requests that say the same of their clients
)

// httpSession is a session that requests find by an id, or by what they say of
// their client. It ends when it has been idle for a while, or the longest of
// all when there is no room for a new one. One token guards the whole server, so
// every holder of an id is the same principal; without a token all clients are.
type httpSession struct {
	*session
	transport transport
	stream    *queue // what belongs to no request; nil for a pooled one
	idle      time.Duration

	mu      sync.Mutex // its holder may take the session's
	users   int        // requests and streams that are open
	streams int        // those of users that are GET streams
	left    age.Moment // when users fell to 0
	over    bool
	timer   *time.Timer // set anew when users falls to 0; means nothing while it is above
}

// begin makes a session, entered by the caller.
func (f *front) begin(t transport, only string) (*httpSession, *jsonrpc.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if bad := f.makeRoomLocked(); bad != nil {
		return nil, bad
	}
	h := f.make(t, only, newQueue(f.srv.log))
	h.id = rand.Text()
	return f.keepLocked(f.sessions, h.id, h)
}

// makeRoomLocked ends the session that has been idle for longest if its
// principal has as many as it may. Sessions that are still ending have processes
// too, so they count, but not against the principal's share.
func (f *front) makeRoomLocked() *jsonrpc.Error {
	if f.closed {
		return shuttingDown
	}
	for share := max(1, f.MaxSessions/4); ; {
		open := 0
		var oldest *httpSession
		var longest time.Duration
		now := f.srv.clock()
		for _, in := range []map[string]*httpSession{f.sessions, f.pools} {
			for _, h := range in {
				idle, unused, over := h.state(now)
				if !over {
					open++
				}
				if idle && (oldest == nil || unused > longest) {
					oldest, longest = h, unused
				}
			}
		}
		if open < share {
			break
		}
		if oldest == nil {
			return allBusy
		}
		if oldest.retire() {
			f.ending.Go(func() { oldest.end(errEvicted) })
			f.srv.log.Info("longest idle session ended for a new one", "sessions", open)
		}
	}
	if sessions, _ := f.srv.all(); len(sessions) >= f.MaxSessions {
		return stillEnding
	}
	return nil
}

// make makes a session that no request can find yet.
func (f *front) make(t transport, only string, stream *queue) *httpSession {
	h := &httpSession{transport: t, stream: stream, idle: f.SessionIdle, users: 1}
	if stream == nil {
		h.session = f.srv.newSession(only, nil)
		h.session.pooled = true
		h.session.delivered = nil // its requests come from any number of conversations
		if f.Token == "" {
			h.session.scope = "" // and, with no credentials, from any number of people
		}
	} else {
		h.session = f.srv.newSession(only, stream)
	}
	h.requests.all = &f.requests
	h.timer = time.AfterFunc(h.idle, h.expire)
	return h
}

// keepLocked lets requests find the session under key until it ends.
func (f *front) keepLocked(in map[string]*httpSession, key string, h *httpSession) (*httpSession, *jsonrpc.Error) {
	if h.ctx.Err() != nil {
		h.close()
		return nil, shuttingDown
	}
	in[key] = h
	context.AfterFunc(h.ctx, func() {
		h.mu.Lock()
		h.over = true
		h.timer.Stop()
		h.mu.Unlock()
		if h.stream != nil {
			h.stream.close()
		}
		f.mu.Lock()
		if in[key] == h {
			delete(in, key)
		}
		f.mu.Unlock()
	})
	return h, nil
}

// find returns the session of that id and enters it; nil if there is none.
func (f *front) find(t transport, id, only string) *httpSession {
	f.mu.Lock()
	h := f.sessions[id]
	f.mu.Unlock()
	if h == nil || h.transport != t || h.view.only != only || !h.enter() {
		return nil
	}
	return h
}

// pool returns the session shared by all stateless requests whose clients can
// do the same, and enters it. Servers of the handshake era are told of the client
// that came first.
func (f *front) pool(hop revision.Hop, only string) (*httpSession, *jsonrpc.Error) {
	h, bad := f.pooled(only, hop.Capabilities)
	if bad == nil {
		h.open(upstream.Client{Version: hop.Version, Info: hop.Info, Capabilities: hop.Capabilities})
	}
	return h, bad
}

// pooled finds or makes the session. Capabilities are compared as values: white
// space and the order of members tell no two clients apart. What has no canonical
// form is compared as it is written.
func (f *front) pooled(only string, capabilities []byte) (*httpSession, *jsonrpc.Error) {
	can, ok := jsonrpc.AppendCanonical(nil, capabilities)
	if !ok {
		can = capabilities
	}
	key := only + "\x00" + string(can)
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.pools[key]; h != nil && h.enter() {
		return h, nil
	}
	if bad := f.makeRoomLocked(); bad != nil {
		return nil, bad
	}
	return f.keepLocked(f.pools, key, f.make(pooled, only, nil))
}

// enter keeps the session from ending as idle until leave; false: it has ended. The
// timer stops while the machine sleeps, so the age is looked at here as well.
func (h *httpSession) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.ctx.Err() != nil {
		return false
	}
	if h.idleLocked() && h.srv.clock().Since(h.left) >= h.idle {
		h.timer.Reset(0)
		return false
	}
	h.users++
	return true
}

func (h *httpSession) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users--; h.users == 0 && !h.over {
		h.left = h.srv.clock()
		h.timer.Reset(h.idle)
	}
}

// state says whether the session may make room for another, and how long no request
// or stream has been open, or whether it is over. One with a task that runs makes no
// room, although nothing of it is open between two questions about the task: it ends
// only when it has been idle for long.
func (h *httpSession) state(now age.Moment) (idle bool, unused time.Duration, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.idleLocked() && !h.tasks.running(), now.Since(h.left), h.over || h.ctx.Err() != nil
}

// idleLocked reports whether no request and no stream is open. A call that waits
// for its client's answers is open too.
func (h *httpSession) idleLocked() bool {
	if h.users > 0 || h.over {
		return false
	}
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	return len(h.parked)+len(h.plans) == 0
}

// retire lets no request into the session any more; false: it is not idle.
func (h *httpSession) retire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.idleLocked() {
		return false
	}
	h.over = true
	h.timer.Stop()
	return true
}

// expire ends the session if it is idle.
func (h *httpSession) expire() {
	if h.retire() {
		h.end(errIdle)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.timer.Reset(h.idle)
	}
}

// openStream enters the session's GET stream; false: it has too many.
func (h *httpSession) openStream() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams == mostStreams {
		return false
	}
	h.streams++
	return true
}

func (h *httpSession) closeStream() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
}

// end ends every session; each then answers what is still open.
func (f *front) end(why error) {
	f.mu.Lock()
	f.closed = true
	var all []*httpSession
	for _, in := range []map[string]*httpSession{f.sessions, f.pools} {
		for _, h := range in {
			all = append(all, h)
		}
	}
	f.mu.Unlock()
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() { h.end(why) })
	}
	wg.Wait()
	f.ending.Wait()
}

// getStream serves GET: what the session says that belongs to no request. A
// second stream takes over from the first, whose client may have lost it long
// before this end can know.
func (f *front) getStream(w http.ResponseWriter, r *http.Request, only string) {
	if !accepts(r.Header, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, nil, notAcceptable)
		return
	}
	h := f.find(streamable, r.Header.Get(headerSession), only)
	if h == nil {
		refuse(w, http.StatusNotFound, nil, noSession)
		return
	}
	defer h.leave()
	if !h.openStream() {
		refuse(w, http.StatusTooManyRequests, nil, manyStreams)
		return
	}
	defer h.closeStream()
	e := newSSEWriter(w)
	err := e.open()
	if err == nil {
		err = h.stream.pump(e, r.Context().Done())
	}
	if err != nil {
		f.srv.log.Debug("client stream broken", "session", h.id, "err", err)
	}
}

// deleteSession serves DELETE.
func (f *front) deleteSession(w http.ResponseWriter, r *http.Request, only string) {
	h := f.find(streamable, r.Header.Get(headerSession), only)
	if h == nil {
		refuse(w, http.StatusNotFound, nil, noSession)
		return
	}
	h.close()
	finish(w, http.StatusNoContent)
}
