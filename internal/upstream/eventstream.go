package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	eventHead   = 4 << 10   // bytes kept of an event that is too long
	longBuffer  = 64 << 10  // bytes read at a time from a stream with long lines
	longestWait = time.Hour // a retry field beyond it counts as this
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
	in    *bufio.Reader
	max   int  // bytes of data in one event
	begun bool // the first line, before which a byte order mark may stand, is past
}

func newEventStream(r io.Reader, max int) *eventStream {
	return &eventStream{in: bufio.NewReader(r), max: max}
}

// line reads one line, which is valid until the next one is read, unless it is long: then
// it is the caller's. Of one that is longer than an event may be, cut, it returns the
// beginning.
func (s *eventStream) line() (line []byte, cut bool, err error) {
	for err = bufio.ErrBufferFull; err == bufio.ErrBufferFull; {
		var part []byte
		part, err = s.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull && s.in.Size() < longBuffer {
			line = bytes.Clone(part)
			s.in = bufio.NewReaderSize(s.in, longBuffer) // the other has nothing left
			continue
		}
		switch {
		case cut:
		case line == nil && err == nil: // the common line needs no copy
			line = part
		case len(line)+len(part) > s.max+eventHead:
			line, cut = append(line, part...)[:eventHead], true
		case cap(line)-len(line) < len(part):
			line = slices.Grow(line, len(line)+len(part))
			fallthrough
		default:
			line = append(line, part...)
		}
	}
	if err != nil && !cut {
		return nil, false, err // a line without its end is dropped
	}
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), cut, nil
}

// next returns the next block that has a field. Its error is the reader's (a
// block cut off by the end is dropped, as the standard wants), or a
// *[jsonrpc.LineTooLong], after which next goes on behind the long block.
func (s *eventStream) next() (event, error) {
	ev := event{kind: "message", retry: -1}
	some := false                 // the block has a field
	var long *jsonrpc.LineTooLong // nil: the block is not too long
	for {
		line, cut, err := s.line()
		switch {
		case err != nil && long != nil:
			return event{}, long
		case err != nil:
			return event{}, err
		case len(line) == 0 && long != nil:
			return event{}, long
		case len(line) == 0 && some:
			return ev, nil
		case len(line) == 0 || long != nil: // of a long block only the end matters
			continue
		}
		some = ev.field(line) || some
		if cut || len(ev.data) > s.max {
			long = &jsonrpc.LineTooLong{Limit: s.max, Head: bytes.Clone(ev.data[:min(len(ev.data), eventHead)])}
			ev.data = nil
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
		switch {
		case ev.data != nil:
			ev.data = append(append(ev.data, '\n'), value...)
		case len(line) > longBuffer:
			ev.data = value // it is ours
		default:
			ev.data = append([]byte{}, value...)
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
			take(jsonrpc.Message{}, long.Head, err)
			continue
		}
		if err != nil {
			return events, err
		}
		at.take(ev)
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
