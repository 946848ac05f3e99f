package front

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// ioTimeout is the time limit of one read or write on a client's connection. A call may
// take longer, but an unresponsive peer may not.
const ioTimeout = 30 * time.Second

// chunk is the number of bytes written under one deadline.
const chunk = 1 << 20

// renew sets the deadline of the next write. Only a test's recorder has no deadlines.
func renew(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ioTimeout))
}

// writeAll writes b in chunks, so that a client which reads slowly but steadily receives
// all of a large message.
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

// finish writes a status without a body.
func finish(w http.ResponseWriter, status int) {
	renew(w)
	w.WriteHeader(status)
}

// writeJSON writes a JSON body.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status) // sent together with the body
	return writeAll(w, body)
}

// refuse writes a JSON-RPC error. It ignores a failed write: the client has
// disconnected.
func refuse(w http.ResponseWriter, status int, id []byte, rpcErr *jsonrpc.Error) {
	_ = writeJSON(w, status, jsonrpc.AppendError(nil, id, rpcErr.Append(nil)))
}

// openEvents sends the head of a stream of server-sent events.
func openEvents(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // keeps nginx from buffering events
	w.WriteHeader(http.StatusOK)
	return flush(w)
}

// writeEvent writes an event without copying data. It may be buffered until flush is called.
func writeEvent(w http.ResponseWriter, kind string, data []byte) error {
	renew(w)
	if _, err := io.WriteString(w, "event: "+kind+"\ndata: "); err != nil {
		return err
	}
	if err := writeAll(w, data); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n\n")
	return err
}

func flush(w http.ResponseWriter) error {
	renew(w)
	return http.NewResponseController(w).Flush()
}
