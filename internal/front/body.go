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

// Limits of request bodies, in bytes.
const (
	minBodies     = 16 << 20 // of all bodies in memory, or four times MaxMessage if that is more
	bodyCost      = 16 << 10 // least that a body counts: its connection, buffers and goroutine
	bodyRate      = 64 << 10 // per second, least average rate after the first ioTimeout
	firstBuffer   = 64 << 10 // initial buffer; buffers grow fourfold as bytes arrive
	chunkedBuffer = 8 << 10  // initial buffer of a body without Content-Length
)

// bodies limits the memory of all request bodies, in bytes.
type bodies struct {
	held     atomic.Int64
	maxTotal int64 // limit of held
	maxSize  int   // limit of one body
}

// body is the body of one request. Its buffer counts until it is released, after the
// request has been served, so that many slow clients or long calls cannot exhaust memory.
type body struct {
	all  *bodies
	data []byte
	held int64 // bytes counted in all.held

	readers atomic.Int32 // readers of data besides the first
}

// read reads the whole body of a request; the caller must release it. On error it answers
// the request and returns false.
func (all *bodies) read(w http.ResponseWriter, r *http.Request) (*body, bool) {
	b := &body{all: all}
	status, rpcErr := b.fill(w, r)
	if rpcErr == nil {
		return b, true
	}
	b.release()
	if status == http.StatusServiceUnavailable || status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close") // otherwise net/http reads the rest of the body
	}
	refuse(w, status, nil, rpcErr)
	return nil, false
}

// fill reads the body, or returns an error, also if the client sends more slowly than
// bodyRate. net/http clears the read deadline at the end of the body.
func (b *body) fill(w http.ResponseWriter, r *http.Request) (status int, rpcErr *jsonrpc.Error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType, refusal("Content-Type: want application/json")
	}
	limit := b.all.maxSize
	length, size := int(min(r.ContentLength, int64(limit)+1)), firstBuffer
	switch {
	case length < 0:
		length, size = limit+1, chunkedBuffer
	case length > limit:
		return tooLong(limit)
	}
	start, bounded := time.Now(), false
	for len(b.data) < length {
		if len(b.data) > 0 && !bounded { // most bodies arrive in the first read, which Server.ReadTimeout bounds
			bounded = true
			timeout := ioTimeout + time.Duration(length)*time.Second/bodyRate
			_ = http.NewResponseController(w).SetReadDeadline(start.Add(timeout)) // fails only on a test's recorder
		}
		if len(b.data) == cap(b.data) {
			if !b.grow(min(size, length)) {
				return http.StatusServiceUnavailable, tooManyBytes
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
			return http.StatusRequestTimeout, refusal("timed out reading the body")
		case err != nil:
			return http.StatusBadRequest, refusal("reading the body: " + err.Error())
		}
	}
	return 0, nil
}

// grow enlarges the buffer, or returns false if the limit of all bodies is reached.
func (b *body) grow(size int) bool {
	held := max(int64(size), bodyCost)
	if b.all.held.Add(held-b.held) > b.all.maxTotal {
		b.all.held.Add(b.held - held)
		return false
	}
	b.held = held
	b.data = append(make([]byte, 0, size), b.data...)
	return true
}

// release ends one reader's use of the body; the last one frees its share of the limit.
func (b *body) release() {
	if b.readers.Add(-1) < 0 {
		b.all.held.Add(-b.held)
	}
}

func tooLong(limit int) (status int, rpcErr *jsonrpc.Error) {
	return http.StatusRequestEntityTooLarge, refusal((&jsonrpc.LineTooLong{Limit: limit}).Error())
}

// refusal returns an error for an invalid request.
func refusal(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: message}
}
