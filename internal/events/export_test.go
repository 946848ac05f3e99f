package events

import (
	"os"
	"time"
)

// MaxLine, MaxQueued and MaxPending are the bounds that tests go beyond.
const (
	MaxLine    = maxLine
	MaxQueued  = maxQueued
	MaxPending = maxPending
)

// RetryAfter is how long nothing is written after an error.
const RetryAfter = retryAfter

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
