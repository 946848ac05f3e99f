package upstream

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	streamFields = 4 << 10   // bytes of a line beside the data of an event
	longestWait  = time.Hour // a retry field beyond it counts as this
)

// event is one block of a text/event-stream: what stands before an empty line.
type event struct {
	kind  string        // the event field; "message" if there is none
	id    string        // the id field, if hasID
	hasID bool          // without it the last id stays as it was
	retry time.Duration // the retry field; negative if there is none
	data  []byte        // the data lines, joined by LF; the receiver's to keep; empty in a block without data
}

// eventStream splits a text/event-stream into events. A line ends in LF or CRLF; a CR
// alone, which the standard allows and no server writes, ends none.
type eventStream struct {
	lines *jsonrpc.Reader
	max   int  // bytes of data in one event
	begun bool // the first line, before which a byte order mark may stand, is past
}

func newEventStream(r io.Reader, max int) *eventStream {
	return &eventStream{lines: jsonrpc.NewShortReader(r, max+streamFields), max: max}
}

// next returns the next block that has a field. Its error is the reader's (a
// block cut off by the end is dropped, as the standard wants), or a
// *[jsonrpc.LineTooLong], after which next goes on behind the long block.
func (s *eventStream) next() (event, error) {
	ev := event{kind: "message", retry: -1}
	some := false                 // the block has a field
	var long *jsonrpc.LineTooLong // nil: the block is not too long
	for {
		b, err := s.lines.Line()
		cut, _ := errors.AsType[*jsonrpc.LineTooLong](err)
		var line []byte
		switch {
		case cut != nil:
			line = cut.Head
		case err == nil:
			line = b.Line
		case long != nil:
			return event{}, long
		default:
			return event{}, err
		}
		if !s.begun {
			s.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if long == nil && len(line) > 0 { // of a long block only the end matters
			some = ev.field(line) || some
			if cut != nil || len(ev.data) > s.max {
				long = &jsonrpc.LineTooLong{Limit: s.max, Head: bytes.Clone(ev.data[:min(len(ev.data), streamFields)])}
			}
		}
		end := cut == nil && len(line) == 0
		switch {
		case end && long != nil:
			return event{}, long
		case end && some:
			return ev, nil
		}
	}
}

// field takes one line of a block; false for a comment, and for what the standard
// does not know.
func (ev *event) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if ev.data == nil {
			ev.data = value // a line of a short reader is ours
		} else {
			ev.data = append(append(ev.data, '\n'), value...)
		}
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
		ev.retry = time.Duration(min(ms, uint64(longestWait.Milliseconds()))) * time.Millisecond
	default:
		return false
	}
	return true
}

// cursor is where a stream can be taken up again.
type cursor struct {
	id       string        // the last event id; "" as long as there was none
	retry    time.Duration // the wait before the next connection
	failures int           // in a row; each makes the wait longer
}

// read passes on one connection's part of a stream, and returns the number of its
// events and why it ended, io.EOF if the server did. take is given each message, or the
// beginning of what is none and the error. at is where the stream can be taken up again.
// Events of another kind are for other, the error of which ends the reading; nil: they
// are dropped.
func (l *httpLink) read(body io.ReadCloser, at *cursor, take func(m jsonrpc.Message, head []byte, err error), other func(event) error) (events int, err error) {
	defer body.Close()
	for stream := newEventStream(body, l.spec.MaxMessage); ; events++ {
		ev, err := stream.next()
		if long, ok := errors.AsType[*jsonrpc.LineTooLong](err); ok {
			take(jsonrpc.Message{ID: long.ID()}, long.Head, err)
			continue
		}
		if err != nil {
			return events, err
		}
		if ev.hasID {
			at.id = ev.id
		}
		if ev.retry >= 0 {
			at.retry = ev.retry
		}
		switch {
		case len(ev.data) == 0:
		case ev.kind == "message":
			jsonrpc.Flatten(ev.data)
			for m, err := range l.c.messages(ev.data) {
				take(m, ev.data, err)
			}
		case other != nil:
			if err := other(ev); err != nil {
				return events, err
			}
		}
	}
}
