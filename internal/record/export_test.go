package record

import (
	"os"
	"time"
)

// The bounds that tests go beyond, and the times that they wait for.
const (
	MaxLine    = maxLine
	MaxQueued  = maxQueued
	MaxWaiting = maxWaiting
	RetryAfter = retryAfter
	WriteEvery = writeEvery
)

// CreateWith replaces how a log's parts are made.
func (o *Options) CreateWith(create func(path string) (*os.File, error)) { o.create = create }

// Create is how they are made.
func Create(path string) (*os.File, error) { return create(path) }

// WaitNoLonger sets how long Flush and Close wait for the disk.
func (l *Log) WaitNoLonger(d time.Duration) { l.patience = d }

// Process is the name that the log has given its process.
func (l *Log) Process() string { return l.process }
