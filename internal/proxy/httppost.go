package proxy

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// post serves POST to an MCP endpoint. Which era a message belongs to shows in
// the message, or in the header that must say the same.
func (f *front) post(w http.ResponseWriter, r *http.Request, only string) {
	if !accepts(r.Header, "application/json") || !accepts(r.Header, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, nil, notAcceptable)
		return
	}
	b, ok := f.read(w, r)
	if !ok {
		return
	}
	defer b.release()
	body := bytes.TrimLeft(b.data, " \t\r\n")
	if len(body) > 0 && body[0] == '[' {
		f.batch(w, r, body, only)
		return
	}
	m, err := jsonrpc.Parse(body)
	var bad *jsonrpc.Error
	if errors.As(err, &bad) {
		refuse(w, http.StatusBadRequest, m.ID, bad)
		return
	}
	jsonrpc.Flatten(body)
	version := r.Header.Get(headerVersion)
	if version != "" && !revision.Supported(version) {
		refuse(w, http.StatusBadRequest, m.ID, unsupported(version))
		return
	}
	hop, ok := revision.ReadHop(m.Params)
	switch {
	case ok || revision.Stateless(version):
		f.stateless(w, r, m, hop, only)
	case m.Method == "initialize" && m.IsRequest():
		f.initialize(w, m, only)
	default:
		f.inSession(w, r, m, only)
	}
}

// initialize begins a session. One whose client did not live to learn its id
// ends at once.
func (f *front) initialize(w http.ResponseWriter, m jsonrpc.Message, only string) {
	h, bad := f.begin(streamable, only)
	if bad != nil {
		refuse(w, http.StatusServiceUnavailable, m.ID, bad)
		return
	}
	defer h.leave()
	w.Header().Set(headerSession, h.id)
	if err := f.serve(w, h, h.ctx, m, false); err != nil {
		h.close()
	}
}

// inSession serves a message of the handshake era. A client that goes away has
// not cancelled its request: the call goes on, and its answer is lost.
func (f *front) inSession(w http.ResponseWriter, r *http.Request, m jsonrpc.Message, only string) {
	h := f.enterSession(w, r, m.ID, only)
	if h == nil {
		return
	}
	defer h.leave()
	if !m.IsRequest() {
		h.accept(h.ctx, m, nil)
		finish(w, http.StatusAccepted)
		return
	}
	_ = f.serve(w, h, h.ctx, m, false) // logged where it was written
}

// enterSession finds the session a request names, or refuses the request.
func (f *front) enterSession(w http.ResponseWriter, r *http.Request, id []byte, only string) *httpSession {
	session := r.Header.Get(headerSession)
	if session == "" {
		refuse(w, http.StatusBadRequest, id, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: headerSession + ": missing; a session begins with initialize"})
		return nil
	}
	h := f.find(streamable, session, only)
	if h == nil {
		refuse(w, http.StatusNotFound, id, noSession)
	}
	return h
}

// serve runs one request on this goroutine and returns how its answer was
// delivered.
func (f *front) serve(w http.ResponseWriter, h *httpSession, ctx context.Context, m jsonrpc.Message, stateless bool) error {
	to := &response{w: w, front: f, id: m.ID, stateless: stateless}
	defer to.finish()
	if serve := h.accept(ctx, m, to); serve != nil {
		serve()
	}
	return to.failed
}

// batch serves an array of messages, which only sessions of one revision may
// send. The answers go out on one stream, each as soon as it is there.
func (f *front) batch(w http.ResponseWriter, r *http.Request, body []byte, only string) {
	if !jsonrpc.Valid(body) {
		refuse(w, http.StatusBadRequest, nil, &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "parse error: not JSON"})
		return
	}
	jsonrpc.Flatten(body)
	h := f.enterSession(w, r, nil, only)
	if h == nil {
		return
	}
	defer h.leave()
	if !h.client.facts().batches() {
		refuse(w, http.StatusBadRequest, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a message is an object; batches belong to " + revision.Batches})
		return
	}
	to := &response{w: w, front: f}
	defer to.finish()
	var open sync.WaitGroup
	answers := 0
	for raw := range jsonrpc.Elements(body) {
		m, err := jsonrpc.Parse(raw)
		var bad *jsonrpc.Error
		if errors.As(err, &bad) {
			h.refuse(to, m.ID, bad)
			answers++
			continue
		}
		if m.IsRequest() {
			answers++
		}
		if serve := h.accept(h.ctx, m, part{to}); serve != nil {
			open.Go(serve)
		}
	}
	open.Wait()
	if answers == 0 {
		to.accepted()
	}
}

// part is where one message of a batch is answered: others still follow.
type part struct{ *response }

func (p part) Answer(line []byte) error { return p.Send(bytes.Clone(line)) }

var errAnswered = errors.New("the request has been answered")

// response is the outlet of one POST. It becomes a stream of events with the
// first message that precedes the answer; an answer alone is one JSON body.
type response struct {
	w         http.ResponseWriter
	front     *front
	id        []byte // raw, of the request
	stateless bool   // the HTTP status tells some errors
	failed    error  // why the answer could not be written; for the goroutine that calls Answer

	mu     sync.Mutex
	over   bool   // answered, or the handler returns: nothing more is taken
	body   bool   // something other than a stream has been written
	stream *queue // nil: no stream yet
	pumped sync.WaitGroup
}

func (r *response) Send(line []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errAnswered
	}
	if r.stream == nil {
		r.stream = newQueue(r.front.srv.log)
		r.pumped.Go(r.pump)
	}
	return r.stream.Send(line)
}

// pump writes the stream; it ends when the stream is closed or the client gone.
func (r *response) pump() {
	e := newSSEWriter(r.w)
	err := e.open()
	if err == nil {
		err = r.stream.pump(e, nil)
	}
	if err != nil {
		r.stream.close()
		r.front.srv.log.Debug("client stream broken", "err", err)
	}
}

func (r *response) Answer(line []byte) error {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return errAnswered
	}
	r.over = true
	if r.stream != nil {
		defer r.mu.Unlock()
		r.failed = r.stream.Send(bytes.Clone(line))
		return r.failed
	}
	r.body = true
	r.mu.Unlock()
	r.failed = writeJSON(r.w, r.status(line), line)
	return r.failed
}

// accepted answers a message, or several, that want none.
func (r *response) accepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stream == nil && !r.over {
		r.over, r.body = true, true
		finish(r.w, http.StatusAccepted)
	}
}

// finish returns when nothing will touch the response any more. A request that
// was cancelled ends as a stream without an answer.
func (r *response) finish() {
	r.mu.Lock()
	r.over = true
	stream := r.stream
	r.mu.Unlock()
	switch {
	case stream != nil:
		stream.close()
		r.pumped.Wait()
	case !r.body:
		if err := newSSEWriter(r.w).open(); err != nil {
			r.front.srv.log.Debug("answer not delivered", "err", err)
		}
	}
}

// status is the HTTP status of an answer.
func (r *response) status(line []byte) int {
	const head = len(`{"jsonrpc":"2.0","id":`)
	if !r.stateless || !bytes.HasPrefix(line[min(head+len(r.id), len(line)):], []byte(`,"error":`)) {
		return http.StatusOK
	}
	switch c := code(jsonrpc.Get(line, "error")); {
	case c == jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case revision.Modern(c):
		return http.StatusBadRequest
	}
	return http.StatusOK
}
