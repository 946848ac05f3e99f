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
	bodyRate     = 64 << 10 // bytes a second that each keeps up on the average, after the first ioTimeout
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
// when the request has been served: many clients that send slowly, or the calls of
// which take long, cannot fill the memory.
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

// fill reads the body, in all no slower than bodyRate, or says why not. net/http lifts
// the deadline with the end of the body.
func (b *body) fill(w http.ResponseWriter, r *http.Request) (status int, bad *jsonrpc.Error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType, refusal("Content-Type: want application/json")
	}
	limit := b.of.longest
	most, size := int(min(r.ContentLength, int64(limit)+1)), firstBuffer
	switch {
	case most < 0:
		most, size = limit+1, unsaidBuffer
	case most > limit:
		return tooLong(limit)
	}
	began, bounded := time.Now(), false
	for len(b.data) < most {
		if len(b.data) > 0 && !bounded { // most bodies come in one piece, which is bounded with the head of the request
			bounded = true
			slowest := ioTimeout + time.Duration(most)*time.Second/bodyRate
			_ = http.NewResponseController(w).SetReadDeadline(began.Add(slowest)) // an error: of a test
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
			return http.StatusRequestTimeout, refusal("the body did not arrive")
		case err != nil:
			return http.StatusBadRequest, refusal("the body: " + err.Error())
		}
	}
	return 0, nil
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
	return http.StatusRequestEntityTooLarge, refusal((&jsonrpc.LineTooLong{Limit: limit}).Error())
}

// refusal says what is wrong with a request.
func refusal(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: message}
}
