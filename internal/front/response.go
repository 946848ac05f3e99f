package front

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

var errAnswered = errors.New("the request has been answered")

// response is the outlet of one POST with a request or a batch. It becomes an event stream with
// the first message that is sent before the response; a response without one is sent as a JSON
// body.
type response struct {
	w         http.ResponseWriter
	log       *slog.Logger
	id        []byte // raw id of the request; nil for a batch
	stateless bool   // some errors have an HTTP status of their own

	mu     sync.Mutex
	closed bool   // answered, or the handler is returning: no more messages are accepted
	stream *queue // nil until the response becomes a stream
	pumped sync.WaitGroup
}

func (r *response) Send(line []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errAnswered
	}
	if r.stream == nil {
		r.stream = newQueue()
		r.pumped.Go(r.pump)
	}
	return r.stream.Send(line)
}

// pump writes the stream until it is closed or the client disconnects.
func (r *response) pump() {
	err := openEvents(r.w)
	if err == nil {
		err = r.stream.pump(r.w, nil)
	}
	if err != nil {
		r.stream.close()
		r.log.Debug("client stream broken", "err", err)
	}
}

func (r *response) Answer(line []byte) error {
	if r.id == nil { // other responses of the batch may follow
		return r.Send(bytes.Clone(line))
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errAnswered
	}
	r.closed = true
	if r.stream != nil {
		defer r.mu.Unlock()
		return r.stream.Send(bytes.Clone(line))
	}
	r.mu.Unlock()
	return writeJSON(r.w, r.status(line), line)
}

// finish closes the response and returns when all writes to it have ended. A cancelled
// request gets an empty event stream, a batch without responses 202 Accepted.
func (r *response) finish() {
	r.mu.Lock()
	answered, stream := r.closed, r.stream
	r.closed = true
	r.mu.Unlock()
	switch {
	case stream != nil:
		stream.close()
		r.pumped.Wait()
	case answered:
	case r.id == nil:
		finish(r.w, http.StatusAccepted)
	default:
		if err := openEvents(r.w); err != nil {
			r.log.Debug("answer not delivered", "err", err)
		}
	}
}

// status returns the HTTP status for a response.
func (r *response) status(line []byte) int {
	const head = len(`{"jsonrpc":"2.0","id":`)
	if !r.stateless || !bytes.HasPrefix(line[min(head+len(r.id), len(line)):], []byte(`,"error":`)) {
		return http.StatusOK
	}
	code, err := strconv.Atoi(string(jsonrpc.Get(jsonrpc.Get(line, "error"), "code")))
	switch {
	case err != nil:
	case code == jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case revision.Modern(code):
		return http.StatusBadRequest
	}
	return http.StatusOK
}
