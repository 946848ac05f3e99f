package upstream

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	eventBuffer = 4 << 10   // bytes; first size of a stream's buffer, enough for most events
	eventGiven  = 32 << 10  // bytes; from this size on, data leaves with the buffer it was read into
	eventHead   = 4 << 10   // bytes kept of an event that is too long
	eventFields = 4 << 10   // bytes an event may have beside its data
	longestWait = time.Hour // a retry field beyond it counts as this
	idleReads   = 100       // reads of nothing in a row before a stream counts as broken
)

// event is one block of a text/event-stream: what stands before an empty line.
type event struct {
	kind  string        // the event field; "message" if there is none
	id    string        // the id field, if hasID
	hasID bool          // without it the last id stays as it was
	retry time.Duration // the retry field; negative if there is none
	data  []byte        // the data lines, joined by LF; the receiver's to keep; empty in a block without data
}

// eventStream splits a text/event-stream into events. A block stays in the
// buffer it was read into until it is whole: further data lines are moved up
// to the first in place, and large data leaves together with its buffer, so
// that it is copied only where the buffer had to grow.
type eventStream struct {
	r     io.Reader
	max   int    // bytes of data in one event
	mem   []byte // what buf is a part of
	buf   []byte // read and not yet returned; the present block begins it
	lf    int    // offset in buf of the next LF, or before it where that is not known
	cr    bool   // the last line ended in CR: an LF right behind belongs to it
	begun bool   // the first line, which a byte order mark may precede, is past
	skip  bool   // the rest of the present block is to be dropped
	blank bool   // while skipping: nothing of the present line was seen yet
	err   error  // what r returned at last
}

// newEventStream reads the events of r; one with more than max bytes of data
// is skipped.
func newEventStream(r io.Reader, max int) *eventStream {
	mem := make([]byte, eventBuffer)
	return &eventStream{r: r, max: max, mem: mem, buf: mem[:0]}
}

// next returns the next block that has a field. Its error is the reader's (a
// block cut off by the end is dropped, as the standard wants), or a
// *[jsonrpc.LineTooLong], after which next goes on behind the long block.
func (s *eventStream) next() (event, error) {
	if s.skip {
		if err := s.drop(); err != nil {
			return event{}, err
		}
	}
	ev := event{kind: "message", retry: -1}
	some := false         // the block has a field
	first, last := -1, -1 // the joined data is buf[first:last]
	for at := 0; ; {
		from, to, err := s.line(at, first)
		if err != nil {
			return event{}, err
		}
		line := s.buf[from:to]
		if !s.begun {
			s.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		at = to + 1
		switch {
		case len(line) > 0:
		case !some:
			s.consume(at)
			at = 0
			continue
		case first >= 0 && last-first > s.max:
			err := s.tooLong(s.buf[first:last])
			s.consume(at)
			return event{}, err
		case first >= 0:
			ev.data = s.take(first, last, at)
			return ev, nil
		default:
			s.consume(at)
			return ev, nil
		}

		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case string(name) == "data" && first < 0:
			first, last = to-len(value), to
		case string(name) == "data":
			s.buf[last] = '\n' // there a line ended
			last += 1 + copy(s.buf[last+1:], value)
		case string(name) == "event" && len(value) > 0 && string(value) != "message":
			ev.kind = string(value)
		case string(name) == "event":
			ev.kind = "message"
		case string(name) == "id" && bytes.IndexByte(value, 0) < 0:
			ev.id, ev.hasID = string(value), true
		case string(name) == "retry" && digits(value):
			ev.retry = milliseconds(value)
		default: // a comment, or nothing the standard knows
			if !some {
				s.consume(at)
				at = 0
			}
			continue
		}
		some = true
	}
}

func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

func milliseconds(digits []byte) time.Duration {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || n > longestWait.Milliseconds() {
		return longestWait
	}
	return time.Duration(n) * time.Millisecond
}

