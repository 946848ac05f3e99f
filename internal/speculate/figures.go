package speculate

import (
	"maps"
	"sync"

	"mcpschedd/internal/enrich"
)

// Figures are the worker's counts.
type Figures struct {
	Candidates int64
	Declined   map[enrich.Reason]int64 // by reason
	Dropped    Drops                   // calls and answers that were not handled
	Panics     int64                   // each one disables prediction for a session, except in saving learned state
}

// Figures returns a snapshot of the counts.
func (w *Worker) Figures() Figures {
	f := &w.figures
	f.mu.Lock()
	defer f.mu.Unlock()
	out := Figures{Candidates: f.candidates, Declined: maps.Clone(f.declined), Panics: w.faults.count()}
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	out.Dropped = w.queue.dropped
	return out
}

// figures count candidates.
type figures struct {
	mu         sync.Mutex
	candidates int64
	declined   map[enrich.Reason]int64
}

func (f *figures) found(candidates int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.candidates += int64(candidates)
}

func (f *figures) decline(why enrich.Reason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.declined[why]++
}

// Held is what the worker holds for open sessions; without any, all of it is zero.
type Held struct {
	Sessions  int // observed
	Waiting   int // candidates waiting for a slot
	Bytes     int // in the queue
	Instances int // with calls in progress or evidence
}

// Held returns it after all queued events have been handled. The worker must not have been closed.
func (w *Worker) Held() (h Held) {
	done := make(chan struct{})
	w.queue.add(task{required: true, do: func() {
		defer close(done)
		h.Sessions = len(w.sessions)
		for _, s := range w.sessions {
			for _, p := range s.pairs {
				h.Waiting += p.choose.Open()
			}
		}
	}})
	<-done
	w.queue.mu.Lock()
	h.Bytes = w.queue.bytes
	w.queue.mu.Unlock()
	w.Scheduler.mu.Lock()
	defer w.Scheduler.mu.Unlock()
	h.Instances = w.Scheduler.instances.Len()
	return h
}
