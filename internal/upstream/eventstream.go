package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	eventBuffer = 4 << 10   // bytes; first size of a stream's buffer, enough for most events
	eventHead   = 4 << 10   // bytes kept of an event that is too long
	eventFields = 4 << 10   // bytes a line may have beside its data
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

// eventStream splits a text/event-stream into events.
type eventStream struct {
	lines *bufio.Scanner
	max   int  // bytes of data in one event
	begun bool // the first line, before which a byte order mark may stand, is past

	// Of the line that the scanner looks for.
	searched int    // bytes that hold no line end
	afterCR  bool   // the last line ended in CR: an LF right behind belongs to it
	long     []byte // the beginning of a line that is too long; nil: it is not
}

// newEventStream reads the events of r; one with more than max bytes of data
// is skipped.
func newEventStream(r io.Reader, max int) *eventStream {
	s := &eventStream{lines: bufio.NewScanner(r), max: max}
	s.lines.Buffer(make([]byte, eventBuffer), math.MaxInt)
	s.lines.Split(s.split)
	return s
}

// split finds a line for the scanner. Of one that is too long the beginning is kept
// in long and the rest dropped as it comes.
func (s *eventStream) split(data []byte, atEOF bool) (advance int, line []byte, err error) {
	start := 0
	if s.afterCR && len(data) > 0 {
		s.afterCR = false
		if data[0] == '\n' {
			start = 1
		}
	}
	from := max(start, s.searched)
	end := from + lineEnd(data[from:])
	s.searched = 0
	switch {
	case end < len(data):
		s.afterCR = data[end] == '\r'
		return end + 1, data[start:end], nil
	case atEOF: // a line cut off by the end is dropped
		return len(data), nil, nil
	case end-start > s.max+eventFields:
		if s.long == nil {
			s.long = bytes.Clone(data[start:min(end, start+eventHead+eventFields)])
		}
		return len(data), nil, nil
	default:
		s.searched = end - start
		return start, nil, nil
	}
}

// lineEnd returns the offset of the first CR or LF, or the length of data. It looks
// at a piece at a time, so that a text of nothing but one of them is read once.
func lineEnd(data []byte) int {
	const piece = 4 << 10
	for at := 0; at < len(data); at += piece {
		part := data[at:min(at+piece, len(data))]
		lf := bytes.IndexByte(part, '\n')
		if lf >= 0 {
			part = part[:lf]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			return at + cr
		}
		if lf >= 0 {
			return at + lf
		}
	}
	return len(data)
}

// next returns the next block that has a field. Its error is the reader's (a
// block cut off by the end is dropped, as the standard wants), or a
// *[jsonrpc.LineTooLong], after which next goes on behind the long block.
func (s *eventStream) next() (event, error) {
	ev := event{kind: "message", retry: -1}
	some := false   // the block has a field
	var long []byte // the beginning of its data, if that is too long
	take := func(line []byte, cut bool) {
		if long != nil {
			return // only the end of the block matters now
		}
		some = ev.field(line) || some
		if cut || len(ev.data) > s.max {
			long = append([]byte{}, ev.data[:min(len(ev.data), eventHead)]...)
			ev.data = nil
		}
	}
	for s.lines.Scan() {
		line, cut := s.lines.Bytes(), s.long != nil
		if cut {
			line, s.long = s.long, nil
		}
		if !s.begun {
			s.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		switch {
		case len(line) > 0:
			take(line, cut)
		case long != nil:
			return event{}, &jsonrpc.LineTooLong{Limit: s.max, Head: long}
		case some:
			return ev, nil
		}
	}
	if s.long != nil {
		take(s.long, true)
		s.long = nil
	}
	switch err := s.lines.Err(); {
	case long != nil:
		return event{}, &jsonrpc.LineTooLong{Limit: s.max, Head: long}
	case err != nil:
		return event{}, err
	}
	return event{}, io.EOF
}

// field takes one line of a block; false for a comment, and for what the standard
// does not know.
func (ev *event) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if ev.data == nil {
			ev.data = make([]byte, 0, len(value))
		} else {
			ev.data = append(ev.data, '\n')
		}
		ev.data = append(ev.data, value...)
	case "event":
		ev.kind = "message"
		if len(value) > 0 && string(value) != "message" {
			ev.kind = string(value)
		}
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return false
		}
		ev.id, ev.hasID = string(value), true
	case "retry":
		if len(value) == 0 || len(bytes.Trim(value, "0123456789")) > 0 {
			return false
		}
		ev.retry = milliseconds(value)
	default:
		return false
	}
	return true
}

func milliseconds(digits []byte) time.Duration {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || n > longestWait.Milliseconds() {
		return longestWait
	}
	return time.Duration(n) * time.Millisecond
}

// reading is what to do with the parts of a stream.
type reading struct {
	message func(jsonrpc.Message)
	broken  func(m jsonrpc.Message, data []byte, err error) // what was to be one: as far as it was read, and its beginning
	other   func(event) bool                                // an event of another kind; false ends the reading; nil: dropped
}

// read passes on one connection's part of a stream, and returns the number of its
// events and why it ended, io.EOF if the server did. at is where it can be taken up again.
func (l *httpLink) read(body io.Reader, at *cursor, to reading) (events int, err error) {
	stream := newEventStream(body, l.opts.maxMessage)
	for ; ; events++ {
		ev, err := stream.next()
		if long, ok := errors.AsType[*jsonrpc.LineTooLong](err); ok {
			to.broken(jsonrpc.Message{}, long.Head, err)
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
			for m, err := range l.in.messages(ev.data) {
				if err == nil {
					to.message(m)
				} else {
					to.broken(m, ev.data, err)
				}
			}
		case to.other != nil:
			if !to.other(ev) {
				return events, nil
			}
		}
	}
}
