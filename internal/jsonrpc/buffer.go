package jsonrpc

import (
	"math/bits"
	"sync"
)

// headRoom (bytes) is what is kept free before a borrowed line: with the head
// that the line brings, enough for another one with an id of up to 60 bytes.
const headRoom = 64

// tailRoom (bytes) is what is kept free behind it.
const tailRoom = 2

// The sizes of the memory that is used again are powers of two.
const (
	leastClass = 11 // 2 KiB
	mostClass  = 22 // 4 MiB; larger memory is left to the garbage collector
)

// Buffer is a line that its [Reader] wants back. It has one owner, which calls
// Release once the line is not looked at any more. An owner that does not leaves the
// line to the garbage collector.
//
// Measured, beside a fresh copy of each line: with 32 calls at once 1.14 times the
// calls per second at 100 KB (1.09 to 1.16) and 1.4 to 2.8 times at 1 MB, half the
// processor time of a call at 1 MB, 4 to 10 MiB less resident.
type Buffer struct {
	Line []byte // without its end

	all  []byte
	pool *pool // where it goes back to; nil: it does not
}

// Release gives the line's memory back, to become another line: nothing of it, nor
// b, must be used afterwards. It may be called on nil.
func (b *Buffer) Release() {
	if b == nil || b.pool == nil {
		return
	}
	pool := b.pool
	b.Line, b.pool = nil, nil
	if checking {
		for i := range b.all {
			b.all[i] = '#'
		}
	}
	pool.free[class(len(b.all))].Put(b)
}

// Reframe returns the response to the request id with result. Where that is the one that
// m came with, and m has a Buffer with room, the response is made in place: of m only the
// result and the Buffer must be used afterwards, and the response only until the
// Buffer is released.
//
// Measured, beside [AppendResult]: 0.75 times the processor time of a call at 100 KB
// and at 1 MB, 0.85 times the p50 of 32 calls of 1 MB at once (0.78 to 0.97).
func (m *Message) Reframe(id, result []byte) []byte {
	var few [2 * headRoom]byte
	head := appendResultHead(few[:0], id)
	if b := m.Buffer; b != nil && identical(m.Raw, b.Line) && m.resultIs(result) {
		from := cap(b.all) - cap(b.Line) + m.resultAt
		end := from + len(result)
		if from >= len(head) && end < len(b.all) {
			from -= copy(b.all[from-len(head):], head)
			b.all[end] = '}'
			return b.all[from : end+1 : end+1]
		}
	}
	return AppendResult(make([]byte, 0, len(head)+len(result)+len("{}}")), id, result)
}

// resultIs says whether result is the one that m came with, whatever m.Result is by now.
func (m *Message) resultIs(result []byte) bool {
	came := m.Raw[m.resultAt:]
	return len(result) <= len(came) && identical(result, came[:len(result)])
}

// identical says whether a and b are the same memory.
func identical(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// pool is memory that is not in use, by its size.
type pool struct {
	free [mostClass + 1]sync.Pool // of *Buffer
}

// class is the exponent of the smallest power of two that is at least size.
func class(size int) int { return max(leastClass, bits.Len(uint(size-1))) }

// grow returns a buffer with b's line, and room for more bytes of it; nil is a
// buffer with an empty line. b is not to be used any more.
func (p *pool) grow(b *Buffer, more int) *Buffer {
	if b == nil {
		return p.get(more)
	}
	if cap(b.Line)-len(b.Line) >= more+tailRoom {
		return b
	}
	next := p.get(len(b.Line) + max(more, len(b.Line)))
	next.Line = append(next.Line, b.Line...)
	b.Release()
	return next
}

// get returns a buffer with an empty line that may grow to size bytes. A nil pool has
// new ones only.
func (p *pool) get(size int) *Buffer {
	size += headRoom + tailRoom
	c := class(size)
	if c > mostClass || p == nil {
		b := &Buffer{all: make([]byte, size)}
		b.Line = b.all[headRoom:headRoom]
		return b
	}
	b, ok := p.free[c].Get().(*Buffer)
	if !ok {
		b = &Buffer{all: make([]byte, 1<<c)}
	}
	b.pool = p
	b.Line = b.all[headRoom:headRoom]
	return b
}
