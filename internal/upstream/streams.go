package upstream

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// Both streams of streamable HTTP, a request's and the server's own, are resumed when they break.
const (
	firstRetry   = time.Second            // before a broken stream is resumed, unless the server sets another value
	minRetry     = 100 * time.Millisecond // smaller values of the server are raised to this
	maxRetryWait = 30 * time.Second       // maximum of the growing waits
	maxResumes   = 5                      // consecutive failures after which a request's stream is lost
)

// cursor is the position from which a stream can be resumed.
type cursor struct {
	id       string        // the last event id; empty if there was none
	retry    time.Duration // the wait before the next connection, as the server set it
	failures int           // attempts that did not advance the position; each doubles the wait
	waited   time.Duration // the last wait
}

// wait blocks until the stream may be resumed.
func (at *cursor) wait(ctx context.Context) error {
	first := max(at.retry, minRetry)
	at.waited = max(first, min(first<<min(at.failures, 10), maxRetryWait))
	return sleep(ctx, at.waited)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// get opens a stream of the server, or resumes one after the event lastID.
func (l *httpLink) get(ctx context.Context, lastID string) (*http.Response, error) {
	header := l.headers(false, "text/event-stream")
	if lastID != "" {
		header.Set(mcp.HeaderLastEventID, lastID)
	}
	resp, err := l.do(ctx, outgoing{}, http.MethodGet, l.spec.URL, header)
	if err != nil {
		return nil, err
	}
	status, kind := resp.StatusCode, mediaType(resp)
	if status == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
	}
	defer resp.Body.Close()
	switch {
	case status == http.StatusNotFound && header.Get(mcp.HeaderSessionID) != "":
		return nil, errSessionLost
	case status == http.StatusUnauthorized, status == http.StatusForbidden && l.sse:
		return nil, l.denied(resp, nil)
	}
	why := ""
	if status/100 == 2 {
		why = fmt.Sprintf("no event stream, content type %q", kind)
	}
	return nil, l.badResponse(resp, why, nil)
}

// read reads a stream until it ends, and returns the reason, io.EOF if the server ended it. It
// updates at with each event. handle receives the data of each message. A wrong endpoint ends the link.
func (l *httpLink) read(resp *http.Response, at *cursor, handle func(data []byte)) error {
	defer resp.Body.Close()
	for stream := newEventStream(resp.Body, l.spec.MaxMessage); ; {
		kind, data, err := stream.next(at)
		switch {
		case err != nil:
			return err
		case len(data) == 0:
		case kind == "message":
			jsonrpc.Flatten(data)
			handle(data)
		case kind == "endpoint" && l.sse:
			if err := l.setEndpoint(resp.Request.URL, string(data)); err != nil {
				l.end(err, 0)
				return err
			}
		}
	}
}

// readStream reads the stream that answers a request. A broken stream that is resumable is resumed
// as often as the server closes it: some servers close streams on purpose and expect polling.
func (l *httpLink) readStream(ctx context.Context, p *post, resp *http.Response, resumable bool) error {
	at := cursor{retry: firstRetry}
	for {
		err := l.read(resp, &at, func(data []byte) { _ = l.receive(p, data) }) // which has logged the error
		_, tooLong := errors.AsType[*jsonrpc.MessageTooLong](err)
		if err == io.EOF {
			err = errors.New("stream ended before its answer")
		} else {
			err = fmt.Errorf("stream broke before its answer: %w", err)
		}
		if p.answered || p.cancelled.Load() || ctx.Err() != nil || !resumable {
			return err
		}
		if at.id == "" || tooLong {
			l.c.noteGap()
			return err
		}
		if resp, err = l.resume(ctx, &at, p.isolated); err != nil {
			if ctx.Err() == nil {
				l.c.noteGap()
			}
			// Without the status, which rejects the attempt to resume, not the request.
			return &statusError{text: fmt.Sprintf("stream ended before its answer and was not resumed: %v", err), denied: statusOf(err).denied}
		}
	}
}

// resume reopens a request's stream after its last event. isolated is that of the request.
func (l *httpLink) resume(ctx context.Context, at *cursor, isolated bool) (*http.Response, error) {
	for at.failures = 0; ; {
		if err := at.wait(ctx); err != nil {
			return nil, err
		}
		resp, err := l.get(ctx, at.id)
		if err == nil {
			return resp, nil
		}
		if errors.Is(err, errSessionLost) {
			if !isolated {
				l.end(err, answerGrace)
			}
			return nil, errors.New(err.Error()) // not errSessionLost itself: this request may have run
		}
		if at.failures++; permanent(err) || at.failures == maxResumes {
			return nil, err
		}
	}
}