// line finds the line that begins at buf[at], reading as much as that needs.
// first is where the block's data begins, negative if nowhere yet.
func (s *eventStream) line(at, first int) (from, to int, err error) {
	for searched := at; ; {
		if s.cr && at < len(s.buf) {
			s.cr = false
			if s.buf[at] == '\n' {
				at++
				searched = at
			}
		}
		// The place of the LF is kept from line to line: without it, a stream
		// of CRs would be searched to its end for each of them.
		s.lf = max(s.lf, searched)
		if i := bytes.IndexByte(s.buf[s.lf:], '\n'); i >= 0 {
			s.lf += i
		} else {
			s.lf = len(s.buf)
		}
		if i := bytes.IndexByte(s.buf[searched:s.lf], '\r'); i >= 0 {
			s.cr = true
			return at, searched + i, nil
		}
		if s.lf < len(s.buf) {
			return at, s.lf, nil
		}
		searched = len(s.buf)
		if len(s.buf) > s.max+eventFields {
			return 0, 0, s.cutShort(at, first)
		}
		if err := s.fill(); err != nil {
			return 0, 0, err
		}
	}
}

// cutShort gives up a block that has no end yet and is too long already.
func (s *eventStream) cutShort(at, first int) error {
	head := s.buf[at:]
	if first >= 0 {
		head = s.buf[first:]
	} else if data, ok := bytes.CutPrefix(head, []byte("data:")); ok {
		head = bytes.TrimPrefix(data, []byte(" "))
	}
	err := s.tooLong(head)
	s.skip, s.blank = true, len(s.buf) == at
	s.begun = true
	s.mem = make([]byte, eventBuffer)
	s.buf, s.lf = s.mem[:0], 0
	return err
}

func (s *eventStream) tooLong(data []byte) error {
	return &jsonrpc.LineTooLong{Limit: s.max, Head: bytes.Clone(data[:min(len(data), eventHead)])}
}

// drop reads on to the end of a block that is too long.
func (s *eventStream) drop() error {
	for {
		if len(s.buf) == 0 {
			if err := s.fill(); err != nil {
				return err
			}
		}
		if s.cr && s.buf[0] == '\n' {
			s.cr = false
			s.consume(1)
			continue
		}
		s.cr = false
		end := bytes.IndexAny(s.buf, "\r\n")
		if end < 0 {
			s.blank = false
			s.consume(len(s.buf))
			continue
		}
		s.cr = s.buf[end] == '\r'
		s.consume(end + 1)
		if s.blank && end == 0 {
			s.skip = false
			return nil
		}
		s.blank = true
	}
}

// take returns buf[first:last] to be kept and consumes buf[:end].
func (s *eventStream) take(first, last, end int) []byte {
	if n := last - first; n < eventGiven || n < len(s.mem)/4 {
		data := bytes.Clone(s.buf[first:last])
		s.consume(end)
		return data
	}
	data, rest := s.buf[first:last:last], s.buf[end:]
	s.mem = make([]byte, max(eventBuffer, len(rest)))
	s.buf, s.lf = s.mem[:copy(s.mem, rest)], 0
	return data
}

func (s *eventStream) consume(n int) {
	s.buf = s.buf[n:]
	s.lf = max(s.lf-n, 0)
}

// fill reads more, after making room for it.
func (s *eventStream) fill() error {
	switch {
	case len(s.buf) == 0 && len(s.mem) > eventGiven:
		s.mem = make([]byte, eventBuffer) // nothing large is kept between events
		s.buf = s.mem[:0]
	case len(s.buf) == 0:
		s.buf = s.mem[:0]
	case len(s.buf) < cap(s.buf):
	case len(s.buf) <= len(s.mem)/2:
		s.buf = s.mem[:copy(s.mem, s.buf)]
	default:
		mem := make([]byte, 2*len(s.mem))
		s.mem, s.buf = mem, mem[:copy(mem, s.buf)]
	}
	for range idleReads {
		if s.err != nil {
			return s.err
		}
		var n int
		n, s.err = s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		if n > 0 {
			s.buf = s.buf[:len(s.buf)+n]
			return nil
		}
	}
	if s.err == nil {
		s.err = io.ErrNoProgress
	}
	return s.err
}
