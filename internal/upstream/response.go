package upstream

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	headBytes   = 64 << 10        // bytes read of the body of an error response
	headTimeout = 2 * time.Second // time for reading them
	shownBytes  = 200             // bytes shown of the body, or of a message that is invalid
)

// badResponse returns an error for an unexpected response. Secrets that the server echoes are
// masked.
func (l *httpLink) badResponse(resp *http.Response, why string, body []byte) *statusError {
	text := fmt.Sprintf("status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		text += fmt.Sprintf(", redirect to %s://%s not followed", to.Scheme, to.Host)
	}
	after, status := resp.Header.Get("Retry-After"), resp.StatusCode
	if after != "" && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		text += fmt.Sprintf(", Retry-After %.40q", after)
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
	why := "the server wants other credentials"
	if len(l.spec.Header) == 0 {
		why = "the server wants credentials: set Authorization in headers, as a sign-in by a browser is not supported"
	}
	e := l.badResponse(resp, why, body)
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
		err = &jsonrpc.MessageTooLong{Limit: limit}
	}
	return body.Bytes(), err
}

// mediaType returns the content type without parameters.
func mediaType(resp *http.Response) string {
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // on an error, empty or the readable part
	return t
}