// listen keeps the server's own GET stream open. Many servers have none. Others refuse a new stream for
// minutes, until they notice that the last one broke. Messages sent while the stream was closed may be
// lost: that is a gap, unless the stream is resumed after its last event.
func (l *httpLink) listen() {
	_ = l.spawn(func() { // an error means that the link has ended
		ctx, at, opened := l.streams, cursor{retry: firstRetry}, false
		gap := func() {
			if opened && at.id == "" && ctx.Err() == nil {
				l.c.noteGap()
			}
		}
		for {
			resp, err := l.get(ctx, at.id)
			resuming := at.id != ""
			if err != nil && permanent(err) {
				at.id = "" // the server may not know this id
			}
			if err == nil || resuming {
				gap()
			}
			switch at.failures++; {
			case err == nil:
				opened = true
				l.readOwn(resp, &at)
				gap()
			case opened && endsConnection(err):
				l.end(err, answerGrace)
				return
			case !opened && (permanent(err) || statusOf(err).status == http.StatusConflict):
				// The first failure may only mean that there is no such stream, whatever the
				// status, 404 and 401 included. The next POST will show.
				return
			}
			if at.wait(ctx) != nil {
				return
			}
		}
	})
}

// readOwn reads the server's own stream until it ends.
func (l *httpLink) readOwn(resp *http.Response, at *cursor) {
	began := time.Now()
	err := l.read(resp, at, func(data []byte) { _ = l.c.receive(data, nil, 0, nil) })
	if _, tooLong := errors.AsType[*jsonrpc.MessageTooLong](err); tooLong {
		l.c.logInvalid(nil, err)
		at.id = "" // resumed after its last event, the stream would begin with this one again
	}
	if time.Since(began) > max(at.waited, firstRetry) { // it is open most of the time
		at.failures = 0
	}
}

// readSSE reads the stream of HTTP+SSE until it ends, and returns the reason.
func (l *httpLink) readSSE(ctx context.Context) error {
	resp, err := l.get(ctx, "")
	if err != nil {
		return err
	}
	err = l.read(resp, new(cursor), func(data []byte) { _ = l.c.receive(data, nil, 0, nil) })
	if err == io.EOF {
		return errors.New("the server ended the stream")
	}
	return fmt.Errorf("stream broke: %w", err)
}

// setEndpoint handles the first endpoint event. An endpoint with another origin is rejected,
// because it would receive our credentials.
func (l *httpLink) setEndpoint(base *url.URL, reference string) error {
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

const (
	streamFields  = 4 << 10   // bytes of a line besides its data
	maxRetryField = time.Hour // larger retry fields are reduced to this
)

// eventStream parses a text/event-stream. Lines end in LF or CRLF. A single CR, which the
// standard allows and no known server sends, does not end a line.
type eventStream struct {
	lines *bufio.Scanner
	max   int  // bytes of data in one event
	begun bool // the first line, which may begin with a byte order mark, was read
}

func newEventStream(r io.Reader, max int) *eventStream {
	s := &eventStream{lines: bufio.NewScanner(r), max: max}
	s.lines.Buffer(nil, max+streamFields)
	return s
}

// next returns the next event that has a field: its kind, "message" by default, and its data, the
// lines joined by LF, which the caller owns. It updates at. The error is the reader's, or a
// *[jsonrpc.MessageTooLong], after which the stream cannot be read further. An event cut off by the
// end of the stream is dropped, as the standard requires.
func (s *eventStream) next(at *cursor) (kind string, data []byte, err error) {
	ev := event{kind: "message", cursor: *at}
	for some := false; len(ev.data) <= s.max+1 && s.lines.Scan(); { // the event has a field
		line := s.lines.Bytes()
		if !s.begun {
			s.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		switch {
		case len(line) > 0:
			some = ev.field(line) || some
		case some:
			if ev.id != at.id {
				ev.failures = 0
			}
			*at = ev.cursor
			return ev.kind, bytes.TrimSuffix(ev.data, []byte("\n")), nil
		}
	}
	switch err := s.lines.Err(); {
	case err == bufio.ErrTooLong || len(ev.data) > s.max+1:
		return "", nil, &jsonrpc.MessageTooLong{Limit: s.max}
	case err != nil:
		return "", nil, err
	}
	return "", nil, io.EOF
}

// event is an event that is being read.
type event struct {
	cursor // after the event
	kind   string
	data   []byte // each line ends in LF
}

// field parses one line of an event. It returns false for comments and unknown fields.
func (ev *event) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		ev.data = append(append(ev.data, value...), '\n')
	case "event":
		ev.kind = cmp.Or(string(value), "message")
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return false
		}
		ev.id = string(value)
	case "retry":
		ms, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return false
		}
		ev.retry = time.Duration(min(ms, uint64(maxRetryField.Milliseconds()))) * time.Millisecond
	default:
		return false
	}
	return true
}
