package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// source is one file as it is read, at once or bit by bit.
type source struct {
	file    string
	process string // not one of ours: each Begin in it names one
	each    func(*Event)
	bad     func(Problem)

	offset   int64 // behind the last line that was read
	line     int   // its number
	inLong   bool  // offset is inside a line that is too long
	newer    bool  // the lines are of a version that cannot be read
	problems int
	event    Event // used again for each line
}

// read reads a file from where the last read of it ended. The error is that it could not be
// opened.
func (s *source) read(ctx context.Context, f File, buf *bufio.Reader) error {
	in := os.Stdin
	if f.Path == "-" {
		s.file = "stdin"
	} else {
		var err error
		if in, err = os.Open(f.Path); err != nil {
			return err
		}
		defer in.Close()
	}
	buf.Reset(in)
	from := buf
	if s.offset > 0 {
		if _, err := in.Seek(s.offset, io.SeekStart); err != nil {
			return err
		}
	} else if head, _ := buf.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buf)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		from = bufio.NewReaderSize(z, maxLine)
	}
	if err := s.lines(ctx, from, !f.Running); err != nil {
		s.line++
		s.problem("cannot be read further: " + cause(err))
	}
	if n := s.problems - maxProblems; n > 0 && !f.Running {
		s.bad(Problem{s.file, 0, fmt.Sprintf("and %d more lines that cannot be read", n)})
	}
	return nil
}

// lines reads those that are there. The rest behind the last line end is one too if the
// file is whole; else it may still be written.
func (s *source) lines(ctx context.Context, r *bufio.Reader, whole bool) error {
	for ctx.Err() == nil {
		b, err := r.ReadSlice('\n')
		rest, long := errors.Is(err, io.EOF), errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !rest && !long {
			return err
		}
		if rest && (len(b) == 0 || !whole) {
			return nil
		}
		s.offset += int64(len(b))
		switch {
		case long && !s.inLong:
			s.inLong = true
			s.line++
			s.problem("a line of more than " + strconv.Itoa(maxLine) + " bytes")
		case long:
		case s.inLong: // this is the rest of it
			s.inLong = false
		default:
			s.line++
			if err := s.parse(b); err != nil && rest {
				s.problem("the last line is cut short")
			} else if err != nil {
				s.problem(err.Error())
			}
		}
		if rest {
			return nil
		}
	}
	return nil
}

// bom is what some editors put before UTF-8.
var bom = []byte("\xef\xbb\xbf")

// parse reads a line and passes its event on.
func (s *source) parse(b []byte) error {
	if s.line == 1 {
		b = bytes.TrimPrefix(b, bom)
	}
	if rest := bytes.TrimLeft(b, "\x00"); len(rest) < len(b) { // what a file system leaves where it lost data
		s.problem(fmt.Sprintf("%d bytes are zero: lost when the machine stopped", len(b)-len(rest)))
		b = rest
	}
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return nil
	}
	err := s.event.UnmarshalJSON(b)
	if err == nil && s.event.Kind == Begin {
		s.begin(&s.event)
	}
	switch {
	case s.newer || err != nil && s.announcesNewer(b):
		return nil
	case err != nil && !json.Valid(b):
		return errors.New("not JSON")
	case err != nil:
		return err
	}
	s.event.Process = s.process
	s.each(&s.event)
	return nil
}

// announcesNewer reports whether a line that cannot be read is the first one of a later
// version, in which anything may have changed.
func (s *source) announcesNewer(b []byte) bool {
	var begin struct {
		Kind Kind
		V    int
	}
	if json.Unmarshal(b, &begin) == nil && begin.Kind == Begin && begin.V > Version {
		s.begin(&Event{Kind: Begin, V: begin.V})
	}
	return s.newer
}

// begin looks at the first line of a part.
func (s *source) begin(e *Event) {
	if s.newer = e.V > Version; s.newer {
		s.problem(fmt.Sprintf("written in version %d of the format; this program reads up to version %d", e.V, Version))
	}
	if !ours.MatchString(s.process + ".lock") { // several that were put together, perhaps
		s.process = e.At.UTC().Format(stamp) + "-" + strconv.Itoa(e.PID)
	}
}

// maxProblems is how many bad lines of one file are told of one by one.
const maxProblems = 5

func (s *source) problem(text string) {
	if s.problems++; s.problems <= maxProblems {
		s.bad(Problem{s.file, s.line, text})
	}
}
