package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

const (
	dialTimeout   = 10 * time.Second
	answerGrace   = time.Second // how long a failing link waits for responses in flight
	streamLinger  = time.Second // for an exchange to end after its answer or its cancellation, so that its connection can be reused
	maxRedirects  = 10
	deleteTimeout = 2 * time.Second // for the DELETE request that ends a session
)

// DialFunc dials a server over HTTP, see [http.Transport].
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// ProxyFunc returns the HTTP proxy for a URL, or nil to connect directly.
type ProxyFunc = func(*url.URL) (*url.URL, error)

// newClient returns an HTTP client for all links of an upstream. It has no response timeout,
// because a call may take hours.
func newClient(proxy ProxyFunc, dial DialFunc) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if t.Proxy = nil; proxy != nil {
		t.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	}
	if t.DialContext = dial; dial == nil {
		t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 32
	return &http.Client{Transport: t, CheckRedirect: sameOriginOnly}
}

// sameOriginOnly prevents a redirect from sending credentials and messages to another server, and
// from changing a POST into a GET without a body.
func sameOriginOnly(req *http.Request, via []*http.Request) error {
	if !sameOrigin(req.URL, via[0].URL) || req.Method != via[0].Method || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	usual := map[string]string{"http": "80", "https": "443"}[a.Scheme]
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && cmp.Or(a.Port(), usual) == cmp.Or(b.Port(), usual)
}

// httpLink is a link over HTTP. Each message is an exchange of its own: a POST and its response.
// In streamable HTTP, with a session (2025-03-26 to 2025-11-25) or stateless (2026-07-28), the
// response has the answer, as one message or as a stream. Every request that send accepts ends in
// an answer or in conn.failRequest. The link ends when the last exchange has ended.
//
// In HTTP+SSE (2024-11-05) one stream carries all messages from the server, and its first event
// names the URL for POSTs. The link ends with the stream. A POST that is cut off fails its request,
// unless the answer has arrived on the stream; conn.closed fails the other unanswered requests.
type httpLink struct {
	c         *conn
	spec      *Spec
	sse       bool          // HTTP+SSE
	ready     chan struct{} // closed when endpoint is known
	endpoint  string        // URL for POSTs; set before ready is closed
	session   atomic.Value  // Mcp-Session-Id, a string; unset without a session
	confirmed atomic.Bool   // the server has answered a POST as its transport requires

	posts         context.Context // parent context of messages and their answers
	cancelPosts   context.CancelCauseFunc
	streams       context.Context // parent context of the server's own streams, which can be cut off without loss
	cancelStreams context.CancelFunc

	mu   sync.Mutex
	err  error          // why the link ends; nil while it is open
	work sync.WaitGroup // the exchanges; started with mu held
}

// openHTTP opens the link of c. It does not wait for the server.
func openHTTP(c *conn, sse bool) {
	l := &httpLink{c: c, spec: &c.in.up.spec, sse: sse, ready: make(chan struct{})}
	l.posts, l.cancelPosts = context.WithCancelCause(context.Background())
	l.streams, l.cancelStreams = context.WithCancel(l.posts)
	c.link, c.http = l, true
	if !sse {
		l.endpoint = l.spec.URL
		close(l.ready)
		return
	}
	l.confirmed.Store(true)
	_ = l.spawn(func() { l.end(l.readSSE(l.streams), 0) }) // cannot fail on a new link
}

// spawn runs f on a new goroutine, or returns an error if the link has ended.
func (l *httpLink) spawn(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return errClosed
	}
	l.work.Go(f)
	return nil
}

// end closes the link: it accepts no further messages, cancels the streams, and waits up to grace
// for the exchanges.
func (l *httpLink) end(why error, grace time.Duration) {
	if errors.Is(why, errSessionLost) {
		l.c.in.up.o.Invalidated("session") // before any consequence of the loss
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = why
	l.cancelStreams()
	go func() {
		timer := time.AfterFunc(grace, l.cancelAll)
		l.work.Wait()
		timer.Stop()
		l.cancelAll()
		l.c.closed(why)
	}()
}

// cancelAll cancels all exchanges of a link that is closing.
func (l *httpLink) cancelAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// %v, not %w: the link's error may mean "not run", but a cancelled request may have run.
	l.cancelPosts(fmt.Errorf("%v", l.err))
}

