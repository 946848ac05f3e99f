package jsonrpc

import (
	"math/bits"
	"sync"
)

// headRoom (bytes) is free space before a borrowed line. With what precedes the result in the
// line, it has room for the head of another response with an id of at least 42 bytes.
const headRoom = 64

// tailRoom (bytes) is free space after a borrowed line.
const tailRoom = 2

// Pooled buffers have sizes that are powers of two; a class is the exponent.
const (
	minClass = 11 // 2 KiB
	maxClass = 22 // 4 MiB; larger buffers are left to the garbage collector
)

// Buffer is a line in pooled memory. It has one owner, which calls Release after its
// last use of the line. A buffer that is never released is garbage collected.
//
// Measured against a fresh copy of each line: with 32 calls at once 1.14 times the
// calls per second at 100 KB (1.09 to 1.16) and 1.4 to 2.8 times at 1 MB, half the
// processor time of a call at 1 MB, 4 to 10 MiB less resident.
type Buffer struct {
	Line []byte // without its line end

	all  []byte // head room, line and tail room
	pool *pool  // where Release puts the buffer; nil if it is not pooled
}

// Release returns the buffer to its pool. Neither the line nor b may be used
// afterwards. Release of a nil Buffer does nothing.
func (b *Buffer) Release() {
	if b == nil || b.pool == nil {
		return
	}
	pool := b.pool
	b.Line, b.pool = nil, nil
	if raceEnabled {
		for i := range b.all {
			b.all[i] = '#'
		}
	}
	pool.free[class(len(b.all))].Put(b)
}

// room returns how many bytes can be appended to the line.
func (b *Buffer) room() int { return cap(b.Line) - len(b.Line) - tailRoom }

// Reframe returns the response to the request id with result. If result is the one that m
// was received with, and m has a Buffer with room, Reframe builds the response in place:
// afterwards only m's Result and Buffer may be used, and the response is valid until
// the Buffer is released.
//
// Measured against [AppendResult]: 0.75 times the processor time of a call at 100 KB
// and at 1 MB, 0.85 times the p50 of 32 calls of 1 MB at once (0.78 to 0.97).
func (m *Message) Reframe(id, result []byte) []byte {
	var buf [2 * headRoom]byte
	head := appendResultHead(buf[:0], id)
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

// resultIs reports whether result is the one that m was received with. m.Result may
// have been replaced since.
func (m *Message) resultIs(result []byte) bool {
	received := m.Raw[m.resultAt:]
	return len(result) <= len(received) && identical(result, received[:len(result)])
}

// identical reports whether a and b are the same memory.
func identical(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// pool holds free buffers by size class.
type pool struct {
	free [maxClass + 1]sync.Pool // of *Buffer
}

// class returns the size class of a buffer of at least size bytes.
func class(size int) int { return max(minClass, bits.Len(uint(size-1))) }

// grow returns a buffer with b's line and room for more bytes after it; a nil b has an
// empty line. b must not be used afterwards.
func (p *pool) grow(b *Buffer, more int) *Buffer {
	if b == nil {
		return p.get(more)
	}
	if b.room() >= more {
		return b
	}
	next := p.get(len(b.Line) + max(more, len(b.Line)))
	next.Line = append(next.Line, b.Line...)
	b.Release()
	return next
}

// get returns a buffer with an empty line and room for size bytes.
func (p *pool) get(size int) *Buffer {
	size += headRoom + tailRoom
	c := class(size)
	if c > maxClass {
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
