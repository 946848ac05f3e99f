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

// source reads one file, at once or as it grows.
type source struct {
	file      string
	process   string // in a file not named like a process's log, each Begin event sets it
	onEvent   func(*Event)
	onProblem func(Problem)

	offset int64 // end of the last line that was read
	line   int   // number of that line
	inLong bool  // offset is within a line that is too long
	newer  bool  // the lines are of an unsupported version
	ended  bool  // nothing more will be written
	event  Event // reused for each line
}

// read reads the file from the end of the last read. It returns an error only if the file
// cannot be opened.
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
		s.problem("cannot read further: " + Cause(err))
	}
	return nil
}

// lines reads all complete lines. Text after the last newline counts as a line only if the
// file has ended, as it may still be being written.
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
		if s.inLong { // b continues the long line
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

// parse parses a line and passes its event to onEvent. It recognizes a Begin event even if the
// rest does not parse, as a later version may have changed anything else.
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
	s.onEvent(&s.event)
	return nil
}

// begin handles the first line of a file, or of one of several logs joined in a file.
func (s *source) begin(version int) {
	if s.newer = version > Version; s.newer {
		s.problem(fmt.Sprintf("written in version %d of the format; this program reads up to version %d", version, Version))
	}
	if !processFile.MatchString(s.process + ".lock") { // the file may be several logs joined
		s.process = s.event.At.UTC().Format(stamp) + "-" + strconv.Itoa(s.event.PID)
	}
}

func (s *source) problem(text string) { s.onProblem(Problem{s.file, s.line, text}) }
