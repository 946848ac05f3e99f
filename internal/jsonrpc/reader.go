package jsonrpc

import (
	"bytes"
	"fmt"
	"io"
)

const (
	readSize = 64 << 10 // bytes; what a pipe holds on Linux
	keepSize = 2 << 20  // bytes; the largest buffer that is kept after a long line
	headSize = 4 << 10  // bytes of a line that is too long
)

// Reader splits a byte stream into lines, one message a line. A line ends in LF
// or CRLF; empty ones are skipped.
type Reader struct {
	r       io.Reader
	max     int    // bytes of a line without its end
	buf     []byte // buf[lo:hi] is read and not yet returned
	lo, hi  int
	scanned int   // buf[lo:scanned] holds no LF
	skip    bool  // the rest of the present line is to be dropped
	err     error // what r returned at last
}

// NewReader returns a Reader of the lines in r of up to max bytes; zero is no
// limit.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{r: r, max: max, buf: make([]byte, readSize)}
}

// LineTooLong is the error of a line beyond the limit.
type LineTooLong struct {
	Limit int    // bytes
	Head  []byte // the first 4 KiB of the line
}

func (e *LineTooLong) Error() string {
	return fmt.Sprintf("line too long: more than %d bytes", e.Limit)
}

// Next returns the next line without its end; the slice is the caller's to keep.
//
// After the last whole line it returns io.EOF, or io.ErrUnexpectedEOF if the
// stream ended inside a line, whose beginning is dropped. A line beyond the limit
// is a *[LineTooLong] as soon as that is known; the next call drops the rest of
// the line, whatever its length, and goes on behind it.
func (r *Reader) Next() ([]byte, error) {
	for {
		end := bytes.IndexByte(r.buf[r.scanned:r.hi], '\n')
		if end < 0 {
			r.scanned = r.hi
			if r.skip {
				r.lo = r.hi
			} else if r.max > 0 && r.hi-r.lo > r.max+len("\r") {
				r.skip = true
				return nil, r.tooLong(r.hi)
			}
			if err := r.fill(); err != nil {
				return nil, err
			}
			continue
		}

		end += r.scanned
		line := bytes.TrimSuffix(r.buf[r.lo:end], []byte("\r"))
		switch {
		case r.skip:
			r.skip = false
			line = nil
		case r.max > 0 && len(line) > r.max:
			err := r.tooLong(end)
			r.advance(end + 1)
			return nil, err
		}
		if len(line) == 0 {
			r.advance(end + 1)
			continue
		}
		line = bytes.Clone(line)
		r.advance(end + 1)
		return line, nil
	}
}

// tooLong describes the line that begins at r.lo and of which nothing is known
// from end on.
func (r *Reader) tooLong(end int) *LineTooLong {
	return &LineTooLong{Limit: r.max, Head: bytes.Clone(r.buf[r.lo:min(r.lo+headSize, end)])}
}

// advance takes what stands before i as returned.
func (r *Reader) advance(i int) {
	r.lo, r.scanned = i, i
	if r.hi-r.lo <= readSize && len(r.buf) > keepSize {
		r.shift(make([]byte, readSize))
	}
}

// shift moves what is not yet returned to the beginning of buf.
func (r *Reader) shift(buf []byte) {
	n := copy(buf, r.buf[r.lo:r.hi])
	r.buf, r.lo, r.scanned, r.hi = buf, 0, r.scanned-r.lo, n
}

// fill reads more, after making room for it.
func (r *Reader) fill() error {
	switch {
	case r.lo == r.hi:
		r.lo, r.scanned, r.hi = 0, 0, 0
	case r.hi < len(r.buf):
	case r.lo > 0:
		r.shift(r.buf)
	default:
		r.shift(make([]byte, 2*len(r.buf)))
	}
	for range 100 {
		if r.err != nil {
			break
		}
		var n int
		n, r.err = r.r.Read(r.buf[r.hi:])
		if r.hi += n; n > 0 {
			return nil
		}
	}
	switch {
	case r.err == nil:
		r.err = io.ErrNoProgress
	case r.err == io.EOF && (r.skip || r.hi > r.lo):
		r.err = io.ErrUnexpectedEOF
	}
	return r.err
}
