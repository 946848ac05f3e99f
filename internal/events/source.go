package events

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

// source is one file as it is read, be it at once or bit by bit.
type source struct {
	file    string
	process string // "": each Begin in it names one
	each    func(*Event)
	bad     func(Problem)
	seen    *seen // processes whose Begin was told: each part has it
	words   *words

	offset   int64     // behind the last line that was read
	line     int       // of that
	inLong   bool      // offset is inside a line that is too long
	newer    bool      // the lines are of a version that cannot be read
	good     bool      // there was an event
	problems int       // so far
	held     []Problem // until there is an event: without one, they are about the file
	event    Event     // the last one; used again for the next
}

// bom is what some editors put before UTF-8.
var bom = []byte("\xef\xbb\xbf")

// read reads the lines that are there. The rest behind the last line end is one too
// if whole is true.
func (s *source) read(r *bufio.Reader, whole bool, more func() bool) error {
	for n := 1; n%256 != 0 || more(); n++ {
		b, err := r.ReadSlice('\n')
		switch {
		case err == nil:
			s.offset += int64(len(b))
			s.take(b)
		case errors.Is(err, bufio.ErrBufferFull):
			s.offset += int64(len(b))
			s.long()
		case !errors.Is(err, io.EOF):
			return err
		case len(b) > 0 && s.inLong:
			s.offset += int64(len(b))
			return nil
		case len(b) > 0 && whole:
			s.offset += int64(len(b))
			s.cut(b)
			return nil
		default:
			return nil
		}
	}
	return nil
}

// long is told of a piece of a line that has no end within the buffer.
func (s *source) long() {
	if !s.inLong {
		s.inLong = true
		s.line++
		s.problem("a line of more than " + strconv.Itoa(maxLine) + " bytes")
	}
}

// take reads a line.
func (s *source) take(b []byte) {
	if s.inLong { // this is the rest of it
		s.inLong = false
		return
	}
	s.line++
	if err := s.parse(b); err != nil {
		s.problem(err.Error())
	}
}

// cut reads what stands behind the last line end.
func (s *source) cut(b []byte) {
	s.line++
	if err := s.parse(b); err != nil {
		s.problem("the last line is cut short")
	}
}

func (s *source) parse(b []byte) error {
	if s.line == 1 {
		b = bytes.TrimPrefix(b, bom)
	}
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return nil
	}
	err := parse(s.words, b, &s.event)
	switch {
	case err != nil && s.tooNew(b):
	case err != nil && b[0] == 0:
		return s.zeros(b)
	case err != nil:
		return err
	default:
		s.tell()
	}
	return nil
}

// tooNew reports whether a line that cannot be read is of a later version, or says
// that those behind it are: there anything may have changed.
func (s *source) tooNew(b []byte) bool {
	if jsonrpc.Valid(b) {
		kind, _ := jsonrpc.String(jsonrpc.Get(b, "kind"))
		if v, ok := parseWhole(jsonrpc.Get(b, "v")); ok && Kind(kind) == Begin && v > Version {
			s.begin(&Event{Kind: Begin, V: int(v)})
		}
	}
	return s.newer
}

// zeros reads a line that begins with what a file system leaves where it lost data.
func (s *source) zeros(b []byte) error {
	rest := bytes.TrimLeft(b, "\x00")
	if len(rest) > 0 && parse(s.words, rest, &s.event) == nil {
		s.tell()
	}
	return fmt.Errorf("%d bytes are zero: lost when the machine stopped", len(b)-len(rest))
}

// tell passes the event on.
func (s *source) tell() {
	e := &s.event
	if e.Kind == Begin {
		s.begin(e)
	}
	if s.newer {
		return
	}
	if e.Process = s.process; e.Kind == Begin {
		if !s.seen.first(e.Process) {
			return
		}
	}
	s.isLog()
	s.each(e)
}

// isLog is told that there are events in the file: bad lines are no more than that.
func (s *source) isLog() {
	for _, p := range s.held {
		s.bad(p)
	}
	s.good, s.held = true, nil
}

// begin looks at the first line of a part.
func (s *source) begin(e *Event) {
	if s.newer = e.V > Version; s.newer {
		s.isLog()
		s.problem(fmt.Sprintf("written in version %d of the format; this program reads up to version %d", e.V, Version))
	}
	if ours.FindString(s.process+".lock") == "" { // of several that were put together, perhaps
		s.process = e.At.UTC().Format(stamp) + "-" + strconv.Itoa(e.PID)
	}
}

// problem tells of a bad line.
func (s *source) problem(text string) {
	if s.problems++; s.problems > maxProblems {
		return
	}
	p := Problem{s.file, s.line, shown(text)}
	if s.good {
		s.bad(p)
	} else {
		s.held = append(s.held, p)
	}
}

// end tells of what is known only when the whole file was read.
func (s *source) end() {
	if !s.good && s.problems > 0 {
		first := s.held[0]
		text := "no record of events: " + first.Text
		if s.problems > 1 {
			text += fmt.Sprintf(", and so on: %d lines", s.problems)
		}
		s.bad(Problem{s.file, first.Line, text})
	} else if n := s.problems - maxProblems; n > 0 {
		s.bad(Problem{s.file, 0, fmt.Sprintf("and %d more lines that cannot be read", n)})
	}
	s.held, s.problems = nil, 0
}
