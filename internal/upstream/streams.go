package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

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
	resp, err := l.do(ctx, 0, http.MethodGet, l.spec.URL, nil, header)
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
	return nil, l.useless(resp, fmt.Sprintf("content type %q", kind), nil)
}
