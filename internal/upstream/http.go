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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	dialTimeout  = 10 * time.Second
	lateAnswers  = time.Second // how long a link that fails waits for answers that are on their way
	lingerTime   = time.Second // for a stream to end after its answer, so that its connection can be used again
	maxRedirects = 10
)

// DialFunc makes the connections to a server over HTTP, see [http.Transport].
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// newClient returns a client that all HTTP links of an upstream share. It has no
// timeout for answers: a call may take hours.
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

// httpLink is what the two HTTP transports share: the life of a link with all
// that goes on in it, and how a request is made. Each message is an exchange
// of its own; the link ends when the last of them has.
type httpLink struct {
	c    *conn
	spec *Spec
	done chan struct{} // closed when all exchanges have ended

	posts      context.Context // of messages with their answers
	cutOff     context.CancelCauseFunc
	streams    context.Context // of the server's own streams: nothing is lost when they are cut off
	cutStreams context.CancelFunc

	mu      sync.Mutex
	err     error          // why the link ends; nil while it lives
	session string         // Mcp-Session-Id; "" without a session
	work    sync.WaitGroup // one for each exchange, started under mu
}

func newHTTPLink(c *conn) *httpLink {
	l := &httpLink{c: c, spec: &c.in.up.spec, done: make(chan struct{})}
	l.posts, l.cutOff = context.WithCancelCause(context.Background())
	l.streams, l.cutStreams = context.WithCancel(l.posts)
	return l
}

// sameOriginOnly keeps credentials and messages from other servers, and a POST
// from turning into a GET without its message.
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

// start runs f on a goroutine of its own.
func (l *httpLink) start(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return errLinkClosed
	}
	l.work.Go(f)
	return nil
}

