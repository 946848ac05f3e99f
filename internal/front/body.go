package front

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"sync/atomic"
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

// bodies are those of all requests that are in memory.
type bodies struct {
	held    atomic.Int64 // bytes
	most    int64        // bytes
	longest int          // bytes of one
}

// body is that of one request. Its buffer counts until it is released, which is
// when the request has been served: many clients that send slowly, or whose
// calls take long, cannot fill the memory.
type body struct {
	of   *bodies
	data []byte
	held int64 // of the bytes of all bodies

	readers atomic.Int32 // that still need data, besides the first
}

// read reads the whole body of a request; the caller releases it. Where it cannot,
// it answers the request itself.
func (of *bodies) read(w http.ResponseWriter, r *http.Request) (*body, bool) {
	b := &body{of: of}
	status, bad := b.fill(w, r)
	if bad == nil {
		return b, true
	}
	b.release()
	if status == http.StatusServiceUnavailable || status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close") // else net/http reads on for a while
	}
	refuse(w, status, nil, bad)
	return nil, false
}

// fill reads the body, no slower than patience a piece and bodyRate in all, or
// says why not.
func (b *body) fill(w http.ResponseWriter, r *http.Request) (status int, bad *jsonrpc.Error) {
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		if kind, _, err := mime.ParseMediaType(kind); err != nil || kind != "application/json" {
			return http.StatusUnsupportedMediaType, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Content-Type: want application/json"}
		}
	}
	limit := b.of.longest
	most, size := int(min(r.ContentLength, int64(limit)+1)), firstBuffer
	if most < 0 {
		most, size = limit+1, unsaidBuffer
	}
	if most > limit && size == firstBuffer {
		return tooLong(limit)
	}
	for begin := time.Now(); len(b.data) < most; {
		if len(b.data) > 0 {
			b.hasten(w, begin)
		}
		if len(b.data) == cap(b.data) {
			if !b.grow(min(size, most)) {
				return http.StatusServiceUnavailable, manyBytes
			}
			size *= 4
		}
		n, err := r.Body.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		switch {
		case len(b.data) > limit:
			return tooLong(limit)
		case err == io.EOF:
			return 0, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return http.StatusRequestTimeout, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body did not arrive"}
		case err != nil:
			return http.StatusBadRequest, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body: " + err.Error()}
		}
	}
	return 0, nil
}

// hasten bounds the next read of the body; the first is bounded with the head of the
// request. net/http lifts the deadline with the end of the body.
func (b *body) hasten(w http.ResponseWriter, begin time.Time) {
	slowest := begin.Add(patience + time.Duration(len(b.data))*time.Second/bodyRate)
	if soon := time.Now().Add(patience); soon.Before(slowest) {
		slowest = soon
	}
	_ = http.NewResponseController(w).SetReadDeadline(slowest)
}

// grow makes the buffer larger; false: the bodies in memory are too many for that.
func (b *body) grow(size int) bool {
	held := max(int64(size), bodyCost)
	if b.of.held.Add(held-b.held) > b.of.most {
		b.of.held.Add(b.held - held)
		return false
	}
	b.held = held
	b.data = append(make([]byte, 0, size), b.data...)
	return true
}

// release is the end of one reader.
func (b *body) release() {
	if b.readers.Add(-1) < 0 {
		b.of.held.Add(-b.held)
	}
}

func tooLong(limit int) (status int, bad *jsonrpc.Error) {
	message := (&jsonrpc.LineTooLong{Limit: limit}).Error()
	return http.StatusRequestEntityTooLarge, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: message}
}
