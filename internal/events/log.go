package events

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what is done with events. The zero value tells nobody and writes
// nothing.
type Options struct {
	Dir   string                        // folder of the logs; "": nothing is written, Each is told all the same
	Full  bool                          // arguments are recorded in full beside their hashes
	Key   []byte                        // of the hashes; none: one that dies with the process
	Scrub func(arguments []byte) []byte // takes secrets out of what is recorded in full, a JSON object to a JSON object; nil: as they are
	Begin Event                         // what is said of the process; of Kind, V, PID and At what is zero is filled in
	Log   *slog.Logger                  // nil: nobody is warned

	// Each is told of every event, in order and never of two at once, on the log's
	// goroutine or on that of whoever flushes, closes or overfills the log. The event
	// may be kept as a copy only. Each must not call the log. nil: nobody is told.
	Each func(*Event)

	RotateBytes int64         // how large a part of the log may grow; default 16 MiB
	RotateAge   time.Duration // and how old; default 24 h
	KeepBytes   int64         // of all files in the folder that nobody writes to; the oldest go first; default 512 MiB
	KeepAge     time.Duration // of each of them; default 30 days
	Every       time.Duration // how long a line may wait to be written; default 250 ms
}

const (
	maxQueued  = 1 << 16  // events that wait to be told of; whoever adds more helps
	manyQueued = 1 << 10  // that are told of at once
	maxPending = 16 << 20 // bytes that wait to be written; more are lost
	maxLine    = 1 << 20  // bytes of a line
)

// Log takes events and writes them. Its methods may be called from any goroutine.
//
// An event goes through three hands: the queue, which costs whoever adds it a copy;
// the telling, which hashes, tells Each and makes a line of it; and the writing. No
// hand waits for the next one, so that a disk that hangs delays nobody.
type Log struct {
	process string
	begin   Event
	each    func(*Event)
	every   time.Duration
	logger  *slog.Logger
	closing sync.Once
	hung    sync.Once // warns of a disk that does not answer
	// patience is how long Flush and Close wait for a disk; default 5 s.
	patience time.Duration
	lost     atomic.Int64

	mu     sync.Mutex // guards what follows; held for no longer than it takes to copy an event
	queue  queue
	timer  *time.Timer // has events told of and written
	armed  bool        // the timer runs
	closed bool        // whoever adds an event tells of it
	open   []pending   // events whose end is not known

	asking sync.Mutex // held while those are asked; never within another

	telling sync.Mutex // guards what follows; held while Each is told of a few events
	begun   bool       // Each was told of the process
	ended   bool       // and of its end: nothing is written any more
	shown   bool       // its file was asked for
	on      bool
	full    bool
	scrub   func([]byte) []byte
	mac     hash.Hash
	scratch []byte // what is being hashed
	sum     []byte // its hash
	next    *batch // lines to write; nil: none
	current *batch // lines that are being written; nil: none
	spare   []byte // memory of lines that were written

	file *file // of the goroutine that writes current; nil: there is no folder
}

// pending is an event whose end is not known yet.
type pending struct {
	event Event
	known func(*Event) bool
}

// Open returns a log. It never fails: what cannot be written is one warning and a
// count. Where nothing happens but that the process begins and ends, no file is left.
func Open(o Options) *Log {
	l := &Log{each: o.Each, every: o.Every, logger: o.Log, scrub: o.Scrub, full: o.Full, on: true, begin: o.Begin, patience: 5 * time.Second}
	if l.each == nil {
		l.each = func(*Event) {}
	}
	if l.every <= 0 {
		l.every = 250 * time.Millisecond
	}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Key) == 0 {
		o.Key = make([]byte, keyBytes)
		rand.Read(o.Key)
	}
	l.mac = hmac.New(sha256.New, o.Key)
	l.describe()
	if o.Dir != "" {
		l.file = newFile(o, l.process, Append(nil, &l.begin), l.logger)
	}
	l.armed = true
	l.timer = time.AfterFunc(l.every, l.turn)
	return l
}

// describe completes what is said of the process, and names it.
func (l *Log) describe() {
	b := &l.begin
	b.Kind, b.V = Begin, Version
	if b.PID == 0 {
		b.PID = os.Getpid()
	}
	if b.At.IsZero() {
		b.At = time.Now()
	}
	var random [2]byte
	rand.Read(random[:])
	l.process = fmt.Sprintf("%s-%d-%x", b.At.UTC().Format(stamp), b.PID, random)
	b.Process = l.process
}

// Add hands an event over. It never waits for a disk.
func (l *Log) Add(e Event) {
	l.mu.Lock()
	l.queue.push(&e)
	waiting, closed := l.queue.length, l.closed
	switch {
	case closed:
	case !l.armed:
		l.armed = true
		l.timer.Reset(l.every)
	case waiting == manyQueued:
		l.timer.Reset(0)
	}
	l.mu.Unlock()
	if closed {
		l.tell()
	} else if waiting > maxQueued {
		l.tellSome(math.MaxInt64) // whoever overfills the log helps to empty it: nothing is lost, and nothing grows without bound
	}
}

// AddWhen hands an event over whose end is not known yet: known fills it in, and
// reports whether that is so. It is asked at each Flush, whenever other events are
// told of, and a last time at Close; an event that is still open then was Wasted, as
// nobody asked for it. It may add events, but not flush the log. How many are open
// at once is for the caller to bound.
func (l *Log) AddWhen(e Event, known func(e *Event) bool) {
	p := pending{e, known}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.open = append(l.open, p)
	}
	l.mu.Unlock()
	if closed {
		settle(&p)
		l.Add(p.event)
	}
}

// turn is what the timer does, on a goroutine of its own.
func (l *Log) turn() {
	l.mu.Lock()
	l.armed = false
	l.mu.Unlock()
	l.ask(false)
	for many := true; many; {
		l.tell()
		l.write()
		l.mu.Lock()
		many = l.queue.length >= manyQueued
		l.mu.Unlock()
	}
}

// Flush returns when all that was added before has been told to Each, and written to
// the file if it can be. It waits no more than five seconds for a disk.
func (l *Log) Flush() {
	l.ask(false)
	l.tell()
	l.wait(l.write())
}

// Close flushes the log and ends it. What is added later is told to Each at once, and
// not written.
func (l *Log) Close() {
	l.closing.Do(func() {
		l.ask(true)
		l.mu.Lock()
		l.closed = true
		l.timer.Stop()
		l.mu.Unlock()
		l.ask(true) // what was added meanwhile
		l.tell()
		l.end()
		l.wait(l.write())
	})
}

// Lost is how many lines were not written: there was no room, no permission or no
// folder, or they were too long.
func (l *Log) Lost() int64 { return l.lost.Load() }

// Reconfigure changes what is recorded from now on: arguments in full, and anything
// at all. What is not to be recorded is not lost.
func (l *Log) Reconfigure(full, on bool) {
	l.tell() // what happened before is recorded as it was to be
	l.telling.Lock()
	defer l.telling.Unlock()
	l.full, l.on = full, on
}
