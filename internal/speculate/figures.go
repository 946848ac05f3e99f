package speculate

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Figures are what the worker has counted.
type Figures struct {
	Candidates int64
	Declined   map[enrich.Reason]int64  // by reason
	Learned    map[string]predict.Stats // by upstream, as of its last answer
	Dropped    Drops                    // calls and answers that it was too slow for
	Panics     int64                    // each but those over what is kept ends a session's predictions
}

// Figures copies the counts out.
func (w *Worker) Figures() Figures {
	t := &w.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	return Figures{
		Candidates: t.candidates, Declined: maps.Clone(t.declined), Learned: maps.Clone(t.learned),
		Dropped: w.queue.drops(), Panics: w.faults.count(),
	}
}

// tally counts what was thought of.
type tally struct {
	log *slog.Logger

	mu         sync.Mutex
	candidates int64
	declined   map[enrich.Reason]int64
	learned    map[string]predict.Stats
}

func newTally(log *slog.Logger) tally {
	return tally{log: log, declined: make(map[enrich.Reason]int64), learned: make(map[string]predict.Stats)}
}

func (t *tally) found(candidates int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.candidates += int64(candidates)
}

func (t *tally) decline(why enrich.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.declined[why]++
}

// learn copies out, once a second at most, what there is to say of an upstream.
func (t *tally) learn(o *upstreamState, now time.Time) {
	if now.Sub(o.told) < time.Second {
		return
	}
	o.told = now
	for _, c := range o.model.Changes() {
		t.log.Debug("follow-up", "upstream", o.at.Name, "from", c.Trigger, "to", c.Target, "now", c.Why)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learned[o.at.Name] = o.model.Stats()
}

// forget drops what was said of an upstream that is there no more.
func (t *tally) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.learned, name)
}

// Held is what the worker holds for the sessions that there are; without any it is nothing.
type Held struct {
	Sessions  int // watched
	Waiting   int // candidates that wait for a slot
	Chained   int // prefetches under way that follow from a prefetch
	Bytes     int // in the queue
	Instances int // of which it is kept how many calls they have
}

// Held counts that once what was observed so far has been looked at. The worker must not
// have ended.
func (w *Worker) Held() (h Held) {
	done := make(chan struct{})
	w.queue.add(task{kept: true, do: func() {
		defer close(done)
		h.Sessions = len(w.sessions)
		for _, s := range w.sessions {
			for _, p := range s.pairs {
				h.Waiting += p.choose.Open()
				h.Chained += len(p.chained)
			}
		}
	}})
	<-done
	w.queue.mu.Lock()
	h.Bytes = w.queue.bytes
	w.queue.mu.Unlock()
	for range w.instances.byInstance.Range {
		h.Instances++
	}
	return h
}
