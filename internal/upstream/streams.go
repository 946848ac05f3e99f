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

// cursor is where a stream can be taken up again.
type cursor struct {
	id       string        // the last event id; "" as long as there was none
	retry    time.Duration // the wait before the next connection
	failures int           // in a row; each makes the wait longer
}

func (at *cursor) take(ev event) {
	if ev.hasID {
		at.id = ev.id
	}
	if ev.retry >= 0 {
		at.retry = ev.retry
	}
}

func (at *cursor) wait(ctx context.Context) error {
	return sleep(ctx, max(min(at.retry<<min(at.failures, 5), slowestWait), at.retry))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow passes on the stream that answers a request. With a session it takes
// it up again where it broke, as often as the server wants: some close their
// connections on purpose and are to be polled.
func (p *streamPost) follow(ctx context.Context, body io.ReadCloser) error {
	l, at := p.link, cursor{retry: firstRetry}
	for {
		_, err := l.read(body, &at, p.take, nil)
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
func (p *streamPost) take(m jsonrpc.Message, head []byte, err error) {
	if err == nil {
		p.deliver(m)
		return
	}
	id := answers(m, head, true)
	if id == p.id {
		p.ended()
	} else if _, long := errors.AsType[*jsonrpc.LineTooLong](err); long {
		p.unread = err
	}
	p.link.c.unreadable(id, head, err)
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
			l.end(err, lateAnswers, nil)
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
	_ = l.start(l.streams, func(ctx context.Context, _ context.CancelCauseFunc) { // an error: the link has ended
		at := cursor{retry: firstRetry}
		for heard := false; ; {
			body, err := l.get(ctx, at.id)
			if heard && (at.id == "" || err != nil && final(err)) && ctx.Err() == nil {
				l.c.gap()
			}
			switch {
			case err == nil:
				heard = true
				if l.hear(body, &at); at.id == "" && ctx.Err() == nil {
					l.c.gap()
				}
			case !final(err):
				at.failures++
			case heard && (denied(err) || errors.Is(err, errSessionLost)):
				l.end(err, lateAnswers, nil)
				return
			case !heard || at.id == "":
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

// hear passes on the server's own stream until it ends.
func (l *streamable) hear(body io.ReadCloser, at *cursor) {
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
	resp, err := l.do(ctx, http.MethodGet, l.spec.URL, nil, header)
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
