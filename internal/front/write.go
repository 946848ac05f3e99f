package front

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// ioTimeout is how long one read or write on a client's connection may take. It
// is renewed with each: a call may be long, a silent peer may not.
const ioTimeout = 30 * time.Second

// chunk is how much is written under one deadline.
const chunk = 1 << 20

// renew bounds the next write. A connection without deadlines is one of a test.
func renew(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ioTimeout))
}

// writeAll writes b piece by piece, so that a client which reads slowly but
// steadily gets all of a large message.
func writeAll(w http.ResponseWriter, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), chunk)
		renew(w)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// finish answers with a status alone.
func finish(w http.ResponseWriter, status int) {
	renew(w)
	w.WriteHeader(status)
}

// writeJSON answers with one JSON body.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status) // goes out with the body
	return writeAll(w, body)
}

// refuse answers with a JSON-RPC error. That it could not be written concerns only
// the client, which has gone.
func refuse(w http.ResponseWriter, status int, id []byte, bad *jsonrpc.Error) {
	_ = writeJSON(w, status, jsonrpc.AppendError(nil, id, bad.Append(nil)))
}

// events writes server-sent events. A message is handed to the connection as
// it is; only what frames it is copied.
type events struct{ w http.ResponseWriter }

// openEvents sends the head of the response.
func openEvents(w http.ResponseWriter) (events, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	return events{w}, events{w}.flush()
}

// write writes an event; flush sends it.
func (e events) write(kind string, data []byte) error {
	renew(e.w)
	if _, err := io.WriteString(e.w, "event: "+kind+"\ndata: "); err != nil {
		return err
	}
	if err := writeAll(e.w, data); err != nil {
		return err
	}
	_, err := io.WriteString(e.w, "\n\n")
	return err
}

// comment sends what every client ignores.
func (e events) comment() error {
	renew(e.w)
	if _, err := io.WriteString(e.w, ":\n\n"); err != nil {
		return err
	}
	return e.flush()
}

func (e events) flush() error {
	renew(e.w)
	return http.NewResponseController(e.w).Flush()
}
