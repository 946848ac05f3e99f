package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

const deleteTimeout = 2 * time.Second // for the DELETE that ends a session

// streamable is a link over streamable HTTP in both its eras: with a session
// (2025-03-26 to 2025-11-25), and stateless (2026-07-28). Each message is a
// POST of its own, and the response one message or a stream of them. Every
// request that send accepted ends in its answer or in conn.lost.
type streamable struct {
	*httpLink
	spoken atomic.Bool // the server has answered a POST as streamable HTTP does
}

func newStreamable(c *conn) *streamable { return &streamable{httpLink: newHTTPLink(c)} }

func (l *streamable) send(ctx context.Context, m outgoing) error {
	return l.launch(ctx, m, l.exchange)
}

// close ends the session too, if there is one.
func (l *streamable) close() {
	l.finish(func() {
		header := l.headers(false, "application/json")
		if header.Get(mcp.HeaderSessionID) == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
		defer cancel()
		if resp, err := l.do(ctx, outgoing{}, http.MethodDelete, l.spec.URL, header); err == nil { // else the server is not there
			resp.Body.Close()
		}
	})
}

// headers returns the protocol's own headers. A stateless request has no
// session.
func (l *streamable) headers(stateless bool, accept string) http.Header {
	l.mu.Lock()
	defer l.mu.Unlock()
	header := http.Header{"Accept": {accept}}
	version := l.c.revision()
	if version != "" {
		header.Set(mcp.HeaderProtocolVersion, version)
	}
	if l.session != "" && !stateless && !revision.Stateless(version) {
		header.Set(mcp.HeaderSessionID, l.session)
	}
	return header
}

// exchange sends a message and passes on what comes back for it.
func (l *streamable) exchange(ctx context.Context, p *post) error {
	header := l.headers(p.header != nil, "application/json, text/event-stream")
	version := header.Get(mcp.HeaderProtocolVersion)
	p.stateless = p.header != nil || revision.Stateless(version)
	p.session = header.Get(mcp.HeaderSessionID)
	resp, err := l.do(ctx, p.outgoing, http.MethodPost, l.spec.URL, header, p.header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		l.noteLimited(p.id, resp)
		return l.refused(p, resp)
	}
	l.spoken.Store(true)
	if session := resp.Header.Get(mcp.HeaderSessionID); session != "" && version == "" && p.id != 0 { // only the handshake gives one
		l.mu.Lock()
		l.session = session
		l.mu.Unlock()
	}
	switch kind := mediaType(resp); {
	case p.id == 0:
		if kind != "text/event-stream" {
			readHead(resp) // so that the connection can be used again
		}
		return nil
	case kind == "text/event-stream":
		return l.follow(ctx, p, resp.Body)
	case kind == "application/json":
		return l.single(p, resp)
	default:
		return l.badResponse(resp, fmt.Sprintf("no answer, content type %q", kind), readHead(resp))
	}
}

// single passes on what a JSON body holds.
func (l *streamable) single(p *post, resp *http.Response) error {
	body, err := readBody(resp, l.spec.MaxMessage)
	if err != nil {
		return l.badResponse(resp, fmt.Sprintf("body broken off after %d bytes: %v", len(body), err), body)
	}
	jsonrpc.Flatten(body)
	why := "not the answer to this request"
	for m, bad := range l.c.messages(body) {
		if bad != nil {
			why = bad.Error()
			l.c.garbage(body, bad)
			continue
		}
		l.deliver(p, m)
	}
	if !p.answered {
		return l.badResponse(resp, why, body)
	}
	return nil
}

func (l *streamable) deliver(p *post, m jsonrpc.Message) {
	if m.IsResponse() && p.named(m.ID) {
		p.ended()
	}
	l.c.message(m, p.id)
}

// named reports whether a raw id is that of the request.
func (p *post) named(raw []byte) bool {
	var number [20]byte
	return p.id != 0 && string(raw) == string(strconv.AppendInt(number[:0], p.id, 10))
}

// refused makes the best of an error status: the body may be an error response.
func (l *streamable) refused(p *post, resp *http.Response) error {
	status := resp.StatusCode
	if status == http.StatusNotFound && p.session != "" {
		return errSessionLost
	}
	body := readHead(resp)
	m := l.c.errorIn(resp, body)
	own := m.Error != nil && p.named(m.ID)
	nameless := m.Error != nil && (m.ID == nil || string(m.ID) == "null")
	switch first := !l.spoken.Load(); {
	case status == http.StatusUnauthorized, status == http.StatusForbidden && first && !own: // later it is about one request
		return l.denied(resp, body)
	case nameless && status == http.StatusBadRequest && p.session != "" && aboutSession(m.Error):
		return errSessionLost
	case nameless && p.id != 0 && (!first || revision.Modern(readError(m.Error).Code)):
		// The server did not get as far as the id, but what it says is about this request.
		m, _ = jsonrpc.Parse(jsonrpc.AppendError(nil, strconv.AppendInt(nil, p.id, 10), m.Error))
		own = true
	case !own && first && (status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed):
		e := l.badResponse(resp, "", body)
		e.older = true
		return e
	}
	if own {
		l.spoken.Store(true)
		l.deliver(p, m)
		return nil
	}
	return l.badResponse(resp, "", body)
}