// close ends the HTTP session, if there is one, and closes the link without a grace period.
func (l *httpLink) close() {
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
	l.end(errStopped, 0)
	l.cancelAll() // also if the link was already closing, with a grace period
}

// post is one message sent over HTTP.
type post struct {
	outgoing
	cancel    context.CancelCauseFunc
	release   func() bool // stops watching the sender's context
	answered  bool
	linger    *time.Timer // ends the exchange after the answer; nil before
	cancelled atomic.Bool // its sender has given it up
	maybeSent atomic.Bool // part of it may have been written to the connection
}

// send starts the exchange of one message on a new goroutine, which reports its failure.
func (l *httpLink) send(ctx context.Context, m outgoing) error {
	parent := l.posts
	if m.header.Get(mcp.HeaderMethod) == "subscriptions/listen" {
		parent = l.streams
	}
	return l.spawn(func() {
		if m.done != nil {
			defer m.done()
		}
		life, cancel := context.WithCancelCause(parent)
		defer cancel(nil)
		p := &post{outgoing: m, cancel: cancel}
		if m.id != 0 {
			life = httptrace.WithClientTrace(life, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { p.maybeSent.Store(true) },
			})
		}
		p.release = context.AfterFunc(ctx, func() {
			p.cancelled.Store(true)
			if p.maybeSent.Load() && m.header == nil && !m.isolated { // a notification cancels the request, and the server may end its response
				_ = sleep(life, streamLinger)
			}
			cancel(context.Cause(ctx))
		})
		defer p.release()
		if err := l.exchange(life, p); err != nil && !p.answered {
			l.failPost(life, p, err)
		}
		if p.linger != nil {
			p.linger.Stop()
		}
	})
}

// failPost fails the request of a failed message, and closes the link if all others must fail.
func (l *httpLink) failPost(ctx context.Context, p *post, err error) {
	ends := !p.isolated && endsConnection(err)
	cut := ctx.Err() != nil && !ends
	if cut {
		err = context.Cause(ctx)
		if l.posts.Err() != nil && p.maybeSent.Load() {
			err = fmt.Errorf("cut off before its answer: %w", err)
		}
		if !p.isolated { // the idle connections may be dead too, as after a change of the network
			l.c.in.up.client.CloseIdleConnections()
		}
	}
	if ends {
		l.end(err, answerGrace) // waits for this exchange to return
	}
	switch {
	case p.id != 0 && !p.maybeSent.Load():
		l.c.failRequest(p.id, &unsentError{err})
	case p.id != 0:
		l.c.failRequest(p.id, err)
	case !cut && !ends:
		l.c.logInvalid(nil, fmt.Errorf("message not accepted: %w", err))
	}
}

