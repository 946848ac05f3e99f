package events

import (
	"os"
	"time"
	"unsafe"
)

// The bounds that tests go beyond.
const (
	MaxLine     = maxLine
	MaxQueued   = maxQueued
	MaxWaiting  = maxWaiting
	MaxPending  = maxPending
	MaxOpen     = maxOpen
	MaxSeen     = maxSeen
	MaxElements = maxElements
)

// RetryAfter is how long nothing is written after an error, QuietAfter how long
// nothing happens before memory is given back, and FreshFor how long a lock that
// cannot be held counts.
const (
	RetryAfter = retryAfter
	QuietAfter = quietAfter
	FreshFor   = freshFor
)

// CreateWith replaces how a log's parts are made.
func (l *Log) CreateWith(create func(path string) (*os.File, error)) {
	l.telling.Lock() // the goroutine that writes begins under it
	defer l.telling.Unlock()
	l.file.create = create
}

// Create is how they are made.
func Create(path string) (*os.File, error) { return create(path) }

// WaitNoLonger sets how long Flush and Close wait for a disk.
func (l *Log) WaitNoLonger(d time.Duration) { l.patience = d }

// Process is the name that the log has given its process.
func (l *Log) Process() string { return l.process }

// Queued is how many events wait to be told of.
func (l *Log) Queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.length
}

// Waiting is how many bytes of arguments wait with them.
func (l *Log) Waiting() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.bytes
}

// Kept is how many bytes of memory are kept for what comes next.
func (l *Log) Kept() int {
	l.mu.Lock()
	blocks, open := len(l.queue.free), cap(l.open.all)
	l.mu.Unlock()
	l.telling.Lock()
	defer l.telling.Unlock()
	return blocks*int(unsafe.Sizeof(block{})) + open*int(unsafe.Sizeof(pending{})) + cap(l.spare) + cap(l.scratch)
}
