package record

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what is done with events. The zero value writes nothing.
type Options struct {
	Dir   string                        // folder of the logs; "": nothing is written
	Full  bool                          // arguments are recorded in full beside their hashes
	Off   bool                          // nothing is written until [Log.Reconfigure] says otherwise
	Key   []byte                        // of the hashes; none: one that is forgotten with the process
	Scrub func(arguments []byte) []byte // takes secrets out of what is recorded in full, a JSON object to a JSON object; nil: as they are
	Begin Event                         // the first line of each file; of Kind, V, PID and At what is zero is filled in
	// Status says how the process stands; of what is in Begin it may leave out all. It is
	// asked by the writer's goroutine, soon after [Log.Changed]. nil: no status is written.
	Status func() Status
	Log    *slog.Logger // default: none

	// Each is given every event, written or not, on the goroutine that adds it; several
	// goroutines may at once. The event has no hashes yet.
	Each func(Event)

	RotateBytes int64         // how large a part of the log may grow; default 16 MiB
	RotateAge   time.Duration // and how old; default 24 h
	KeepBytes   int64         // of all files in the folder that are not being written; the oldest go first; default 512 MiB
	KeepAge     time.Duration // of each of them, unless all of them seem older; default 30 days

	create func(path string) (*os.File, error) // of tests
}

const (
	maxQueued    = 1 << 13  // events that wait to be written; more are lost
	maxWaiting   = 8 << 20  // bytes of arguments that they have, likewise
	batch        = 1 << 8   // events, or KiB of arguments, are not left to wait for more
	maxLine      = 1 << 20  // bytes of a line
	maxArguments = 64 << 10 // bytes of arguments that are hashed and recorded
)

// Log hands events to Each, and to one goroutine that writes them. Its methods may be
// called from any goroutine; [Log.Add] never waits for the disk.
type Log struct {
	process  string
	each     func(Event)
	logger   *slog.Logger
	queue    *queue        // to the writer; nil: there is no folder
	asks     chan ask      // likewise
	changed  chan struct{} // capacity 1; the status is another
	lost     atomic.Int64
	off      atomic.Bool
	full     atomic.Bool
	closed   atomic.Bool
	close    sync.Once
	patience time.Duration // how long Flush and Close wait for the disk
	scrub    func([]byte) []byte
}

// ask has the writer write what came before.
type ask struct {
	last *Event        // the log ends, with this line; nil: it goes on
	done chan struct{} // closed when all before is written, or cannot be
}

// Open begins the log of this process. It never fails: what cannot be written is one
// warning and a count. There is no file before the first event.
func Open(o Options) *Log {
	begin := o.Begin
	begin.Kind, begin.V = Begin, Version
	if begin.PID == 0 {
		begin.PID = os.Getpid()
	}
	if begin.At.IsZero() {
		begin.At = time.Now()
	}
	begin.Process = processName(begin.At, begin.PID)
	if o.Scrub == nil {
		o.Scrub = func(arguments []byte) []byte { return arguments }
	}
	l := &Log{process: begin.Process, each: o.Each, logger: o.Log, patience: 5 * time.Second, scrub: o.Scrub}
	if l.each == nil {
		l.each = func(Event) {}
	}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	l.off.Store(o.Off)
	l.full.Store(o.Full)
	l.each(begin)
	if o.Dir != "" {
		l.queue, l.asks, l.changed = newQueue(), make(chan ask), make(chan struct{}, 1)
		go newWriter(o, &begin, l).run()
	}
	return l
}

// processName names a process. Processes in containers may have the same id, hence the
// random part.
func processName(began time.Time, pid int) string {
	var random [4]byte
	rand.Read(random[:])
	return began.UTC().Format(stamp) + "-" + strconv.Itoa(pid) + "-" + hex.EncodeToString(random[:])
}

// Add records an event. If the queue to the writer is full, the line is lost and
// counted.
func (l *Log) Add(e Event) {
	e.Process = l.process
	if e.Kind == Choice {
		e.Top = l.told(e.Top)
	}
	l.each(e)
	if !l.Writes() {
		return
	}
	if l.closed.Load() || !l.queue.put(queued{e, l.full.Load()}) {
		l.lost.Add(1)
	}
}

// Changed has the status written anew, soon. It waits for nothing.
func (l *Log) Changed() {
	select {
	case l.changed <- struct{}{}:
	default: // it will be anyway, or there is no folder
	}
}

// Writes reports whether events are written.
func (l *Log) Writes() bool { return l.queue != nil && !l.off.Load() }

// Lost is how many lines were not written: the queue was full, there was no room, no
// permission or no folder, or they were too long.
func (l *Log) Lost() int64 { return l.lost.Load() }

// Reconfigure changes what is recorded from now on: arguments in full, and anything at
// all. What is not to be recorded is not lost.
func (l *Log) Reconfigure(full, on bool) {
	l.full.Store(full)
	l.off.Store(!on)
}

// Flush returns when all that was added before is written, or cannot be. It waits no more
// than five seconds for the disk.
func (l *Log) Flush() { l.ask(nil) }

// Close writes what was added before, and ends the log. Events that are added later are
// given to Each and not written.
func (l *Log) Close() {
	l.close.Do(func() {
		end := Event{Kind: End, At: time.Now(), Process: l.process}
		l.each(end)
		l.closed.Store(true)
		l.ask(&end)
	})
}

// ask has the writer write what came before, and waits until that is done.
func (l *Log) ask(last *Event) {
	if l.queue == nil || last == nil && l.closed.Load() {
		return
	}
	timeout := time.After(l.patience)
	a := ask{last, make(chan struct{})}
	select {
	case l.asks <- a:
		select {
		case <-a.done:
			return
		case <-timeout:
		}
	case <-timeout:
	}
	l.logger.Warn("record: writing takes too long", "waited", l.patience)
}
