package front

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
)

// Limits of request bodies, in bytes.
const (
	minBodies = 16 << 20 // of all bodies in memory, or four times MaxMessage if that is more
	bodyCost  = 16 << 10 // that a body counts beside its bytes: its connection, first buffer and goroutine
)

// bodies limits the memory of all request bodies, in bytes.
type bodies struct {
	held     atomic.Int64
	maxTotal int64 // limit of held
	maxSize  int64 // limit of one body
}

// body is the body of one request. Its bytes count as they arrive and until it is
// released, after the request has been served, so that many slow clients or long
// calls cannot exhaust memory.
type body struct {
	all  *bodies
	in   io.Reader
	data []byte
	held int64 // bytes counted in all.held
}

var errTooManyBytes = errors.New("request bodies use too much memory; try again soon")

// Read reads and counts.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if b.held += int64(n); b.all.held.Add(int64(n)) > b.all.maxTotal {
		err = errTooManyBytes
	}
	return n, err
}

// read reads the whole body of a request; the caller must release it. On error it
// answers the request and returns false.
func (all *bodies) read(w http.ResponseWriter, r *http.Request) (*body, bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, nil, refusal("Content-Type: want application/json"))
		return nil, false
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		refuse(w, http.StatusUnsupportedMediaType, nil, refusal("Content-Encoding: want none, have "+coding))
		return nil, false
	}
	b := &body{all: all, in: http.MaxBytesReader(w, r.Body, all.maxSize), held: bodyCost}
	all.held.Add(bodyCost)
	var buffer bytes.Buffer
	buffer.Grow(bytes.MinRead + int(min(max(r.ContentLength, 0), bodyCost)))
	_, err := buffer.ReadFrom(b)
	b.data = buffer.Bytes()
	if err == nil {
		return b, true
	}
	b.release()
	status := http.StatusBadRequest
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		status, err = http.StatusRequestEntityTooLarge, &jsonrpc.MessageTooLong{Limit: int(all.maxSize)}
	} else if err == errTooManyBytes {
		status = http.StatusServiceUnavailable
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		status = http.StatusRequestTimeout
	}
	w.Header().Set("Connection", "close") // otherwise net/http reads the rest of the body
	refuse(w, status, nil, refusal(err.Error()))
	return nil, false
}

// release frees the body's share of the limit.
func (b *body) release() { b.all.held.Add(-b.held) }

// refusal returns an error for an invalid request.
func refusal(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: message}
}
