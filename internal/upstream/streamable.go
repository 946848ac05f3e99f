package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Both streams of streamable HTTP, a request's and the server's own, are resumed when they break.
const (
	firstRetry    = time.Second      // before a broken stream is resumed, unless the server sets another value
	maxRetryWait  = 30 * time.Second // maximum of the growing waits
	maxResumes    = 5                // consecutive failures after which a request's stream is lost
	deleteTimeout = 2 * time.Second  // for the DELETE request that ends a session
)

// streamable is a link over streamable HTTP of both eras: with a session (2025-03-26 to
// 2025-11-25), and stateless (2026-07-28). Each message is a POST, and the response is one
// message or a stream. Every request that send accepts ends in an answer or in conn.failRequest.
type streamable struct {
	*httpLink
	session   atomic.Value // Mcp-Session-Id, a string; unset without a session
	confirmed atomic.Bool  // the server has answered a POST as streamable HTTP requires
}

func newStreamable(c *conn) *streamable { return &streamable{httpLink: newHTTPLink(c)} }

func (l *streamable) send(ctx context.Context, m outgoing) error {
	return l.launch(ctx, m, l.exchange)
}

// close also ends the HTTP session, if there is one.
func (l *streamable) close() {
	l.mu.Lock()
	open := l.err == nil
	l.mu.Unlock()
	l.cancelStreams()
	if header := l.headers(false, "application/json"); open && header.Get(mcp.HeaderSessionID) != "" {
		ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
		defer cancel()
		if resp, err := l.do(ctx, outgoing{}, http.MethodDelete, l.spec.URL, header); err == nil { // on an error the server is gone
			resp.Body.Close()
		}
	}
	l.httpLink.close()
}

// headers returns the protocol's headers. A stateless request has no session.
func (l *streamable) headers(stateless bool, accept string) http.Header {
	header := http.Header{"Accept": {accept}}
	version := l.c.revision()
	if version != "" {
		header.Set(mcp.HeaderProtocolVersion, version)
	}
	if session, ok := l.session.Load().(string); ok && !stateless && !revision.Stateless(version) {
		header.Set(mcp.HeaderSessionID, session)
	}
	return header
}

// exchange posts a message and handles the response.
func (l *streamable) exchange(ctx context.Context, p *post) error {
	header := l.headers(p.header != nil, "application/json, text/event-stream")
	version := header.Get(mcp.HeaderProtocolVersion)
	resp, err := l.do(ctx, p.outgoing, http.MethodPost, l.spec.URL, header, p.header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		l.noteLimited(p.id, resp)
		return l.refused(p, resp, header.Get(mcp.HeaderSessionID) != "")
	}
	l.confirmed.Store(true)
	if session := resp.Header.Get(mcp.HeaderSessionID); session != "" && version == "" && p.id != 0 { // only the handshake creates a session
		l.session.Store(session)
	}
	switch kind := mediaType(resp); {
	case p.id == 0:
		if kind != "text/event-stream" {
			readHead(resp) // so that the connection can be reused
		}
		return nil
	case kind == "text/event-stream":
		return l.readStream(ctx, p, resp.Body, p.header == nil && !revision.Stateless(version))
	case kind == "application/json":
		return l.readJSON(p, resp)
	default:
		return l.badResponse(resp, fmt.Sprintf("no answer, content type %q", kind), readHead(resp))
	}
}

// readJSON handles a JSON response body.
func (l *streamable) readJSON(p *post, resp *http.Response) error {
	body, err := readBody(resp, l.spec.MaxMessage)
	if err != nil {
		return l.badResponse(resp, fmt.Sprintf("body broken off after %d bytes: %v", len(body), err), body)
	}
	jsonrpc.Flatten(body)
	if err := l.take(p, body); err != nil {
		return l.badResponse(resp, err.Error(), body)
	}
	if !p.answered {
		return l.badResponse(resp, "not the answer to this request", body)
	}
	return nil
}

// take handles the messages of a body or an event from the response to p.
func (l *streamable) take(p *post, data []byte) (err error) {
	for raw := range messages(bytes.TrimSpace(data)) {
		err = errors.Join(err, l.takeOne(p, raw))
	}
	return err
}

// takeOne handles one message from the response to p.
func (l *streamable) takeOne(p *post, raw []byte) error {
	m, err := l.c.parse(raw)
	own := m.Method == "" && p.isAnswer(m.ID)
	if own {
		p.markAnswered()
	}
	switch {
	case err == nil:
		l.c.message(m, p.id)
	case own:
		l.c.logInvalid(raw, err)
		l.c.failRequest(p.id, fmt.Errorf("its answer cannot be read: %w", err))
	default:
		l.c.unreadable(m.ID, raw, err)
	}
	return err
}

// refused handles an error status, the body of which may be an error response.
func (l *streamable) refused(p *post, resp *http.Response, inSession bool) error {
	status := resp.StatusCode
	if status == http.StatusNotFound && inSession {
		return errSessionLost
	}
	body := readHead(resp)
	m := l.c.errorIn(body)
	first, own := !l.confirmed.Load(), p.isAnswer(m.ID)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden && first && !own: // later, 403 concerns one request only
		return l.denied(resp, body)
	case own:
		l.confirmed.Store(true)
		p.markAnswered()
		l.c.message(m, p.id)
		return nil
	case status == http.StatusBadRequest && inSession && aboutSession(m.Error):
		return errSessionLost
	}
	e := l.badResponse(resp, "", body)
	e.mayBeSSE = first && (status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed)
	return e
}

