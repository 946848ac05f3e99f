package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

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

// unsentError says that nothing of a message has left for the server.
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
	return errors.Is(err, errSessionLost) || ok && !again(e.status)
}

// again reports whether a request that a server refuses with that status may succeed
// later.
func again(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status != http.StatusNotImplemented
}

// useless describes an answer that is not what was wanted. Our secrets are masked where
// the server repeats them.
func (l *httpLink) useless(resp *http.Response, why string, body []byte) *statusError {
	text := fmt.Sprintf("status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		text += fmt.Sprintf(", redirect to %s://%s not followed", to.Scheme, to.Host)
	}
	if why != "" {
		text += ", " + why
	}
	if shown := l.shown(body); shown != "" {
		text += ": " + shown
	}
	return &statusError{status: resp.StatusCode, text: text}
}

// denied describes an answer that asks for credentials.
func (l *httpLink) denied(resp *http.Response, body []byte) *statusError {
	why := "the server wants other credentials"
	if challenge := resp.Header.Values("Www-Authenticate"); len(challenge) > 0 {
		why += " (WWW-Authenticate: " + l.shown([]byte(strings.Join(challenge, ", "))) + ")"
	}
	e := l.useless(resp, why, body)
	e.denied = true
	return e
}

// shown makes the beginning of a server's text fit for an error.
func (l *httpLink) shown(body []byte) string {
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

// head reads the beginning of a body that is not worth waiting for.
func head(resp *http.Response) []byte {
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
