package events

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
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
	// has its hashes if it is written, and may be kept as a copy only. Each must not call the log. nil: nobody is told.
	Each func(*Event)

	RotateBytes int64         // how large a part of the log may grow; default 16 MiB
	RotateAge   time.Duration // and how old; default 24 h
	KeepBytes   int64         // of all files in the folder that nobody writes to; the oldest go first; default 512 MiB
	KeepAge     time.Duration // of each of them, unless all of them seem older; default 30 days
	Every       time.Duration // how long a line may wait to be written; default 250 ms
}

const (
	maxQueued  = 1 << 16  // events that wait to be told of; whoever adds more helps
	maxWaiting = 8 << 20  // bytes of arguments that they have, likewise
	manyQueued = 1 << 10  // that are told of at once
	maxPending = 16 << 20 // bytes that wait to be written; more are lost
	maxLine    = 1 << 20  // bytes of a line
)

// quietAfter is how long after the last event the memory of a burst is given back.
const quietAfter = 5 * time.Second

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
	quiet  *time.Timer // gives memory back
	closed bool        // whoever adds an event tells of it
	open   open

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
	l.quiet = time.AfterFunc(quietAfter, l.trim)
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
	l.process = nameOf(b.At, b.PID)
	b.Process = l.process
}

// Add hands an event over. It never waits for a disk.
func (l *Log) Add(e Event) {
	l.mu.Lock()
	l.queue.push(&e)
	waiting, full, closed := l.queue.length, l.queue.full(), l.closed
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
		return
	}
	for full && l.tellSome(math.MaxInt64) { // whoever overfills the log helps to empty it: nothing is lost, and nothing grows without bound
		l.mu.Lock()
		full = l.queue.full()
		l.mu.Unlock()
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
		if !many && !l.closed {
			l.quiet.Reset(quietAfter)
		}
		l.mu.Unlock()
	}
}

// trim gives the memory of a burst back: the proxy may be idle for days.
func (l *Log) trim() {
	l.asking.Lock()
	l.mu.Lock()
	l.queue.free = nil
	l.open.trim()
	l.mu.Unlock()
	l.asking.Unlock()
	l.telling.Lock()
	l.spare, l.scratch = nil, nil
	l.telling.Unlock()
}

// Flush returns when all that was added before has been told to Each, and written to
// the file if it can be. It waits no more than five seconds for a disk.
func (l *Log) Flush() {
	l.ask(false)
	l.tell()
	l.wait(l.write())
}

// Tell is Flush for who does not want to wait for a disk: all that was added before has
// been told to Each.
func (l *Log) Tell() {
	l.ask(false)
	l.tell()
	l.write()
}

// Close flushes the log and ends it. What is added later is told to Each at once, and
// not written.
func (l *Log) Close() {
	l.closing.Do(func() {
		l.ask(true)
		l.mu.Lock()
		l.closed = true
		l.timer.Stop()
		l.quiet.Stop()
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
