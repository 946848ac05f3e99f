package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	readSize = 256 << 10 // bytes read at a time; what a pipe to or from a process of ours holds on Linux
	longSize = 64 << 10  // bytes read at a time once a line was long
	keepSize = 2 << 20   // bytes; the largest buffer that is made ready for a long line
	headSize = 4 << 10   // bytes of the beginning of a line that is too long
	tailSize = 256       // bytes of its end
)

// Reader splits a byte stream into lines, one message a line. A line ends in LF
// or CRLF; empty ones are skipped.
type Reader struct {
	in   *bufio.Reader
	max  int   // bytes of a line without its end
	long int   // bytes of the last line of more than readSize, up to keepSize
	pool *pool // of lines; nil: each has memory of its own
	err  error // why there are no more lines
}

// NewReader returns a Reader of the lines in r of up to max bytes; zero is no
// limit.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, readSize), max: max, pool: new(pool)}
}

// NewShortReader is [NewReader] for a stream of few lines: it reads little at a time, and
// a line is kept or left to the garbage collector.
func NewShortReader(r io.Reader, max int) *Reader {
	return &Reader{in: bufio.NewReader(r), max: max}
}

// Next returns the next line without its end; the slice is the caller's to keep.
//
// After the last whole line it returns io.EOF, or io.ErrUnexpectedEOF if the
// stream ended inside a line, which is dropped. A line beyond the limit
// is a *[LineTooLong] once it has gone by, whatever its length; the next call goes
// on behind it.
func (r *Reader) Next() ([]byte, error) {
	b, err := r.Borrow()
	if err != nil {
		return nil, err
	}
	line := bytes.Clone(b.Line)
	b.Release()
	return line, nil
}

// Borrow is [Reader.Next] for a caller that gives the line back with
// [Buffer.Release].
func (r *Reader) Borrow() (*Buffer, error) {
	for {
		b, err := r.Line()
		if err != nil || len(b.Line) > 0 {
			return b, err
		}
		b.Release()
	}
}

// Line is [Reader.Borrow] for a caller that wants empty lines too.
func (r *Reader) Line() (*Buffer, error) {
	if r.err != nil {
		return nil, r.err
	}
	var b *Buffer
	for {
		chunk, err := r.in.ReadSlice('\n')
		room := len(chunk)
		if b == nil && err == bufio.ErrBufferFull {
			room = max(room, r.long) // long lines are often alike
		}
		b = r.pool.grow(b, room)
		b.Line = append(b.Line, chunk...)
		line := withoutEnd(b.Line)
		switch {
		case r.max > 0 && len(line) > r.max:
			long := r.tooLong(bytes.TrimSuffix(b.Line, []byte("\n")), err)
			b.Release()
			return nil, long
		case err == nil:
			if len(line) > readSize {
				r.long = min(len(line), keepSize)
			}
			b.Line = line
			return b, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			r.end(err, len(b.Line) > 0)
			b.Release()
			return nil, r.err
		case r.in.Size() < longSize:
			r.in = bufio.NewReaderSize(r.in, longSize) // the other has nothing left
		}
	}
}

// withoutEnd returns line without the LF or CRLF that it ends in.
func withoutEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// end notes the error that ended the stream, inside a line or not.
func (r *Reader) end(err error, inside bool) {
	if r.err = err; err == io.EOF && inside {
		r.err = io.ErrUnexpectedEOF
	}
}

// tooLong reads to the end of the line that begins so. err is nil if that is all
// of it.
func (r *Reader) tooLong(line []byte, err error) *LineTooLong {
	long := &LineTooLong{Limit: r.max, Head: bytes.Clone(line[:min(len(line), headSize)])}
	tail := bytes.Clone(last(line))
	for errors.Is(err, bufio.ErrBufferFull) {
		var chunk []byte
		chunk, err = r.in.ReadSlice('\n')
		tail = append(tail[:0], last(append(tail, last(chunk)...))...)
	}
	if err != nil {
		r.end(err, true)
		return long
	}
	long.Tail = withoutEnd(tail)
	return long
}

func last(b []byte) []byte { return b[max(0, len(b)-tailSize):] }

// LineTooLong is the error of a line beyond the limit.
type LineTooLong struct {
	Limit int    // bytes
	Head  []byte // the first 4 KiB of the line
	Tail  []byte // its last 256 bytes or few less; none of a line that the stream's end cut short
}

// ID finds the id of a message that is too long, nil if it cannot be told. Some
// write it first, some last.
func (e *LineTooLong) ID() []byte {
	if id := salvageID(e.Head); id != nil {
		return id
	}
	return lastID(e.Tail)
}

func (e *LineTooLong) Error() string {
	return fmt.Sprintf("line too long: more than %d bytes", e.Limit)
}