// end accepts nothing more, and ends the link once all exchanges have ended: streams
// at once, messages after a grace period in which their answers may still come.
// last runs meanwhile.
func (l *httpLink) end(why error, grace time.Duration, last func()) {
	if errors.Is(why, errSessionLost) {
		l.c.in.up.o.Invalidated("session") // before anything that follows from that
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = why
	l.cutStreams()
	go func() {
		late := time.AfterFunc(grace, l.cut)
		last()
		l.work.Wait()
		late.Stop()
		l.cut()
		l.c.closed(why)
		close(l.done)
	}()
}

// cut ends what still runs on a link that ends.
func (l *httpLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// %v: the link's error may say that a request was not run, but one that is cut off
	// may have been.
	l.cutOff(fmt.Errorf("cut off before its answer: %v", l.err))
}

// finish ends the link from our side and returns when it has ended.
func (l *httpLink) finish(last func()) {
	l.end(errLinkClosed, 0, last)
	l.cut() // a link that was ending already gets no more grace
	<-l.done
}

// post is one message on its way over HTTP.
type post struct {
	outgoing
	cancel   context.CancelCauseFunc
	release  func() bool // ends the watch over the context that it was sent with
	linger   *time.Timer // ends the exchange some time after the answer; nil before
	answered bool
	left     atomic.Bool // some of it may have left for the server

	// Of streamable HTTP.
	stateless bool
	session   string // as sent; "" without
	unread    error  // an event was too long: the answer may have been in it
}

// launch starts the exchange of one message and reports how it failed.
func (l *httpLink) launch(ctx context.Context, m outgoing, exchange func(context.Context, *post) error) error {
	of := l.posts
	if m.header.Get(mcp.HeaderMethod) == "subscriptions/listen" {
		of = l.streams
	}
	return l.start(func() {
		if m.taken != nil {
			defer m.taken()
		}
		life, cancel := context.WithCancelCause(of)
		defer cancel(nil)
		p := &post{outgoing: m, cancel: cancel}
		p.release = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		defer p.release()
		if m.id != 0 {
			life = httptrace.WithClientTrace(life, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { p.left.Store(true) },
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

// ended notes that the request has its answer: the context that it was sent with says
// nothing any more, and a stream has a little time to end.
func (p *post) ended() {
	p.answered = true
	p.release()
	p.linger = time.AfterFunc(lingerTime, func() { p.cancel(nil) })
}

// report says that a message failed, and ends the link if all others must too.
func (l *httpLink) report(ctx context.Context, p *post, err error) {
	ends := !p.alone && (denied(err) || errors.Is(err, errSessionLost))
	cut := ctx.Err() != nil && !ends
	if cut {
		err = context.Cause(ctx)
	}
	if ends {
		l.end(err, lateAnswers, func() {}) // which waits for this to return
	}
	switch {
	case p.id != 0 && !p.left.Load():
		l.c.lost(p.id, &unsentError{err})
	case p.id != 0:
		l.c.lost(p.id, err)
	case !cut && !ends:
		l.c.garbage(nil, fmt.Errorf("message not taken: %w", err))
	}
}

// do makes one HTTP request, with a message; without a line: with none. Later headers win
// over earlier ones.
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

// fenced is the body of a request that is kept back where its fence says so: it is read
// after its connection is there and its headers have been written.
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

// withoutURL removes the URL from an error of net/http: its query may hold a key.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

const (
	headBytes   = 64 << 10        // bytes read of the body of a status that is an error
	headTimeout = 2 * time.Second // for reading them
	shownBytes  = 200             // bytes of it in the error
)

var (
	// errSessionLost: the server no longer knows the session. A request lost
	// with it has not been run.
	errSessionLost = errors.New("session lost: the server no longer knows it")
	// errLinkClosed: our own side ended the link.
	errLinkClosed = errors.New("link closed")
)

// unsentError says that nothing of a message has left for the server, or not all of it.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// neverRun reports whether a request that was lost with that error has certainly not
// been run by the server.
func neverRun(err error) bool {
	_, unsent := errors.AsType[*unsentError](err)
	return unsent || errors.Is(err, errSessionLost)
}

// statusError is an HTTP answer that is of no use.
type statusError struct {
	status int
	text   string // what was seen
	denied bool   // the server wants other credentials
	older  bool   // the endpoint does not take a first message of streamable HTTP; it may speak the older HTTP+SSE
}

func (e *statusError) Error() string { return e.text }

// denied reports whether the server wants other credentials.
func denied(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.denied
}

// older reports whether the server may speak the older one of HTTP's two transports only.
func older(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.older
}

// final reports whether a GET would fail again the next time.
func final(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return errors.Is(err, errSessionLost) || ok && !retryable(e.status)
}

// retryable reports whether a request that a server refuses with that status may succeed
// later.
func retryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status != http.StatusNotImplemented
}

// badResponse describes an answer that is not what was wanted. Our secrets are masked where
// the server repeats them.
func (l *httpLink) badResponse(resp *http.Response, why string, body []byte) *statusError {
	text := fmt.Sprintf("status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		text += fmt.Sprintf(", redirect to %s://%s not followed", to.Scheme, to.Host)
	}
	if why != "" {
		text += ", " + why
	}
	if shown := l.excerpt(body); shown != "" {
		text += ": " + shown
	}
	return &statusError{status: resp.StatusCode, text: text}
}

// denied describes an answer that asks for credentials.
func (l *httpLink) denied(resp *http.Response, body []byte) *statusError {
	why := "the server wants other credentials"
	if challenge := resp.Header.Values("Www-Authenticate"); len(challenge) > 0 {
		why += " (WWW-Authenticate: " + l.excerpt([]byte(strings.Join(challenge, ", "))) + ")"
	}
	e := l.badResponse(resp, why, body)
	e.denied = true
	return e
}

// excerpt makes the beginning of a server's text fit for an error.
func (l *httpLink) excerpt(body []byte) string {
	l.mu.Lock()
	session := l.session
	l.mu.Unlock()
	if session != "" {
		body = bytes.ReplaceAll(body, []byte(session), []byte("[session]"))
	}
	return l.c.in.up.mask.Head(body, shownBytes)
}

// noteLimited tells of an answer that refuses request id, if any, as one too many.
func (l *httpLink) noteLimited(id int64, resp *http.Response) {
	after := resp.Header.Get("Retry-After")
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable && after != "" {
		l.c.requests.limited(id, after)
	}
}

// readHead reads the beginning of a body that is not worth waiting for.
func readHead(resp *http.Response) []byte {
	late := time.AfterFunc(headTimeout, func() { resp.Body.Close() })
	defer late.Stop()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, headBytes)) // what came before an error is shown
	return body
}

// readBody reads a body of up to limit bytes, and of a longer one the beginning.
func readBody(resp *http.Response, limit int) ([]byte, error) {
	var body bytes.Buffer
	if size := min(resp.ContentLength, int64(limit)); size > 0 {
		body.Grow(int(size) + bytes.MinRead) // it is read without growing
	}
	_, err := body.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	if err == nil && body.Len() > limit {
		err = fmt.Errorf("message of more than %d bytes", limit)
	}
	return body.Bytes(), err
}

// mediaType returns the content type without its parameters.
func mediaType(resp *http.Response) string {
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" or what could be read of it
	return t
}
