package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// defaultIdle is how long a session lasts that nobody uses.
const defaultIdle = 30 * time.Minute

var errIdle = errors.New("session unused for too long")

// transport is the way a session's messages travel.
type transport int

const (
	streamable transport = iota // 2025-03-26 to 2025-11-25: Mcp-Session-Id
	legacySSE                   // 2024-11-05: /sse and /message
	pooled                      // stateless requests that say the same of their clients
)

// httpSession is a session that requests find by an id, or by what they say of
// their client. It ends when nobody has used it for a while. One token guards
// the whole server, so every holder of an id is the same principal.
type httpSession struct {
	*session
	transport transport
	stream    *queue // what belongs to no request; nil for a pooled one
	idle      time.Duration

	mu    sync.Mutex
	users int        // requests and streams that are open
	left  age.Moment // when users fell to 0
	over  bool
	timer *time.Timer // set anew when users falls to 0; means nothing while somebody uses it
}

// begin makes a session, entered by the caller; nil during shutdown.
func (f *front) begin(t transport, only string) *httpSession {
	h := f.make(t, only, newQueue(f.srv.log))
	h.id = rand.Text()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keepLocked(f.sessions, h.id, h)
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
	h.timer = time.AfterFunc(h.idle, h.expire)
	return h
}

// keepLocked lets requests find the session under key until it ends.
func (f *front) keepLocked(in map[string]*httpSession, key string, h *httpSession) *httpSession {
	if f.closed || h.ctx.Err() != nil {
		h.close()
		return nil
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
	return h
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
// do the same, to the byte, and enters it; nil during shutdown. Servers of the
// handshake era are told of the client that came first.
func (f *front) pool(hop revision.Hop, only string) *httpSession {
	key := only + "\x00" + string(hop.Capabilities)
	f.mu.Lock()
	h := f.pools[key]
	if h == nil || !h.enter() {
		h = f.keepLocked(f.pools, key, f.make(pooled, only, nil))
	}
	f.mu.Unlock()
	if h != nil {
		h.open(upstream.Client{Version: hop.Version, Info: hop.Info, Capabilities: hop.Capabilities})
	}
	return h
}

// enter keeps the session from ending as idle until leave; false: it has ended. The
// timer stops while the machine sleeps, so the age is looked at here as well.
func (h *httpSession) enter() bool {
	waits := h.waits()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.ctx.Err() != nil {
		return false
	}
	if h.users == 0 && !waits && h.srv.clock().Since(h.left) >= h.idle {
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

// waits reports whether a call waits for its client's answers: that uses a session.
func (h *httpSession) waits() bool {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	return len(h.parked)+len(h.plans) > 0
}

// expire ends a session that nobody uses.
func (h *httpSession) expire() {
	waits := h.waits()
	h.mu.Lock()
	if h.users > 0 || h.over {
		h.mu.Unlock()
		return
	}
	if waits {
		h.timer.Reset(h.idle)
		h.mu.Unlock()
		return
	}
	h.over = true
	h.mu.Unlock()
	h.end(errIdle)
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
