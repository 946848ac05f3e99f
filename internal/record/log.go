package record

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	randv2 "math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/excerpt"
)

// Options configure a [Log]. The zero value writes nothing.
type Options struct {
	Dir   string                        // folder of the logs; nothing is written if it is empty
	Full  bool                          // record arguments in full beside their hashes
	Off   bool                          // write no events until [Log.Reconfigure] allows it
	Key   []byte                        // HMAC key of the hashes; default: a random key for this process
	Scrub func(arguments []byte) []byte // removes secrets from a JSON object that is recorded in full; default: changes nothing
	Begin Event                         // first line of each file; Kind and V are set, PID and At if they are zero
	// Status returns the status of the process, except for the fields that FillStatus sets. It is
	// called soon after [Log.StatusChanged]. If it is nil, no status is written.
	Status func() Status
	Log    *slog.Logger // default: discards

	// OnEvent is called with every event, written or not, on the goroutine that adds it, and so
	// concurrently. The event has no hashes yet.
	OnEvent func(Event)

	RotateBytes int64         // size at which the next file begins; default 16 MiB
	KeepBytes   int64         // total size beyond which the oldest files are removed; default 512 MiB
	KeepAge     time.Duration // age at which a file is removed; default 30 days

	create func(path string) (*os.File, error) // creates a file; tests replace it
}

const (
	writeEvery = 100 * time.Millisecond // delay in which events and changes of the status are batched

	maxQueued          = 1 << 13  // events that wait to be written; more are lost
	maxQueuedArguments = 8 << 20  // bytes of their arguments, likewise
	maxLine            = 1 << 20  // bytes of a line
	maxArguments       = 64 << 10 // bytes of arguments that are brought into canonical form and recorded
)

// Log passes events to Options.OnEvent, and writes them in batches. Its methods are safe for
// concurrent use; [Log.Add] never waits for the disk.
type Log struct {
	o       Options // with defaults filled in
	lost    atomic.Int64
	off     atomic.Bool
	full    atomic.Bool
	timeout time.Duration // how long Flush and Close wait for the disk

	mu      sync.Mutex // held for a moment only
	queue   []Event
	queued  int  // bytes of the arguments in queue
	changed bool // the status must be written
	due     bool // a timer writes soon
	closed  bool

	writing sync.Mutex // held while the disk is used
	writer  *writer
}

// Open starts the log of this process. It never fails: lines that cannot be written are
// counted, and one warning is logged. No log file is created before the first event.
func Open(o Options) *Log {
	if o.Scrub == nil {
		o.Scrub = func(arguments []byte) []byte { return arguments }
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	if o.create == nil {
		o.create = create
	}
	if len(o.Key) == 0 {
		o.Key = []byte(rand.Text())
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.RotateBytes, o.KeepBytes, o.KeepAge = cmp.Or(o.RotateBytes, 16<<20), cmp.Or(o.KeepBytes, 512<<20), cmp.Or(o.KeepAge, 30*24*time.Hour)
	begin := &o.Begin
	begin.Kind, begin.V, begin.PID = Begin, Version, cmp.Or(begin.PID, os.Getpid())
	if begin.At.IsZero() {
		begin.At = time.Now()
	}
	// The name has a random part, since processes in different containers may have the same PID.
	begin.Process = fmt.Sprintf("%s-%d-%08x", begin.At.UTC().Format(stamp), begin.PID, randv2.Uint32())
	l := &Log{o: o, timeout: 5 * time.Second}
	l.off.Store(o.Off)
	l.full.Store(o.Full)
	l.o.OnEvent(o.Begin)
	l.writer = newWriter(l)
	l.StatusChanged()
	return l
}

// Add records an event. If too many wait to be written, the line is lost and counted.
func (l *Log) Add(e Event) {
	e.Process, e.Tool = l.o.Begin.Process, excerpt.Shorten(e.Tool, maxName)
	if e.Kind == Decision {
		e.Top = l.withDiffers(e.Top)
	}
	l.o.OnEvent(e)
	if !l.Writes() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	size := len(e.RawArguments)
	switch {
	case l.closed:
	case len(l.queue) >= maxQueued || size > 0 && l.queued+size > maxQueuedArguments:
		l.lost.Add(1)
	default:
		l.queue = append(l.queue, e)
		l.queued += size
		l.writeSoonLocked()
	}
}

func (l *Log) writeSoonLocked() {
	if !l.due && !l.closed && l.o.Dir != "" {
		l.due = true
		time.AfterFunc(writeEvery, l.write)
	}
}

// StatusChanged makes the status be written soon. It does not block.
func (l *Log) StatusChanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = !l.closed // else the status would be written again after the end
	l.writeSoonLocked()
}

// write writes the queued events, and the status if it has changed.
func (l *Log) write() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	events, changed := l.queue, l.changed
	l.queue, l.queued, l.changed, l.due = nil, 0, false, false
	l.mu.Unlock()
	for i := range events {
		l.writer.add(&events[i])
	}
	l.writer.write()
	if changed {
		l.writer.writeStatus()
	}
}

// Writes reports whether events are written.
func (l *Log) Writes() bool { return l.o.Dir != "" && !l.off.Load() }

// Lost returns the number of lines that were lost: too many waited to be written, the line was
// longer than 1 MiB, or it could not be written to the file.
func (l *Log) Lost() int64 { return l.lost.Load() }

// FillStatus sets the fields of a status that the log knows: those of the process, and the number
// of lost lines.
func (l *Log) FillStatus(s *Status) {
	s.Process, s.PID, s.Since = l.o.Begin.Process, l.o.Begin.PID, l.o.Begin.At
	s.Program, s.Transport, s.Dir, s.Lost = l.o.Begin.Program, l.o.Begin.Transport, l.o.Begin.Dir, l.Lost()
}

// Reconfigure replaces [Options].Full and Off from now on. Events added while writing is off do
// not count as lost.
func (l *Log) Reconfigure(full, off bool) {
	l.full.Store(full)
	l.off.Store(off)
}

// Flush waits until all events added before are written or lost, for five seconds at most.
func (l *Log) Flush() { l.await(l.write) }

// Close writes the events added before and ends the log. It waits for five seconds at most.
// Events added later are passed to OnEvent but not written.
func (l *Log) Close() {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return
	}
	end := Event{Kind: End, At: time.Now(), Process: l.o.Begin.Process}
	l.o.OnEvent(end)
	l.await(func() {
		l.write()
		l.writing.Lock()
		defer l.writing.Unlock()
		l.writer.end(&end)
	})
}

// await runs a function that uses the disk, and waits for its end or the timeout.
func (l *Log) await(use func()) {
	if l.o.Dir == "" {
		return
	}
	done := make(chan struct{})
	go func() {
		use()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(l.timeout):
		l.o.Log.Warn("record: writing takes too long", "waited", l.timeout)
	}
}
