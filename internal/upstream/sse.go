package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// sse is a link over the HTTP+SSE transport of revision 2024-11-05: one stream carries all
// messages from the server, and its first event names the URL for POSTs. The link ends with the
// stream. It does not know which requests are unanswered: it fails requests whose POST was cut
// off, even if the answer has arrived, and conn.closed fails the others.
type sse struct {
	*httpLink
	ready    chan struct{} // closed once endpoint is known
	endpoint string        // absolute URL; set before ready is closed
}

func newSSE(c *conn) *sse { return &sse{httpLink: newHTTPLink(c), ready: make(chan struct{})} }

// open starts reading the stream.
func (l *sse) open() {
	_ = l.spawn(func() { l.end(l.stream(l.streams), 0) }) // cannot fail on a new link
}

// stream reads the stream until it ends, and returns the reason.
func (l *sse) stream(ctx context.Context) error {
	resp, err := l.do(ctx, outgoing{}, http.MethodGet, l.spec.URL, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch kind := mediaType(resp); {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return l.denied(resp, nil)
	case resp.StatusCode != http.StatusOK || kind != "text/event-stream":
		return l.badResponse(resp, fmt.Sprintf("no event stream, content type %q", kind), nil)
	}
	var misplaced error // the endpoint event was rejected
	_, err = l.read(resp.Body, new(cursor), func(kind string, data []byte) error {
		switch kind {
		case "message":
			l.c.receive(data, nil)
		case "endpoint":
			misplaced = l.setEndpoint(resp.Request.URL, string(data))
		}
		return misplaced
	})
	switch {
	case misplaced != nil:
		return misplaced
	case err == io.EOF:
		return errors.New("the server ended the stream")
	}
	return fmt.Errorf("stream broke: %w", err)
}

// setEndpoint handles the first endpoint event. An endpoint with another origin is rejected,
// because it would receive our credentials.
func (l *sse) setEndpoint(base *url.URL, reference string) error {
	if l.endpoint != "" {
		return nil
	}
	to, err := base.Parse(reference)
	if err != nil {
		return errors.New("endpoint event: invalid URL") // err would show the URL, which contains the session id
	}
	if !sameOrigin(to, base) {
		return fmt.Errorf("endpoint event: %s://%s is not the origin of the stream", to.Scheme, to.Host)
	}
	to.User = base.User
	l.endpoint = to.String()
	close(l.ready)
	return nil
}

func (l *sse) send(ctx context.Context, m outgoing) error {
	return l.launch(ctx, m, l.exchange)
}

// exchange posts a message. The answer arrives on the stream.
func (l *sse) exchange(ctx context.Context, p *post) error {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.id != 0 {
		// The caller may return as soon as the answer arrives on the stream. Its context must not
		// cancel the POST then: another request may already use the connection.
		p.release()
	}
	resp, err := l.do(ctx, p.outgoing, http.MethodPost, l.endpoint, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	l.noteLimited(p.id, resp)
	body := readHead(resp)
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusUnauthorized:
		return l.denied(resp, body)
	}
	if m := l.c.errorIn(body); p.isAnswer(m.ID) {
		l.c.message(m, 0)
		return nil
	}
	return l.badResponse(resp, "", body)
}
