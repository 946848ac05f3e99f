package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

const (
	deleteTimeout = 2 * time.Second // for the DELETE that ends a session
	lingerTime    = time.Second     // for a stream to end after its answer, so that its connection can be used again
)

// streamable is a link over streamable HTTP in both its eras: with a session
// (2025-03-26 to 2025-11-25), and stateless (2026-07-28). Each message is a
// POST of its own, whose response is one message or a stream of them. Every
// request that send accepted ends in its answer or in sink.lost.
type streamable struct {
	*httpLink
	spoken atomic.Bool // the server has answered a POST as streamable HTTP does
}

func dialStreamable(opts httpOptions, in sink) *streamable {
	return &streamable{httpLink: newHTTPLink(opts, in)}
}

func (l *streamable) send(ctx context.Context, m outgoing) error {
	return l.launch(ctx, m, func(life context.Context, p *post) error {
		return l.exchange(life, &streamPost{post: p, link: l})
	})
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
		if resp, err := l.do(ctx, http.MethodDelete, l.opts.url, nil, header); err == nil {
			resp.Body.Close() // whatever it says: we are gone
		}
	})
}

// headers returns the protocol's own headers. A stateless request has no
// session.
func (l *streamable) headers(stateless bool, accept string) http.Header {
	l.mu.Lock()
	defer l.mu.Unlock()
	header := http.Header{"Accept": {accept}}
	if l.version != "" {
		header.Set(mcp.HeaderProtocolVersion, l.version)
	}
	if l.session != "" && !stateless && !mcp.IsModernProtocol(l.version) {
		header.Set(mcp.HeaderSessionID, l.session)
	}
	return header
}

// streamPost is one POST of a streamable link.
type streamPost struct {
	*post
	link      *streamable
	stateless bool
	session   string // as sent; "" without
	unread    error  // an event was too long: the answer may have been in it
}

// exchange sends a message and passes on what comes back for it.
func (l *streamable) exchange(ctx context.Context, p *streamPost) error {
	header := l.headers(p.header != nil, "application/json, text/event-stream")
	version := header.Get(mcp.HeaderProtocolVersion)
	p.stateless = p.header != nil || mcp.IsModernProtocol(version)
	p.session = header.Get(mcp.HeaderSessionID)
	resp, err := l.do(ctx, http.MethodPost, l.opts.url, p.line, header, p.header)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		l.tellLimited(p.id, resp)
		return p.refused(resp)
	}
	l.spoken.Store(true)
	if session := resp.Header.Get(mcp.HeaderSessionID); session != "" && version == "" && p.id != 0 { // only the handshake gives one
		l.mu.Lock()
		l.session = session
		l.mu.Unlock()
	}
	kind := mediaType(resp)
	if p.id != 0 && kind == "text/event-stream" {
		return p.follow(ctx, resp)
	}
	defer resp.Body.Close()
	switch {
	case p.id == 0:
		if kind != "text/event-stream" {
			defer cutLate(resp.Body).Stop()
			_, _ = io.CopyN(io.Discard, resp.Body, headBytes) // so that the connection can be used again
		}
		return nil
	case kind == "application/json":
		return p.single(resp)
	default:
		return l.useless(resp, fmt.Sprintf("no answer, content type %q", kind), head(resp))
	}
}

// single passes on what a JSON body holds.
func (p *streamPost) single(resp *http.Response) error {
	body, err := readBody(resp, p.link.opts.maxMessage)
	if err != nil {
		return p.link.useless(resp, fmt.Sprintf("body broken off after %d bytes: %v", len(body), err), body)
	}
	jsonrpc.Flatten(body)
	for m, bad := range p.link.in.messages(body) {
		if bad != nil {
			err = bad
			continue
		}
		p.deliver(m)
	}
	switch {
	case p.answered && err != nil:
		p.link.in.garbage(body, err)
	case p.answered:
	case err != nil:
		return p.link.useless(resp, err.Error(), body)
	default:
		return p.link.useless(resp, "not the answer to this request", body)
	}
	return nil
}

func (p *streamPost) deliver(m jsonrpc.Message) {
	if m.IsResponse() && isID(m.ID, p.id) {
		p.ended()
	}
	p.link.in.message(m, p.id)
}

// ended notes that the request has its answer: the context that it was sent with says
// nothing any more, and a stream has a little time to end.
func (p *streamPost) ended() {
	p.answered = true
	p.release()
	p.linger = time.AfterFunc(lingerTime, func() { p.cancel(nil) })
}

// refused makes the best of an error status.
func (p *streamPost) refused(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotFound && p.session != "" {
		return errSessionLost
	}
	var body []byte
	var m jsonrpc.Message // stays empty unless the body is an error response
	if mediaType(resp) == "application/json" {
		defer cutLate(resp.Body).Stop()
		body, _ = readBody(resp, p.link.opts.maxMessage) // cut off, it is only shown
		jsonrpc.Flatten(body)
		if parsed, err := p.link.in.parse(body); err == nil && parsed.Error != nil {
			m = parsed
		}
	} else {
		body = head(resp)
	}
	nameless := m.Error != nil && (m.ID == nil || string(m.ID) == "null")
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized:
		return p.link.denied(resp, body)
	case m.Error != nil && isID(m.ID, p.id):
		p.link.spoken.Store(true)
		p.deliver(m)
		return nil
	case status == http.StatusForbidden && !p.link.spoken.Load(): // later it is about one request
		return p.link.denied(resp, body)
	case nameless && status == http.StatusBadRequest && p.session != "" && aboutSession(m.Error):
		return errSessionLost
	case nameless && p.id != 0 && (p.link.spoken.Load() || modernError(m.Error)):
		// The server did not get as far as the id, but what it says is about
		// this request.
		p.link.spoken.Store(true)
		id := strconv.AppendInt(nil, p.id, 10)
		if m, err := jsonrpc.Parse(jsonrpc.AppendError(nil, id, m.Error)); err == nil {
			p.deliver(m)
			return nil
		}
	case !p.link.spoken.Load() && (status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed):
		return &notStreamable{*p.link.useless(resp, "", body)}
	}
	return p.link.useless(resp, "", body)
}

// aboutSession recognizes what the reference servers say with status 400, not
// 404, when they were started anew: "No valid session ID provided".
func aboutSession(object []byte) bool {
	text, _ := jsonrpc.String(jsonrpc.Get(object, "message"))
	return bytes.Contains(bytes.ToLower([]byte(text)), []byte("session"))
}

// modernError recognizes the errors by which a server of the stateless era
// refuses a request before it reads the id.
func modernError(object []byte) bool {
	switch string(jsonrpc.Get(object, "code")) {
	case "-32020", "-32021", "-32022":
		return true
	}
	return false
}
