package speculate

import (
	"maps"
	"sync"

	"mcpschedd/internal/enrich"
)

// Figures are what the worker has counted.
type Figures struct {
	Candidates int64
	Declined   map[enrich.Reason]int64 // by reason
	Dropped    Drops                   // calls and answers that it was too slow for
	Panics     int64                   // each but those over what is kept ends a session's predictions
}

// Figures copies the counts out.
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

// figures are the counts of candidates.
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

// Held is what the worker holds for the sessions that there are; without any it is nothing.
type Held struct {
	Sessions  int // watched
	Waiting   int // candidates that wait for a slot
	Bytes     int // in the queue
	Instances int // of which it is kept what they have under way
}

// Held counts that once what was observed so far has been looked at. The worker must not
// have ended.
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
