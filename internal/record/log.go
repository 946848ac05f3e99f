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

// Options configure a [Log]. The zero value writes nothing.
type Options struct {
	Dir   string                        // folder of the logs; nothing is written if it is empty
	Full  bool                          // record arguments in full beside their hashes
	Off   bool                          // write no events until [Log.Reconfigure] turns them on
	Key   []byte                        // HMAC key of the hashes; default: a random key for this process
	Scrub func(arguments []byte) []byte // removes secrets from a JSON object that is recorded in full; nil changes nothing
	Begin Event                         // first line of each file; Kind and V are set, PID and At if they are zero
	// Status returns the status of the process, except for the fields that Begin has. The
	// writer goroutine calls it soon after [Log.Changed]. If it is nil, no status is written.
	Status func() Status
	Log    *slog.Logger // default: discards

	// Each is called with every event, written or not, on the goroutine that adds it, and so
	// concurrently. The event has no hashes yet.
	Each func(Event)

	RotateBytes int64         // maximum size of a file; default 16 MiB
	RotateAge   time.Duration // maximum age of the file being written; default 24 h
	KeepBytes   int64         // total size of files no longer written, beyond which the oldest are removed; default 512 MiB
	KeepAge     time.Duration // age at which such a file is removed, unless all seem older; default 30 days

	create func(path string) (*os.File, error) // creates a file; tests replace it
}

const (
	maxQueued          = 1 << 13  // events in the writer's queue; more are lost
	maxQueuedArguments = 8 << 20  // bytes of their arguments, likewise
	batch              = 1 << 8   // queued events, or KiB of their arguments, that are written without further delay
	maxLine            = 1 << 20  // bytes of a line
	maxArguments       = 64 << 10 // bytes of arguments that are hashed and recorded
)

// Log passes events to Options.Each and to one goroutine that writes them. Its methods are safe
// for concurrent use; [Log.Add] never waits for the disk.
type Log struct {
	process string
	each    func(Event)
	logger  *slog.Logger
	queue   *queue            // to the writer; nil without a folder
	flushes chan flushRequest // nil without a folder
	changed chan struct{}     // capacity 1; signals a changed status; nil without a folder
	lost    atomic.Int64
	off     atomic.Bool
	full    atomic.Bool
	closed  atomic.Bool
	close   sync.Once
	timeout time.Duration // how long Flush and Close wait for the disk
	scrub   func([]byte) []byte
}

// flushRequest asks the writer to write all events queued before it.
type flushRequest struct {
	last *Event        // last line of the log, after which the writer stops; nil for a flush
	done chan struct{} // closed when all events are written or lost
}

// Open starts the log of this process. It never fails: lines that cannot be written are
// counted, and one warning is logged. No log file is created before the first event.
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
	l := &Log{process: begin.Process, each: o.Each, logger: o.Log, timeout: 5 * time.Second, scrub: o.Scrub}
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
		l.queue, l.flushes, l.changed = newQueue(), make(chan flushRequest), make(chan struct{}, 1)
		go newWriter(o, &begin, l).run()
	}
	return l
}

// processName returns a name for a process. It has a random part, since processes in different
// containers may have the same PID.
func processName(began time.Time, pid int) string {
	var random [4]byte
	rand.Read(random[:])
	return began.UTC().Format(stamp) + "-" + strconv.Itoa(pid) + "-" + hex.EncodeToString(random[:])
}

// Add records an event. If the writer's queue is full, the line is lost and counted.
func (l *Log) Add(e Event) {
	e.Process = l.process
	if e.Kind == Choice {
		e.Top = l.withDiffers(e.Top)
	}
	l.each(e)
	if !l.Writes() {
		return
	}
	if l.closed.Load() || !l.queue.put(queued{e, l.full.Load()}) {
		l.lost.Add(1)
	}
}

// Changed makes the writer rewrite the status soon. It does not block.
func (l *Log) Changed() {
	select {
	case l.changed <- struct{}{}:
	default: // a rewrite is pending, or there is no writer
	}
}

// Writes reports whether events are written.
func (l *Log) Writes() bool { return l.queue != nil && !l.off.Load() }

// Lost returns the number of lines that were not written: the queue was full, the line was too
// long, or the disk or folder did not accept it.
func (l *Log) Lost() int64 { return l.lost.Load() }

// Reconfigure sets whether events are written from now on, and whether with full arguments.
// Events added while writing is off do not count as lost.
func (l *Log) Reconfigure(full, on bool) {
	l.full.Store(full)
	l.off.Store(!on)
}

// Flush waits until all events added before are written or lost, for five seconds at most.
func (l *Log) Flush() { l.flush(nil) }

// Close writes the events added before and ends the log. It waits for five seconds at most.
// Events added later are passed to Each but count as lost.
func (l *Log) Close() {
	l.close.Do(func() {
		end := Event{Kind: End, At: time.Now(), Process: l.process}
		l.each(end)
		l.closed.Store(true)
		l.flush(&end)
	})
}

// flush sends a flushRequest and waits until it is done.
func (l *Log) flush(last *Event) {
	if l.queue == nil || last == nil && l.closed.Load() {
		return
	}
	timeout := time.After(l.timeout)
	a := flushRequest{last, make(chan struct{})}
	select {
	case l.flushes <- a:
		select {
		case <-a.done:
			return
		case <-timeout:
		}
	case <-timeout:
	}
	l.logger.Warn("record: writing takes too long", "waited", l.timeout)
}
