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

	offset int64 // behind the last line that was read
	line   int   // its number
	inLong bool  // offset is inside a line that is too long
	newer  bool  // the lines are of a version that cannot be read
	ended  bool  // there will be no more
	event  Event // used again for each line
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
	if err := s.lines(ctx, from); err != nil {
		s.line++
		s.problem("cannot be read further: " + Cause(err))
	}
	return nil
}

// lines reads those that are there. The rest behind the last line end is one too if the
// file has ended; else it may still be written.
func (s *source) lines(ctx context.Context, r *bufio.Reader) error {
	for ctx.Err() == nil {
		b, err := r.ReadSlice('\n')
		rest, long := errors.Is(err, io.EOF), errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !rest && !long {
			return err
		}
		if rest && (len(b) == 0 || !s.ended) {
			return nil
		}
		s.offset += int64(len(b))
		if s.inLong { // this is more of it
			s.inLong = long
			continue
		}
		s.line++
		if s.inLong = long; long {
			s.problem("a line of more than " + strconv.Itoa(maxLine) + " bytes")
		} else if err := s.parse(bytes.TrimSpace(b)); err != nil && rest {
			s.problem("the last line is cut short")
		} else if err != nil {
			s.problem(err.Error())
		}
	}
	return nil
}

// parse reads a line and passes its event on. In what announces itself as a later version
// anything may have changed.
func (s *source) parse(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	err := s.event.UnmarshalJSON(b)
	var begin struct {
		Kind Kind
		V    int
	}
	if s.event.Kind == Begin || err != nil && json.Unmarshal(b, &begin) == nil && begin.Kind == Begin {
		s.begin(max(s.event.V, begin.V))
	}
	switch {
	case s.newer:
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

// begin looks at the first line of a part.
func (s *source) begin(version int) {
	if s.newer = version > Version; s.newer {
		s.problem(fmt.Sprintf("written in version %d of the format; this program reads up to version %d", version, Version))
	}
	if !ours.MatchString(s.process + ".lock") { // several that were put together, perhaps
		s.process = s.event.At.UTC().Format(stamp) + "-" + strconv.Itoa(s.event.PID)
	}
}

func (s *source) problem(text string) { s.bad(Problem{s.file, s.line, text}) }
