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

// response is the outlet of one POST, with one request or with a batch. It becomes a
// stream of events with the first message that precedes the answer; an answer alone is
// one JSON body.
type response struct {
	w         http.ResponseWriter
	log       *slog.Logger
	id        []byte // raw, of the request; nil: a batch
	stateless bool   // the HTTP status tells some errors
	failed    error  // why the answer could not be written; for the goroutine that calls Answer

	mu     sync.Mutex
	over   bool   // answered, or the handler returns: nothing more is taken
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
		r.stream = newQueue(r.log)
		r.pumped.Go(r.pump)
	}
	return r.stream.Send(line)
}

// pump writes the stream; it ends when the stream is closed or the client gone.
func (r *response) pump() {
	e, err := openEvents(r.w)
	if err == nil {
		err = r.stream.pump(e, nil)
	}
	if err != nil {
		r.stream.close()
		r.log.Debug("client stream broken", "err", err)
	}
}

func (r *response) Answer(line []byte) error {
	if r.id == nil { // the answers to others of the batch still follow
		return r.Send(bytes.Clone(line))
	}
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
	r.mu.Unlock()
	r.failed = writeJSON(r.w, r.status(line), line)
	return r.failed
}

// finish returns when nothing will touch the response any more. A request that
// was cancelled ends as a stream without an answer; a batch may want none.
func (r *response) finish() {
	r.mu.Lock()
	answered, stream := r.over, r.stream
	r.over = true
	r.mu.Unlock()
	switch {
	case stream != nil:
		stream.close()
		r.pumped.Wait()
	case answered:
	case r.id == nil:
		finish(r.w, http.StatusAccepted)
	default:
		if _, err := openEvents(r.w); err != nil {
			r.log.Debug("answer not delivered", "err", err)
		}
	}
}

// status is the HTTP status of an answer.
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