// errorIn returns the error response in a body, or an empty message.
func (c *conn) errorIn(body []byte) jsonrpc.Message {
	jsonrpc.Flatten(body)
	if m, err := c.parse(body); err == nil && m.Error != nil {
		return m
	}
	return jsonrpc.Message{}
}

// aboutSession recognizes the error "No valid session ID provided", which the reference servers
// send with status 400 instead of 404 after a restart.
func aboutSession(object []byte) bool {
	return bytes.Contains(bytes.ToLower([]byte(text(jsonrpc.Get(object, "message")))), []byte("session"))
}

// wait blocks until the stream may be resumed.
func (at *cursor) wait(ctx context.Context) error {
	return sleep(ctx, max(min(at.retry<<min(at.failures, 5), maxRetryWait), at.retry))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readStream reads the stream that answers a request. With a session it resumes a broken stream
// as often as the server closes it: some servers close streams on purpose and expect polling.
func (l *streamable) readStream(ctx context.Context, p *post, body io.ReadCloser, inSession bool) error {
	at := cursor{retry: firstRetry}
	for {
		_, err := l.read(body, &at, func(kind string, data []byte) error {
			if kind == "message" {
				_ = l.take(p, data) // which has logged the error
			}
			return nil
		})
		tooLong := errors.Is(err, errTooLong)
		if err == io.EOF {
			err = errors.New("stream ended before its answer")
		} else {
			err = fmt.Errorf("stream broke before its answer: %w", err)
		}
		if p.answered || ctx.Err() != nil || !inSession {
			return err
		}
		if at.id == "" || tooLong {
			l.c.gap()
			return err
		}
		if body, err = l.resume(ctx, &at); err != nil {
			if ctx.Err() == nil {
				l.c.gap()
			}
			return fmt.Errorf("stream ended before its answer and was not resumed: %w", err)
		}
	}
}

// resume reopens a request's stream after its last event.
func (l *streamable) resume(ctx context.Context, at *cursor) (io.ReadCloser, error) {
	for at.failures = 0; ; {
		if err := at.wait(ctx); err != nil {
			return nil, err
		}
		body, err := l.get(ctx, at.id)
		if err == nil {
			return body, nil
		}
		if errors.Is(err, errSessionLost) {
			l.end(err, answerGrace)
			return nil, errors.New(err.Error()) // not errSessionLost itself: this request may have run
		}
		if at.failures++; final(err) || at.failures == maxResumes {
			return nil, err
		}
	}
}

// listen keeps the server's own GET stream open. Many servers have none. Messages sent while the
// stream was closed may be lost: that is a gap, unless the stream is resumed after its last
// event.
func (l *streamable) listen() {
	_ = l.spawn(func() { // an error means that the link has ended
		ctx, at := l.streams, cursor{retry: firstRetry}
		for opened := false; ; {
			body, err := l.get(ctx, at.id)
			if opened && (at.id == "" || err != nil && final(err)) && ctx.Err() == nil {
				l.c.gap()
			}
			switch {
			case err == nil:
				opened = true
				if l.readOwn(body, &at); at.id == "" && ctx.Err() == nil {
					l.c.gap()
				}
			case !final(err):
				at.failures++
			case opened && (denied(err) || errors.Is(err, errSessionLost)):
				l.end(err, answerGrace)
				return
			case !opened || at.id == "":
				// The first failure may only mean that there is no such stream, whatever the
				// status, 404 and 401 included. The next POST will show.
				return
			default:
				at.id = "" // the server may not know this id
			}
			if at.wait(ctx) != nil {
				return
			}
		}
	})
}

// readOwn reads the server's own stream until it ends.
func (l *streamable) readOwn(body io.ReadCloser, at *cursor) {
	began := time.Now()
	events, err := l.read(body, at, func(kind string, data []byte) error {
		if kind == "message" {
			l.c.receive(data, nil)
		}
		return nil
	})
	if errors.Is(err, errTooLong) {
		l.c.logInvalid(nil, err)
		at.id = "" // resumed after its last event, the stream would begin with this one again
	}
	if events > 0 || time.Since(began) > maxRetryWait {
		at.failures = 0
	} else {
		at.failures++
	}
}

// get opens the server's own stream, or resumes a stream after the event lastID.
func (l *streamable) get(ctx context.Context, lastID string) (io.ReadCloser, error) {
	header := l.headers(false, "text/event-stream")
	if lastID != "" {
		header.Set(mcp.HeaderLastEventID, lastID)
	}
	resp, err := l.do(ctx, outgoing{}, http.MethodGet, l.spec.URL, header)
	if err != nil {
		return nil, err
	}
	kind := mediaType(resp)
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound && header.Get(mcp.HeaderSessionID) != "":
		return nil, errSessionLost
	case status == http.StatusUnauthorized:
		return nil, l.denied(resp, nil)
	}
	return nil, l.badResponse(resp, fmt.Sprintf("content type %q", kind), nil)
}