// errorIn returns the error response that a body holds, an empty message if there is none.
func (c *conn) errorIn(resp *http.Response, body []byte) jsonrpc.Message {
	if mediaType(resp) == "application/json" {
		jsonrpc.Flatten(body)
		if m, _, err := c.parse(body); err == nil && m.Error != nil {
			return m
		}
	}
	return jsonrpc.Message{}
}

// aboutSession recognizes what the reference servers say with status 400, not
// 404, when they were started anew: "No valid session ID provided".
func aboutSession(object []byte) bool {
	return bytes.Contains(bytes.ToLower([]byte(text(jsonrpc.Get(object, "message")))), []byte("session"))
}

// The streams of streamable HTTP: that of a request, and the one on which a server with
// a session speaks of its own accord. Either is taken up again where it broke.
const (
	firstRetry  = time.Second      // before a broken stream is taken up again, unless the server says otherwise
	slowestWait = 30 * time.Second // the longest of the growing waits
	resumeTries = 5                // failures in a row after which a request's stream is lost
)

// wait waits before the stream is taken up again.
func (at *cursor) wait(ctx context.Context) error {
	return sleep(ctx, max(min(at.retry<<min(at.failures, 5), slowestWait), at.retry))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow passes on the stream that answers a request. With a session it takes
// it up again where it broke, as often as the server wants: some close their
// connections on purpose and are to be polled.
func (l *streamable) follow(ctx context.Context, p *post, body io.ReadCloser) error {
	at := cursor{retry: firstRetry}
	for {
		_, err := l.read(body, &at, func(m jsonrpc.Message, head []byte, bad error) { l.take(p, m, head, bad) }, nil)
		switch {
		case p.unread != nil:
			err = fmt.Errorf("stream ended before its answer: %w", p.unread)
		case err == io.EOF:
			err = errors.New("stream ended before its answer")
		default:
			err = fmt.Errorf("stream broke before its answer: %w", err)
		}
		if p.answered || ctx.Err() != nil || p.stateless {
			return err
		}
		if at.id == "" || p.unread != nil {
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

// take takes a message from the stream of a request, or what is none.
func (l *streamable) take(p *post, m jsonrpc.Message, head []byte, err error) {
	if err == nil {
		l.deliver(p, m)
		return
	}
	id := answers(m, head, true)
	if id == p.id {
		p.ended()
	} else if _, long := errors.AsType[*jsonrpc.LineTooLong](err); long {
		p.unread = err
	}
	l.c.unreadable(id, head, err)
}

// resume opens the rest of a request's stream.
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
			l.end(err, lateAnswers, func() {})
			return nil, errors.New(err.Error()) // this request has been sent, and may have been run
		}
		if at.failures++; final(err) || at.failures == resumeTries {
			return nil, err
		}
	}
}

// listen opens the stream on which a server with a session speaks of its own
// accord, and keeps it open. Many servers have none. What they said while it was not
// open may be lost: that is a gap, unless the stream goes on behind its last event.
func (l *streamable) listen() {
	_ = l.start(func() { // an error: the link has ended
		ctx, at := l.streams, cursor{retry: firstRetry}
		for opened := false; ; {
			body, err := l.get(ctx, at.id)
			if opened && (at.id == "" || err != nil && final(err)) && ctx.Err() == nil {
				l.c.gap()
			}
			switch {
			case err == nil:
				opened = true
				if l.pass(body, &at); at.id == "" && ctx.Err() == nil {
					l.c.gap()
				}
			case !final(err):
				at.failures++
			case opened && (denied(err) || errors.Is(err, errSessionLost)):
				l.end(err, lateAnswers, func() {})
				return
			case !opened || at.id == "":
				// At first it may only mean that there is no such stream, whatever the
				// status, 404 and 401 included. The next POST tells.
				return
			default:
				at.id = "" // it may be the id that the server does not know
			}
			if at.wait(ctx) != nil {
				return
			}
		}
	})
}

// pass passes on the server's own stream until it ends.
func (l *streamable) pass(body io.ReadCloser, at *cursor) {
	began := time.Now()
	events, _ := l.read(body, at, func(m jsonrpc.Message, head []byte, err error) {
		if err != nil {
			l.c.garbage(head, err)
		} else {
			l.c.message(m, 0)
		}
	}, nil)
	if events > 0 || time.Since(began) > slowestWait {
		at.failures = 0
	} else {
		at.failures++
	}
}

// get opens a stream of the server's own, or the rest of one that broke.
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
