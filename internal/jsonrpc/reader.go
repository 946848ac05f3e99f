package jsonrpc

import (
	"bytes"
	"fmt"
	"io"
)

const (
	readSize = 64 << 10 // bytes; what a pipe holds on Linux
	keepSize = 2 << 20  // bytes; the largest buffer that is made ready for a long line
	headSize = 4 << 10  // bytes of the beginning of a line that is too long
	tailSize = 256      // bytes of its end
	copySize = 16 << 10 // bytes of a line that is copied out of the buffer in any case
)

// Reader splits a byte stream into lines, one message a line. A line ends in LF
// or CRLF; empty ones are skipped.
//
// A long line is not copied: it is handed out with the buffer that it was read
// into, and reading goes on with another one, as large as recent lines were.
type Reader struct {
	r       io.Reader
	max     int // bytes of a line without its end
	pool    pool
	own     *Buffer
	buf     []byte // own's memory: buf[lo:hi] is read and not yet returned
	lo, hi  int
	scanned int          // buf[lo:scanned] holds no LF
	usual   int          // bytes; how long the lines of late were, the long ones above all
	long    *LineTooLong // the present line, of which only the end is still kept; nil: it is not too long
	err     error        // what r returned at last
}

// NewReader returns a Reader of the lines in r of up to max bytes; zero is no
// limit.
func NewReader(r io.Reader, max int) *Reader {
	n := &Reader{r: r, max: max}
	n.renew(readSize)
	return n
}

// LineTooLong is the error of a line beyond the limit.
type LineTooLong struct {
	Limit int    // bytes
	Head  []byte // the first 4 KiB of the line
	Tail  []byte // its last 256 bytes; none of a line that the stream's end cut short
}

// ID finds the id of a message that is too long, nil if it cannot be told. Some
// write it first, some last.
func (e *LineTooLong) ID() []byte {
	if id := SalvageID(e.Head); id != nil {
		return id
	}
	return lastID(e.Tail)
}

func (e *LineTooLong) Error() string {
	return fmt.Sprintf("line too long: more than %d bytes", e.Limit)
}

// Next returns the next line without its end; the slice is the caller's to keep.
//
// After the last whole line it returns io.EOF, or io.ErrUnexpectedEOF if the
// stream ended inside a line, whose beginning is dropped. A line beyond the limit
// is a *[LineTooLong] once it has gone by, whatever its length; the next call goes
// on behind it.
func (r *Reader) Next() ([]byte, error) {
	from, to, next, err := r.find()
	if err != nil {
		return nil, err
	}
	line := bytes.Clone(r.buf[from:to])
	r.advance(next)
	return line, nil
}

// Borrow is Next for who gives the line back with [Buffer.Release].
func (r *Reader) Borrow() (*Buffer, error) {
	from, to, next, err := r.find()
	if err != nil {
		return nil, err
	}
	size := to - from
	b := r.own
	if size <= copySize || size <= r.hi-next || from < headRoom {
		b = r.pool.get(headRoom + size + tailRoom)
		b.Line = b.all[headRoom : headRoom+copy(b.all[headRoom:], r.buf[from:to])]
		r.advance(next)
	} else {
		b.Line = b.all[from:to]
		rest := b.all[next:r.hi]
		r.renew(max(headRoom+len(rest)+1, r.expected()))
		r.hi += copy(r.buf[r.hi:], rest)
	}
	return b, nil
}

// expected is how large a buffer takes the next line whole, if it is like the
// last ones.
func (r *Reader) expected() int {
	return max(readSize, min(headRoom+r.usual+tailRoom, keepSize))
}

// find reads up to the end of the next line, which is buf[from:to]; the one after
// it begins at next.
func (r *Reader) find() (from, to, next int, err error) {
	for {
		end := bytes.IndexByte(r.buf[r.scanned:r.hi], '\n')
		if end < 0 {
			r.scanned = r.hi
			if r.long == nil && r.max > 0 && r.hi-r.lo > r.max+len("\r") {
				r.long = r.tooLong(r.hi)
			}
			if r.long != nil {
				r.long.pass(r.buf[r.lo:r.hi])
				r.lo = r.hi
			}
			if err := r.fill(); err != nil {
				if long := r.long; long != nil {
					r.long, long.Tail = nil, nil
					return 0, 0, 0, long
				}
				return 0, 0, 0, err
			}
			continue
		}

		end += r.scanned
		line := bytes.TrimSuffix(r.buf[r.lo:end], []byte("\r"))
		switch {
		case r.long != nil:
			err := r.long
			err.pass(line)
			r.long = nil
			r.advance(end + 1)
			return 0, 0, 0, err
		case r.max > 0 && len(line) > r.max:
			err := r.tooLong(end)
			err.pass(line)
			r.advance(end + 1)
			return 0, 0, 0, err
		}
		if len(line) == 0 {
			r.advance(end + 1)
			continue
		}
		r.usual = max(len(line), r.usual-r.usual/32)
		return r.lo, r.lo + len(line), end + 1, nil
	}
}

// tooLong describes the line that begins at r.lo and of which nothing is known
// from end on.
func (r *Reader) tooLong(end int) *LineTooLong {
	return &LineTooLong{Limit: r.max, Head: bytes.Clone(r.buf[r.lo:min(r.lo+headSize, end)])}
}

// pass keeps the end of what has gone by.
func (e *LineTooLong) pass(b []byte) {
	e.Tail = append(e.Tail, b[max(0, len(b)-tailSize):]...)
	e.Tail = append(e.Tail[:0], e.Tail[max(0, len(e.Tail)-tailSize):]...)
}

// advance takes what stands before i as returned.
func (r *Reader) advance(i int) {
	r.lo, r.scanned = i, i
	if size := r.expected(); len(r.buf) > 4*size && r.hi-r.lo < readSize {
		r.move(size) // long lines have become rare
	}
}

// renew goes on with an empty buffer of at least size bytes; the old one is
// somebody's.
func (r *Reader) renew(size int) {
	r.own = r.pool.get(size)
	r.buf = r.own.all
	r.lo, r.scanned, r.hi = headRoom, headRoom, headRoom
}

// move goes on with another buffer of at least size bytes and what is not yet
// returned in it.
func (r *Reader) move(size int) {
	old, rest, scanned := r.own, r.buf[r.lo:r.hi], r.scanned-r.lo
	r.renew(size)
	r.hi += copy(r.buf[r.hi:], rest)
	r.scanned += scanned
	old.Release()
}

// fill reads more, after making room for it.
func (r *Reader) fill() error {
	switch {
	case r.lo == r.hi:
		r.lo, r.scanned, r.hi = headRoom, headRoom, headRoom
	case r.hi < len(r.buf):
	case r.lo > headRoom:
		n := copy(r.buf[headRoom:], r.buf[r.lo:r.hi])
		r.lo, r.scanned, r.hi = headRoom, headRoom+r.scanned-r.lo, headRoom+n
	default:
		r.move(max(2*len(r.buf), r.expected()))
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
	case r.err == io.EOF && (r.long != nil || r.hi > r.lo):
		r.err = io.ErrUnexpectedEOF
	}
	return r.err
}
