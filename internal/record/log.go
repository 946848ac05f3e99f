package record

import (
	"cmp"
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
	Scrub func(arguments []byte) []byte // removes secrets from a JSON object that is recorded in full; default: changes nothing
	Begin Event                         // first line of each file; Kind and V are set, PID and At if they are zero
	// Status returns the status of the process, except for the fields that Begin has. The
	// writer goroutine calls it soon after [Log.Changed]. If it is nil, no status is written.
	Status func() Status
	Log    *slog.Logger // default: discards

	// Each is called with every event, written or not, on the goroutine that adds it, and so
	// concurrently. The event has no hashes yet.
	Each func(Event)

	RotateBytes int64         // size at which the next file begins; default 16 MiB
	RotateAge   time.Duration // age at which it begins; default 24 h
	KeepBytes   int64         // total size beyond which the oldest files are removed; default 512 MiB
	KeepAge     time.Duration // age at which a file is removed; default 30 days

	create func(path string) (*os.File, error) // creates a file; tests replace it
}

const (
	maxQueued          = 1 << 13  // events in the writer's queue; more are lost
	maxQueuedArguments = 8 << 20  // bytes of their arguments, likewise
	maxLine            = 1 << 20  // bytes of a line
	maxArguments       = 64 << 10 // bytes of arguments that are brought into canonical form and recorded
)

// Log passes events to Options.Each and to one goroutine that writes them. Its methods are safe
// for concurrent use; [Log.Add] never waits for the disk.
type Log struct {
	o       Options // with defaults filled in
	begin   Event
	lost    atomic.Int64
	off     atomic.Bool
	full    atomic.Bool
	changed atomic.Bool // the status must be written
	close   sync.Once
	timeout time.Duration // how long Flush and Close wait for the disk

	flushes chan flush
	ended   chan struct{} // closed when the writer has stopped
	wake    chan struct{} // capacity 1: there is something to write

	mu     sync.Mutex
	queue  []Event // a slice, since a channel would wake the writer for each event
	queued int     // bytes of the arguments in queue
}

// flush asks the writer to write all events queued before it.
type flush struct {
	last *Event        // last line of the log, after which the writer stops; nil for a flush
	done chan struct{} // closed when all events are written or lost
}

// Open starts the log of this process. It never fails: lines that cannot be written are
// counted, and one warning is logged. No log file is created before the first event.
func Open(o Options) *Log {
	if o.Scrub == nil {
		o.Scrub = func(arguments []byte) []byte { return arguments }
	}
	if o.Each == nil {
		o.Each = func(Event) {}
	}
	if o.create == nil {
		o.create = create
	}
	if len(o.Key) == 0 {
		o.Key = []byte(rand.Text())
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.RotateBytes, o.RotateAge = cmp.Or(o.RotateBytes, 16<<20), cmp.Or(o.RotateAge, 24*time.Hour)
	o.KeepBytes, o.KeepAge = cmp.Or(o.KeepBytes, 512<<20), cmp.Or(o.KeepAge, 30*24*time.Hour)
	l := &Log{
		o: o, begin: o.Begin, timeout: 5 * time.Second,
		flushes: make(chan flush), ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	l.begin.Kind, l.begin.V, l.begin.PID = Begin, Version, cmp.Or(l.begin.PID, os.Getpid())
	if l.begin.At.IsZero() {
		l.begin.At = time.Now()
	}
	l.begin.Process = processName(l.begin.At, l.begin.PID)
	l.off.Store(o.Off)
	l.full.Store(o.Full)
	l.o.Each(l.begin)
	if o.Dir != "" {
		l.Changed()
		go newWriter(l).run()
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
	e.Process = l.begin.Process
	if e.Kind == Choice {
		e.Top = l.withDiffers(e.Top)
	}
	l.o.Each(e)
	if l.Writes() && !l.put(&e) {
		l.lost.Add(1)
	}
}

// put queues an event and reports whether there was room. It wakes the writer for the first
// event of a batch only.
func (l *Log) put(e *Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := len(e.RawArguments)
	if len(l.queue) >= maxQueued || size > 0 && l.queued+size > maxQueuedArguments {
		return false
	}
	l.queue = append(l.queue, *e)
	l.queued += size
	if len(l.queue) == 1 {
		l.signal()
	}
	return true
}

func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// Changed makes the writer rewrite the status soon. It does not block.
func (l *Log) Changed() {
	l.changed.Store(true)
	l.signal()
}

// Writes reports whether events are written.
func (l *Log) Writes() bool { return l.o.Dir != "" && !l.off.Load() }

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
// Events added later are passed to Each but not written.
func (l *Log) Close() {
	l.close.Do(func() {
		end := Event{Kind: End, At: time.Now(), Process: l.begin.Process}
		l.o.Each(end)
		l.flush(&end)
	})
}

// flush asks the writer to write what is queued, and waits until it has.
func (l *Log) flush(last *Event) {
	if l.o.Dir == "" {
		return
	}
	timeout := time.After(l.timeout)
	f := flush{last, make(chan struct{})}
	select {
	case l.flushes <- f:
		select {
		case <-f.done:
			return
		case <-timeout:
		}
	case <-l.ended:
		return
	case <-timeout:
	}
	l.o.Log.Warn("record: writing takes too long", "waited", l.timeout)
}