// headers returns the protocol's headers. A stateless request has no session, and HTTP+SSE no
// further header.
func (l *httpLink) headers(stateless bool, accept string) http.Header {
	header := http.Header{"Accept": {accept}}
	if l.sse {
		return header
	}
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
func (l *httpLink) exchange(ctx context.Context, p *post) error {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.sse && p.id != 0 {
		// The caller may return as soon as the answer arrives on the stream. Its context must not
		// cancel the POST then: another request may already use the connection.
		p.release()
	}
	header := l.headers(p.header != nil, "application/json, text/event-stream")
	version, inSession := header.Get(mcp.HeaderProtocolVersion), header.Get(mcp.HeaderSessionID) != ""
	resp, err := l.do(ctx, p.outgoing, http.MethodPost, l.endpoint, header, p.header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		l.noteLimited(p.id, resp)
		return l.handleErrorStatus(p, resp, inSession)
	}
	l.confirmed.Store(true)
	if session := resp.Header.Get(mcp.HeaderSessionID); session != "" && version == "" && p.id != 0 { // only the handshake creates a session
		l.session.Store(session)
	}
	switch kind := mediaType(resp); {
	case p.id == 0 || l.sse:
		if kind != "text/event-stream" {
			readHead(resp) // so that the connection can be reused
		}
		return nil
	case kind == "text/event-stream":
		return l.readStream(ctx, p, resp, p.header == nil && !revision.Stateless(version))
	case strings.HasPrefix(kind, "application/json"): // also application/json-rpc, as for the reference clients
		return l.readJSON(p, resp)
	default:
		return l.badResponse(resp, fmt.Sprintf("no answer, content type %q", kind), readHead(resp))
	}
}

// isAnswer reports whether a raw id is that of the request.
func (p *post) isAnswer(raw []byte) bool { return p.id != 0 && requestID(raw) == p.id }

// markAnswered records that the request was answered. From then on the sender's context is
// ignored, and the stream has a short time to end.
func (p *post) markAnswered() {
	if !p.answered {
		p.answered = true
		p.release()
		p.linger = time.AfterFunc(streamLinger, func() { p.cancel(nil) })
	}
}

// readJSON handles a JSON response body.
func (l *httpLink) readJSON(p *post, resp *http.Response) error {
	body, err := readBody(resp, l.spec.MaxMessage)
	if err != nil {
		return l.badResponse(resp, fmt.Sprintf("body broken off after %d bytes: %v", len(body), err), body)
	}
	jsonrpc.Flatten(body)
	if err := l.receive(p, body); err != nil {
		return l.badResponse(resp, err.Error(), body)
	}
	if !p.answered {
		return l.badResponse(resp, "not the answer to this request", body)
	}
	return nil
}

// receive handles a body or an event from the response to p, and returns the first error.
func (l *httpLink) receive(p *post, data []byte) error {
	return l.c.receive(bytes.TrimSpace(data), nil, p.id, func(m jsonrpc.Message) {
		if m.Method == "" && p.isAnswer(m.ID) {
			p.markAnswered()
		}
	})
}

// handleErrorStatus handles an error status, the body of which may be an error response.
func (l *httpLink) handleErrorStatus(p *post, resp *http.Response, inSession bool) error {
	status, body := resp.StatusCode, readHead(resp)
	m := l.errorIn(body)
	first, own := !l.confirmed.Load(), p.isAnswer(m.ID)
	switch {
	case status == http.StatusNotFound && inSession && !(own && aboutRequest(m.Error)):
		return errSessionLost
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
func (l *httpLink) errorIn(body []byte) jsonrpc.Message {
	jsonrpc.Flatten(body)
	if m, err := l.c.parse(body); err == nil && m.Error != nil {
		return m
	}
	return jsonrpc.Message{}
}

// aboutRequest reports whether an error with status 404 is about its request: the method, a param or the
// resource is unknown. Any other means that the session is.
func aboutRequest(object []byte) bool {
	switch jsonrpc.ReadError(object).Code {
	case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, revision.CodeResourceNotFound:
		return true
	}
	return false
}

// aboutSession recognizes the error "No valid session ID provided", which the reference servers
// send with status 400 instead of 404 after a restart.
func aboutSession(object []byte) bool {
	return bytes.Contains(bytes.ToLower([]byte(jsonrpc.Text(object, "message"))), []byte("session"))
}

// do makes one HTTP request. Without a line it has no body. Later headers override earlier ones.
func (l *httpLink) do(ctx context.Context, m outgoing, method, address string, headers ...http.Header) (*http.Response, error) {
	client := l.c.in.up.client
	if m.id == 0 {
		client = l.c.in.up.sideClient
	}
	var content io.Reader
	if m.line != nil {
		content = bytes.NewReader(m.line)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, withoutURL(err)
	}
	if m.fence != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(&fenced{bytes.NewReader(m.line), m.fence}), nil
		}
		req.Body, _ = req.GetBody()
	}
	req.Header.Set("User-Agent", "mcpschedd")
	for _, header := range append([]http.Header{l.spec.Header}, headers...) {
		for name, values := range header {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if m.line != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	return resp, withoutURL(err)
}

// fenced is a request body that calls a fence before each read. net/http reads it when the
// connection is established and the headers are written.
type fenced struct {
	rest  *bytes.Reader
	fence func() error
}

func (f *fenced) Read(b []byte) (int, error) {
	if f.rest.Len() > 0 {
		if err := f.fence(); err != nil {
			return 0, &unsentError{err}
		}
	}
	return f.rest.Read(b)
}

// withoutURL removes the URL from a net/http error: its query may contain a secret. It replaces texts of
// net/http that do not say what happened.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "proxyconnect" {
		return fmt.Errorf("the HTTP proxy in HTTPS_PROXY or HTTP_PROXY cannot be reached: %w", e.Err)
	}
	if err == io.EOF {
		return errors.New("the server closed the connection without an answer")
	}
	return err
}
