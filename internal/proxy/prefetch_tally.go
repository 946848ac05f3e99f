package proxy

import (
	"maps"
	"sync"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// tally counts what was thought of.
type tally struct {
	mu         sync.Mutex
	candidates int64
	declined   map[enrich.Reason]int64
	learned    map[string]predict.Stats // by upstream, as of the last choice
}

func (t *tally) found(candidates int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.candidates += int64(candidates)
}

func (t *tally) decline(why enrich.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.declined == nil {
		t.declined = make(map[enrich.Reason]int64)
	}
	t.declined[why]++
}

// learn copies out, once a second at most, what there is to say of an upstream.
func (t *tally) learn(o *upstreamState, now time.Time) {
	if now.Sub(o.told) < time.Second {
		return
	}
	o.told = now
	for _, c := range o.forecast.Changes() {
		o.srv.log.Debug("follow-up", "upstream", o.at.Name(), "from", c.Trigger, "to", c.Target, "now", c.Why)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.learned == nil {
		t.learned = make(map[string]predict.Stats)
	}
	t.learned[o.at.Name()] = o.forecast.Stats()
}

// forget drops what was said of upstreams that are there no more.
func (t *tally) forget(gone func(name string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.learned, func(name string, _ predict.Stats) bool { return gone(name) })
}
