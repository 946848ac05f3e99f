package record

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"mcpschedd/internal/excerpt"
)

// Problem is a part of a file that could not be read. Names and contents of files are not
// trusted, so Error replaces characters that could control a terminal.
type Problem struct {
	File string
	Line int // from 1; 0 means the file as a whole
	Text string
}

func (p Problem) Error() string {
	at := p.File
	if p.Line > 0 {
		at += ":" + strconv.Itoa(p.Line)
	}
	return Printable(at + ": " + p.Text)
}

// Printable returns an untrusted text with '?' for each character that is not printable, such
// as those that control a terminal or change the direction of writing, except those to keep.
func Printable(text string, keep ...rune) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || slices.Contains(keep, r) {
			return r
		}
		return '?'
	}, text)
}

// Cause returns the message of an error without the path, for messages that name the file.
func Cause(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// Read reads files, plain or gzipped. The name "-" is standard input, and a folder stands for
// its *.jsonl and *.jsonl.gz files. Files are read by name, which is by process and part. A pipe or
// a device is read only if it is named itself.
//
// The event passed to onEvent is valid until onEvent returns. A name in it has at most 256 bytes, a
// count is from 0 to 2^40, any other number from 0 to 1e12. Read passes what cannot be read to
// onProblem and continues. The error is that of ctx, or says that none of the names could be opened.
func Read(ctx context.Context, names []string, onEvent func(*Event), onProblem func(Problem)) error {
	var files []File
	for _, name := range names {
		more, err := filesNamed(name)
		if err != nil {
			onProblem(Problem{File: name, Text: Cause(err)})
		}
		files = append(files, more...)
	}
	slices.SortFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(filepath.Base(a.Path), filepath.Base(b.Path)), cmp.Compare(a.Path, b.Path))
	})
	files = slices.CompactFunc(files, func(a, b File) bool { return a.Path == b.Path })
	opened := newReader(time.Time{}, onEvent, onProblem).read(ctx, files)
	if ctx.Err() == nil && opened == 0 {
		return errors.New(strings.Join(names, ", ") + ": nothing that can be read")
	}
	return ctx.Err()
}

// reader reads logs, each of them from where it stopped before. It skips events before since, except
// Begin and Session, and files of ended processes that were last written before since.
type reader struct {
	since     time.Time
	onEvent   func(*Event)
	onProblem func(Problem)
	sources   map[string]*source // by path
	buf       *bufio.Reader
}

// newReader returns a reader that skips nothing if since is zero. For onEvent and onProblem see
// [Read].
func newReader(since time.Time, onEvent func(*Event), onProblem func(Problem)) *reader {
	return &reader{since, onEvent, onProblem, make(map[string]*source), bufio.NewReaderSize(nil, maxLine)}
}

// read reads what was written to the files since the last call, and returns how many of them could be
// opened. While a process runs, an incomplete last line is left to the next call.
func (r *reader) read(ctx context.Context, files []File) (opened int) {
	for _, f := range files {
		s := r.sources[f.Path]
		switch {
		case s == nil && !f.Running && f.Modified.Before(r.since):
			continue
		case s == nil:
			s = &source{reader: r, file: f.Path, process: f.Process}
			r.sources[f.Path] = s
		case s.ended || f.Running && f.Size <= s.offset:
			continue
		}
		s.ended = !f.Running
		if err := s.read(ctx, r.buf); err != nil {
			r.onProblem(Problem{File: f.Path, Text: Cause(err)})
		} else {
			opened++
		}
		if ctx.Err() != nil {
			return opened
		}
	}
	return opened
}

// source reads one file, at once or as it grows.
type source struct {
	reader  *reader
	file    string
	process string // in a file not named like a process's log, each Begin event sets it

	offset int64 // end of the last line that was read
	line   int   // number of that line
	other  bool  // the lines are of another version
	ended  bool  // nothing more will be written
	event  Event // reused for each line
}

