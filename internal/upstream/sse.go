package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"mcpschedd/internal/jsonrpc"
)

// sse is a link over the HTTP+SSE transport of revision 2024-11-05: one stream
// brings everything from the server, and its first event names the URL to post
// messages to. The link ends with the stream. It does not know which requests have no
// answer by then: it reports those as lost whose POST was cut off, even if the answer
// had come, and sink.closed ends the others.
type sse struct {
	*httpLink
	ready    chan struct{} // closed once endpoint is known
	endpoint string        // absolute URL
}

func dialSSE(opts httpOptions, in sink) *sse {
	l := &sse{httpLink: newHTTPLink(opts, in), ready: make(chan struct{})}
	_ = l.start(l.streams, func(ctx context.Context, _ context.CancelCauseFunc) { // a new link has not ended
		l.end(l.stream(ctx), 0, nil)
	})
	return l
}

func (l *sse) close() { l.finish(nil) }

// stream reads the stream to its end and returns why it ended.
func (l *sse) stream(ctx context.Context) error {
	resp, err := l.do(ctx, http.MethodGet, l.opts.url, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch kind := mediaType(resp); {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return l.denied(resp, nil)
	case resp.StatusCode != http.StatusOK || kind != "text/event-stream":
		return l.useless(resp, fmt.Sprintf("no event stream, content type %q", kind), nil)
	}
	var misplaced error // the endpoint is not where it may be
	_, err = l.read(resp.Body, new(cursor), reading{
		message: func(m jsonrpc.Message) { l.in.message(m, 0) },
		broken: func(m jsonrpc.Message, head []byte, err error) {
			l.in.unreadable(answers(m, head, true), head, err)
		},
		other: func(ev event) bool {
			if ev.kind == "endpoint" {
				misplaced = l.learn(resp.Request.URL, string(ev.data))
			}
			return misplaced == nil
		},
	})
	if misplaced != nil {
		return misplaced
	}
	if err == io.EOF {
		return errors.New("the server ended the stream")
	}
	return fmt.Errorf("stream broke: %w", err)
}

// learn takes the first endpoint event. An endpoint of another origin is refused: it
// would get our credentials.
func (l *sse) learn(base *url.URL, reference string) error {
	if l.endpoint != "" {
		return nil
	}
	to, err := base.Parse(reference)
	if err != nil {
		return errors.New("endpoint event: no URL") // err holds it, and it names the session
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

// exchange posts a message; its answer comes on the stream.
func (l *sse) exchange(ctx context.Context, p *post) error {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	resp, err := l.do(ctx, http.MethodPost, l.endpoint, p.line, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	l.tellLimited(p.id, resp)
	body := head(resp)
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusUnauthorized:
		return l.denied(resp, body)
	}
	if m, err := l.in.parse(body); err == nil && m.Error != nil && isID(m.ID, p.id) {
		l.in.message(m, 0)
		return nil
	}
	return l.useless(resp, "", body)
}
