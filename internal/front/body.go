package front

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// Of the bodies of requests.
const (
	bodiesLeast  = 16 << 20 // bytes of all in memory; four of the largest messages, if that is more
	bodyCost     = 16 << 10 // what each counts at least: connection, buffers and goroutine
	bodyRate     = 64 << 10 // bytes a second that each keeps up on the average, after the first patience
	firstBuffer  = 64 << 10 // of one that says its length; buffers grow fourfold as bytes arrive
	unsaidBuffer = 8 << 10  // of one that does not
)

// body is that of one request. Its buffer counts until it is released, which is
// when the request has been served: many clients that send slowly, or whose
// calls take long, cannot fill the memory.
type body struct {
	of   *HTTP
	data []byte
	held int64 // of the bytes of all bodies
}

// grow makes the buffer larger; false: the bodies in memory are too many for that.
func (b *body) grow(size int) bool {
	held := max(int64(size), bodyCost)
	if b.of.bodies.Add(held-b.held) > b.of.mostBodies {
		b.of.bodies.Add(b.held - held)
		return false
	}
	b.held = held
	b.data = append(make([]byte, 0, size), b.data...)
	return true
}

func (b *body) release() { b.of.bodies.Add(-b.held) }

// read reads the whole body of a request, no slower than patience a piece and
// bodyRate in all; the caller releases it. Where it cannot, it answers the
// request itself.
func (h *HTTP) read(w http.ResponseWriter, r *http.Request) (*body, bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Content-Type: want application/json"})
		return nil, false
	}
	limit := h.MaxMessage
	if r.ContentLength > int64(limit) {
		refuseLength(w, limit)
		return nil, false
	}
	most, next := int(r.ContentLength), firstBuffer
	if most < 0 {
		most, next = limit+1, unsaidBuffer
	}
	b, whole := &body{of: h}, false
	defer func() {
		if !whole {
			b.release()
		}
	}()
	rc, begin := http.NewResponseController(w), time.Now()
	var err error
	for room := b.grow(min(next, most)); err == nil && len(b.data) != most; {
		if room && len(b.data) == cap(b.data) {
			next *= 4
			room = b.grow(min(next, most))
		}
		if !room {
			w.Header().Set("Connection", "close")
			refuse(w, http.StatusServiceUnavailable, nil, manyBytes)
			return nil, false
		}
		slowest := begin.Add(patience + time.Duration(len(b.data))*time.Second/bodyRate)
		readBefore(rc, slowest)
		var n int
		n, err = r.Body.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
	}
	// net/http lifts the deadline with the end of the body. For one that was not
	// read it stays: net/http reads on for a while, to keep the connection.
	switch {
	case len(b.data) > limit:
		refuseLength(w, limit)
	case err == nil || err == io.EOF:
		whole = true
		return b, true
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusRequestTimeout, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body did not arrive"})
	default: // the client is gone
		w.WriteHeader(http.StatusBadRequest)
	}
	return nil, false
}

func refuseLength(w http.ResponseWriter, limit int) {
	message := (&jsonrpc.LineTooLong{Limit: limit}).Error()
	refuse(w, http.StatusRequestEntityTooLarge, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: message})
}
