package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	streamFields  = 4 << 10   // bytes of a line besides its data
	maxRetryField = time.Hour // larger retry fields are reduced to this
)

// event is one event of a text/event-stream.
type event struct {
	kind  string        // the event field; "message" by default
	id    string        // the id field, if hasID
	hasID bool          // false leaves the last event id unchanged
	retry time.Duration // the retry field; negative if absent
	data  []byte        // data lines joined by LF, owned by the receiver; empty without data
}

// errTooLong means that an event exceeds the limit, and the stream cannot be read further.
var errTooLong = errors.New("message too long")

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

// next returns the next event that has a field. Its error is the reader's, or errTooLong. An
// event cut off by the end of the stream is dropped, as the standard requires.
func (s *eventStream) next() (event, error) {
	ev := event{kind: "message", retry: -1}
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
			ev.data = bytes.TrimSuffix(ev.data, []byte("\n"))
			return ev, nil
		}
	}
	switch err := s.lines.Err(); {
	case err == bufio.ErrTooLong || len(ev.data) > s.max+1:
		return event{}, fmt.Errorf("%w: more than %d bytes", errTooLong, s.max)
	case err != nil:
		return event{}, err
	}
	return event{}, io.EOF
}

// field parses one line of an event. It returns false for comments and unknown fields.
func (ev *event) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		ev.data = append(append(ev.data, value...), '\n')
	case "event":
		if ev.kind = string(value); ev.kind == "" {
			ev.kind = "message"
		}
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return false
		}
		ev.id, ev.hasID = string(value), true
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

// cursor is the position from which a stream can be resumed.
type cursor struct {
	id       string        // the last event id; empty if there was none
	retry    time.Duration // the wait before the next connection
	failures int           // consecutive failures; each doubles the wait
}

// read reads a stream until it ends, and returns the number of events and the reason, io.EOF if
// the server ended it. It updates at with each event. take receives the data of each event that
// has some; the reading stops if it returns an error.
func (l *httpLink) read(body io.ReadCloser, at *cursor, take func(kind string, data []byte) error) (events int, err error) {
	defer body.Close()
	for stream := newEventStream(body, l.spec.MaxMessage); ; events++ {
		ev, err := stream.next()
		if err != nil {
			return events, err
		}
		if ev.hasID {
			at.id = ev.id
		}
		if ev.retry >= 0 {
			at.retry = ev.retry
		}
		if len(ev.data) > 0 {
			jsonrpc.Flatten(ev.data)
			if err := take(ev.kind, ev.data); err != nil {
				return events, err
			}
		}
	}
}
