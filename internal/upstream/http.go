package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	dialTimeout  = 10 * time.Second
	answerGrace  = time.Second // how long a failing link waits for responses in flight
	streamLinger = time.Second // for a stream to end after its answer, so that its connection can be reused
	maxRedirects = 10
	headBytes    = 64 << 10        // bytes read of the body of an error response
	headTimeout  = 2 * time.Second // time for reading them
	shownBytes   = 200             // bytes of the body shown in the error
)

// DialFunc dials a server over HTTP, see [http.Transport].
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// newClient returns an HTTP client for all links of an upstream. It has no response timeout,
// because a call may take hours.
func newClient(dial DialFunc) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if dial != nil {
		t.Proxy, t.DialContext = nil, dial
	} else {
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

// httpLink is the common part of the two HTTP transports: the lifetime of a link and its
// exchanges, and how a request is made. Each message is an exchange of its own. The link ends
// when the last exchange has ended.
type httpLink struct {
	c    *conn
	spec *Spec
	done chan struct{} // closed when all exchanges have ended

	posts         context.Context // parent context of messages and their answers
	cancelPosts   context.CancelCauseFunc
	streams       context.Context // parent context of the server's own streams, which can be cut off without loss
	cancelStreams context.CancelFunc

	mu   sync.Mutex
	err  error          // why the link ends; nil while it is open
	work sync.WaitGroup // the exchanges; started with mu held
}

func newHTTPLink(c *conn) *httpLink {
	l := &httpLink{c: c, spec: &c.in.up.spec, done: make(chan struct{})}
	l.posts, l.cancelPosts = context.WithCancelCause(context.Background())
	l.streams, l.cancelStreams = context.WithCancel(l.posts)
	return l
}

// spawn runs f on a new goroutine, or returns an error if the link has ended.
func (l *httpLink) spawn(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return errLinkClosed
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
		close(l.done)
	}()
}

// cancelAll cancels all exchanges of a link that is closing.
func (l *httpLink) cancelAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// %v, not %w: the link's error may mean "not run", but a cancelled request may have run.
	l.cancelPosts(fmt.Errorf("cut off before its answer: %v", l.err))
}

// close closes the link without a grace period and returns when it has ended.
func (l *httpLink) close() {
	l.end(errLinkClosed, 0)
	l.cancelAll() // also if the link was already closing, with a grace period
	<-l.done
}

// post is one message sent over HTTP.
type post struct {
	outgoing
	cancel    context.CancelCauseFunc
	release   func() bool // stops watching the sender's context
	answered  bool
	linger    *time.Timer // ends the exchange some time after the answer; nil before the answer
	maybeSent atomic.Bool // part of it may have been written to the connection
}

// launch starts the exchange of one message on a new goroutine, and reports its failure.
func (l *httpLink) launch(ctx context.Context, m outgoing, exchange func(context.Context, *post) error) error {
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
		p.release = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		defer p.release()
		if m.id != 0 {
			life = httptrace.WithClientTrace(life, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { p.maybeSent.Store(true) },
			})
		}
		if err := exchange(life, p); err != nil && !p.answered {
			l.report(life, p, err)
		}
		if p.linger != nil {
			p.linger.Stop()
		}
	})
}

// isAnswer reports whether a raw id is that of the request.
func (p *post) isAnswer(raw []byte) bool {
	return p.id != 0 && string(raw) == strconv.FormatInt(p.id, 10)
}

// markAnswered records that the request was answered. From then on the sender's context is
// ignored, and the stream has a short time to end.
func (p *post) markAnswered() {
	if !p.answered {
		p.answered = true
		p.release()
		p.linger = time.AfterFunc(streamLinger, func() { p.cancel(nil) })
	}
}

// report fails the request of a failed message, and closes the link if all others must fail.
func (l *httpLink) report(ctx context.Context, p *post, err error) {
	ends := !p.isolated && (denied(err) || errors.Is(err, errSessionLost))
	cut := ctx.Err() != nil && !ends
	if cut {
		err = context.Cause(ctx)
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

// withoutURL removes the URL from a net/http error: its query may contain a secret.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

var (
	// errSessionLost means that the server no longer knows the session. Requests that fail with
	// it did not run.
	errSessionLost = errors.New("session lost: the server no longer knows it")
	// errLinkClosed means that the proxy closed the link.
	errLinkClosed = errors.New("link closed")
)

// unsentError means that a message was not sent, or not completely.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// neverRun reports whether the server certainly did not run a request that failed with err.
func neverRun(err error) bool {
	_, unsent := errors.AsType[*unsentError](err)
	return unsent || errors.Is(err, errSessionLost)
}

// statusError is an unexpected HTTP response.
type statusError struct {
	status   int
	text     string // the description
	denied   bool   // the server rejects the credentials
	mayBeSSE bool   // the endpoint rejects streamable HTTP and may support HTTP+SSE
}

func (e *statusError) Error() string { return e.text }

// denied reports whether the server rejects the credentials.
func denied(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.denied
}

// mayBeSSE reports whether the server may support only HTTP+SSE.
func mayBeSSE(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.mayBeSSE
}

// final reports whether a GET would fail again if retried.
func final(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	if !ok {
		return errors.Is(err, errSessionLost)
	}
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.status < 500 || e.status == http.StatusNotImplemented
}

// badResponse returns an error for an unexpected response. Secrets that the server echoes are
// masked.
func (l *httpLink) badResponse(resp *http.Response, why string, body []byte) *statusError {
	text := fmt.Sprintf("status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		text += fmt.Sprintf(", redirect to %s://%s not followed", to.Scheme, to.Host)
	}
	if why != "" {
		text += ", " + why
	}
	if shown := l.c.in.up.mask.Head(body, shownBytes); shown != "" {
		text += ": " + shown
	}
	return &statusError{status: resp.StatusCode, text: text}
}

// denied returns an error for a response that rejects the credentials.
func (l *httpLink) denied(resp *http.Response, body []byte) *statusError {
	e := l.badResponse(resp, "the server wants other credentials", body)
	e.denied = true
	return e
}

// noteLimited records a rate limit response to request id, if id is not 0.
func (l *httpLink) noteLimited(id int64, resp *http.Response) {
	after := resp.Header.Get("Retry-After")
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable && after != "" {
		if p := l.c.requests.find(id); p != nil {
			p.limited.Store(&after)
		}
	}
}

// readHead reads the beginning of a body, for at most headTimeout.
func readHead(resp *http.Response) []byte {
	timer := time.AfterFunc(headTimeout, func() { resp.Body.Close() })
	defer timer.Stop()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, headBytes)) // the part before an error is still shown
	return body
}

// readBody reads a body of up to limit bytes. For a longer one it returns the beginning and an
// error.
func readBody(resp *http.Response, limit int) ([]byte, error) {
	var body bytes.Buffer
	if size := min(resp.ContentLength, int64(limit)); size > 0 {
		body.Grow(int(size) + bytes.MinRead) // avoids growing while reading
	}
	_, err := body.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	if err == nil && body.Len() > limit {
		err = fmt.Errorf("message of more than %d bytes", limit)
	}
	return body.Bytes(), err
}

// mediaType returns the content type without parameters.
func mediaType(resp *http.Response) string {
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // on an error, empty or the readable part
	return t
}
