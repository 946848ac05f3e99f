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

// Buffer is a line that its [Reader] wants back. Who has it is its only owner:
// either they call Release once nobody looks at the line any more, or nobody
// does, and the garbage collector takes it.
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

// before returns the memory from the beginning up to where the line begins.
func (b *Buffer) before() int { return cap(b.all) - cap(b.Line) }

// pool is memory that nobody uses, by its size.
type pool struct {
	free [mostClass + 1]sync.Pool // of *Buffer
}

// class is the exponent of the smallest power of two that is at least size.
func class(size int) int { return max(leastClass, bits.Len(uint(size-1))) }

// get returns a buffer of at least size bytes.
func (p *pool) get(size int) *Buffer {
	c := class(size)
	if c > mostClass {
		return &Buffer{all: make([]byte, size)}
	}
	b, ok := p.free[c].Get().(*Buffer)
	if !ok {
		b = &Buffer{all: make([]byte, 1<<c)}
	}
	b.pool = p
	return b
}
