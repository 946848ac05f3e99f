package front

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// patience is how long one read or write on a client's connection may take. It
// is renewed with each: a call may be long, a silent peer may not.
const patience = 30 * time.Second

// chunk is how much is written under one deadline.
const chunk = 1 << 20

// sseWriter writes server-sent events. A message is handed to the connection as
// it is; only what frames it is copied.
type sseWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func newSSEWriter(w http.ResponseWriter) *sseWriter {
	return &sseWriter{w: w, rc: http.NewResponseController(w)}
}

// open writes the head of the response.
func (e *sseWriter) open() error {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	writeWithin(e.rc)
	e.w.WriteHeader(http.StatusOK)
	return e.rc.Flush()
}

// message writes an event; flush sends it.
func (e *sseWriter) message(line []byte) error { return e.event("message", line) }

func (e *sseWriter) event(kind string, data []byte) error {
	writeWithin(e.rc)
	if _, err := io.WriteString(e.w, "event: "+kind+"\ndata: "); err != nil {
		return err
	}
	if err := writeAll(e.w, e.rc, data); err != nil {
		return err
	}
	_, err := io.WriteString(e.w, "\n\n")
	return err
}

// comment writes what every client ignores.
func (e *sseWriter) comment() error {
	writeWithin(e.rc)
	if _, err := io.WriteString(e.w, ":\n\n"); err != nil {
		return err
	}
	return e.rc.Flush()
}

func (e *sseWriter) flush() error {
	writeWithin(e.rc)
	return e.rc.Flush()
}

// readWithin and writeWithin bound the next read and write. A connection
// without deadlines is one of a test.
func readWithin(rc *http.ResponseController)  { readBefore(rc, time.Now().Add(patience)) }
func writeWithin(rc *http.ResponseController) { _ = rc.SetWriteDeadline(time.Now().Add(patience)) }

// readBefore bounds the next read by patience, and by a time if that is sooner.
func readBefore(rc *http.ResponseController, end time.Time) {
	if soon := time.Now().Add(patience); soon.Before(end) {
		end = soon
	}
	_ = rc.SetReadDeadline(end)
}

// writeAll writes b piece by piece, so that a client which reads slowly but
// steadily gets all of a large message.
func writeAll(w io.Writer, rc *http.ResponseController, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), chunk)
		writeWithin(rc)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// finish answers with a status alone.
func finish(w http.ResponseWriter, status int) {
	writeWithin(http.NewResponseController(w))
	w.WriteHeader(status)
}

// writeJSON answers with one JSON body.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status) // goes out with the body
	return writeAll(w, http.NewResponseController(w), body)
}

// refuse answers with a JSON-RPC error. That it could not be written concerns only
// the client, which has gone.
func refuse(w http.ResponseWriter, status int, id []byte, bad *jsonrpc.Error) {
	_ = writeJSON(w, status, jsonrpc.AppendError(nil, id, bad.Append(nil)))
}
