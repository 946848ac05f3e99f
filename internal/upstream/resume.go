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

const (
	firstRetry  = time.Second      // before a broken stream is taken up again, unless the server says otherwise
	slowestWait = 30 * time.Second // the longest of the growing waits
	resumeTries = 5                // failures in a row after which a request's stream is lost
	emptyTries  = 100              // connections in a row that brought nothing, after which it is lost too
)

// cursor is where a stream can be taken up again.
type cursor struct {
	id    string        // the last event id; "" as long as there was none
	retry time.Duration // the wait before the next connection
}

func (c *cursor) take(ev event) {
	if ev.hasID {
		c.id = ev.id
	}
	if ev.retry >= 0 {
		c.retry = ev.retry
	}
}

// pause returns the wait after a number of failures in a row.
func (c *cursor) pause(failures int) time.Duration {
	wait := c.retry
	for range min(failures, 5) {
		wait *= 2
	}
	return max(min(wait, slowestWait), c.retry)
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
func (p *streamPost) follow(ctx context.Context, resp *http.Response) error {
	at := cursor{retry: firstRetry}
	for empty := 0; ; {
		events, err := p.link.read(resp.Body, &at, reading{message: p.deliver, broken: p.broken})
		resp.Body.Close()
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
		if empty++; events > 0 {
			empty = 0
		}
		if at.id == "" || p.unread != nil || empty == emptyTries {
			p.link.in.gap()
			return err
		}
		if resp, err = p.link.resume(ctx, at); err != nil {
			if ctx.Err() == nil {
				p.link.in.gap()
			}
			return fmt.Errorf("stream ended before its answer and was not resumed: %w", err)
		}
	}
}

// broken takes what is no message from the stream of a request.
func (p *streamPost) broken(m jsonrpc.Message, head []byte, err error) {
	id := answers(m, head, true)
	if id == p.id {
		p.ended()
	} else if _, long := errors.AsType[*jsonrpc.LineTooLong](err); long {
		p.unread = err
	}
	p.link.in.unreadable(id, head, err)
}

// resume opens the rest of a request's stream.
func (l *streamable) resume(ctx context.Context, at cursor) (*http.Response, error) {
	for failures := 0; ; {
		if err := sleep(ctx, at.pause(failures)); err != nil {
			return nil, err
		}
		resp, err := l.get(ctx, at.id)
		if err == nil {
			return resp, nil
		}
		if errors.Is(err, errSessionLost) {
			l.end(err, lateAnswers, nil)
			return nil, errors.New(err.Error()) // this request has been sent, and may have been run
		}
		if failures++; final(err) || failures == resumeTries {
			return nil, err
		}
	}
}

// get opens a stream of the server's own, or the rest of one that broke.
func (l *streamable) get(ctx context.Context, lastID string) (*http.Response, error) {
	header := l.headers(false, "text/event-stream")
	if lastID != "" {
		header.Set(mcp.HeaderLastEventID, lastID)
	}
	resp, err := l.do(ctx, http.MethodGet, l.opts.url, nil, header)
	if err != nil {
		return nil, err
	}
	kind := mediaType(resp)
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
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
	if errors.Is(err, errSessionLost) {
		return true
	}
	if _, ok := errors.AsType[*authRequired](err); ok {
		return true
	}
	e, ok := errors.AsType[*statusError](err)
	if !ok {
		return false
	}
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented:
		return true
	}
	return e.status < 500
}

// listen opens the stream on which a server with a session speaks of its own
// accord, and keeps it open. Many servers have none.
func (l *streamable) listen() {
	_ = l.start(l.streams, func(ctx context.Context, _ context.CancelCauseFunc) { // an error: the link has ended
		at := cursor{retry: firstRetry}
		heard := false // a stream was open before
		for failures := 0; ; {
			resp, err := l.get(ctx, at.id)
			if err == nil {
				if heard && at.id == "" {
					l.in.gap()
				}
				heard = true
				began := time.Now()
				events, _ := l.read(resp.Body, &at, reading{
					message: func(m jsonrpc.Message) { l.in.message(m, 0) },
					broken:  func(_ jsonrpc.Message, data []byte, err error) { l.in.garbage(data, err) },
				})
				resp.Body.Close()
				if failures++; events > 0 || time.Since(began) > slowestWait {
					failures = 0
				}
				if at.id == "" && ctx.Err() == nil {
					l.in.gap()
				}
			} else if failures++; final(err) && ctx.Err() == nil && !l.listenOn(err, &at, heard) {
				return
			}
			if sleep(ctx, at.pause(max(failures-1, 0))) != nil {
				return
			}
		}
	})
}

// listenOn decides whether to go on listening after an error that is final.
func (l *streamable) listenOn(err error, at *cursor, heard bool) bool {
	if !heard {
		// Whatever the status, 404 and 401 included, it may only mean that
		// there is no such stream. The next POST tells.
		return false
	}
	_, denied := errors.AsType[*authRequired](err)
	switch {
	case denied || errors.Is(err, errSessionLost):
		l.end(err, lateAnswers, nil)
		return false
	case at.id != "":
		at.id = "" // it may be the id that the server does not know
		l.in.gap()
		return true
	default:
		l.in.gap()
		return false
	}
}