// read reads the file from the end of the last read. It returns an error only if the file
// cannot be opened.
func (s *source) read(ctx context.Context, buf *bufio.Reader) error {
	in := os.Stdin
	if s.file == "-" {
		s.file = "stdin"
	} else {
		var err error
		if in, err = os.Open(s.file); err != nil {
			return err
		}
		defer in.Close()
	}
	if _, err := in.Seek(s.offset, io.SeekStart); err != nil && s.offset > 0 {
		return err
	}
	buf.Reset(in)
	if head, _ := buf.Peek(2); s.offset == 0 && string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(buf)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		buf = bufio.NewReaderSize(z, maxLine)
	}
	for ctx.Err() == nil {
		text, err := buf.ReadSlice('\n')
		size, long := len(text), errors.Is(err, bufio.ErrBufferFull)
		for rest := text; errors.Is(err, bufio.ErrBufferFull); size += len(rest) {
			rest, err = buf.ReadSlice('\n')
		}
		last := errors.Is(err, io.EOF)
		if last && (size == 0 || !s.ended) { // the rest of the line may still be written
			return nil
		}
		s.offset += int64(size)
		s.line++
		switch {
		case long:
			s.problem("a line of more than 1 MiB")
		case err != nil && !last:
			s.problem("cannot read further: " + Cause(err))
			return nil
		default:
			if err := s.parse(bytes.TrimSpace(text)); err != nil && last {
				s.problem("the last line is cut short")
			} else if err != nil {
				s.problem(err.Error())
			}
		}
	}
	return nil
}

func (s *source) problem(text string) { s.reader.onProblem(Problem{s.file, s.line, text}) }

// parse parses a line and passes on its event.
func (s *source) parse(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	e := &s.event
	*e = Event{}
	err := json.Unmarshal(text, e)
	if e.Kind == Begin {
		if s.other = e.V != Version; s.other {
			return fmt.Errorf("written in version %d of the format; this program reads version %d", e.V, Version)
		}
		if !processFile.MatchString(s.process + ".lock") { // the file may be several logs joined
			s.process = e.At.UTC().Format(stamp) + "-" + strconv.Itoa(e.PID)
		}
	}
	switch {
	case s.other:
		return nil
	case err != nil && !json.Valid(text):
		return errors.New("not JSON")
	case err != nil:
		return err
	}
	if e.Kind == "" {
		return errors.New("not an event: it has no kind")
	}
	e.clamp()
	e.Process = s.process
	if e.At.IsZero() || !e.At.Before(s.reader.since) || e.Kind == Begin || e.Kind == Session {
		s.reader.onEvent(e)
	}
	return nil
}

// Bounds of what is read.
const (
	maxName   = 256 // bytes of a name
	maxCount  = 1 << 40
	maxAmount = 1e12 // about 30 years in milliseconds
)

// clamp brings numbers and names within the bounds, so that they can be added up and displayed: a
// file may come from anywhere.
func (e *Event) clamp() {
	clampFields(e)
	for i := range e.Top {
		clampFields(&e.Top[i])
	}
	if e.Declined == nil {
		return
	}
	reasons := make(map[string]int, len(e.Declined))
	for reason, n := range e.Declined {
		reasons[excerpt.Shorten(reason, maxName)] = int(min(max(int64(n), 0), maxCount))
	}
	e.Declined = reasons
}

// clampFields brings the strings and numbers of a struct within the bounds.
func clampFields[T any](of *T) {
	fields := reflect.ValueOf(of).Elem()
	count := fields.NumField()
	for i := range count { // Fields takes three times as long, and allocates
		switch v := fields.Field(i); v.Kind() {
		case reflect.String:
			v.SetString(excerpt.Shorten(v.String(), maxName))
		case reflect.Int, reflect.Int64:
			v.SetInt(min(max(v.Int(), 0), maxCount))
		case reflect.Float64:
			v.SetFloat(min(max(v.Float(), 0), maxAmount))
		}
	}
}
