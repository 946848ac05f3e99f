package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/limit"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
)

// stateRecorder records what no single call shows: levels, harm, and how the limits and the
// store stand.
type stateRecorder struct {
	srv  *Server
	last atomic.Int64 // when it last did, in Unix ns

	mu    sync.Mutex
	state time.Time           // when the state was last recorded
	harm  speculate.HarmStats // as recorded
}

// How often it records, at most, while calls come.
const (
	observeEvery = time.Second
	stateEvery   = 10 * time.Second
)

// called has what has changed recorded, if that was not done just now. It is called with
// every call, and waits for nothing.
func (r *stateRecorder) called(now time.Time) {
	last := r.last.Load()
	if now.UnixNano()-last >= int64(observeEvery) && r.last.CompareAndSwap(last, now.UnixNano()) {
		r.srv.work.Go(func() { r.record(true) })
	}
}

// record records what has changed: prefetches whose fate is known, levels, harm, and, if it
// is wanted, how the limits and the store stand.
func (r *stateRecorder) record(state bool) {
	r.srv.recorder.recordPrefetches(false)
	for _, e := range r.changes(time.Now(), state) {
		r.srv.recorder.log.Add(e)
	}
}

// changes are the events of what has changed since they were last asked for.
func (r *stateRecorder) changes(now time.Time, state bool) (all []record.Event) {
	scheduler := r.srv.prefetch.Scheduler
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range scheduler.Changes() {
		if c.At.IsZero() {
			c.At = now
		}
		all = append(all, record.Event{Kind: record.Level, At: c.At, Host: c.Host, Session: c.Session, From: c.From, To: c.To, Why: c.Why})
	}
	harm := scheduler.Stats().Harm
	all = append(all, moreHarm(r.harm, harm, now)...)
	r.harm = harm
	if state && now.Sub(r.state) >= stateEvery {
		r.state = now
		all = append(all, r.srv.stateEvent(now))
	}
	return all
}

// stateEvent is how the limits and the store stand.
func (s *Server) stateEvent(now time.Time) record.Event {
	st := s.store.Stats()
	e := record.Event{Kind: record.State, At: now, Sessions: len(s.sessions.all()), Store: &record.Store{
		Entries: st.Entries, Bytes: st.Bytes, Evicted: st.Evicted, Displaced: st.Prefetch.Displaced,
	}}
	for _, h := range s.hosts() {
		e.Hosts = append(e.Hosts, h)
	}
	return e
}

// moreHarm are the events of the harm that was done between the two.
func moreHarm(before, now speculate.HarmStats, at time.Time) (all []record.Event) {
	for _, h := range []struct {
		why string
		n   int64
		ms  float64
	}{
		{"foreground_wait", 0, now.ForegroundWaitMS - before.ForegroundWaitMS},
		{"rate_limited", now.RateLimited - before.RateLimited, 0},
		{"eviction", now.Evictions - before.Evictions, 0},
		{"question", now.Questions - before.Questions, 0},
	} {
		if h.n > 0 || h.ms > 0 {
			all = append(all, record.Event{Kind: record.Harm, At: at, Why: h.why, LatencyMS: h.ms, Count: max(h.n, 1)})
		}
	}
	return all
}

// hosts says what every host allows at the moment.
func (s *Server) hosts() map[string]record.Host {
	p, levels, now := s.policy.Load(), s.prefetch.Scheduler.Stats().Hosts, time.Now()
	out := make(map[string]record.Host)
	for _, h := range s.limits.Stats() {
		out[h.Host] = hostNow(h, p.rule(h.Host), now)
	}
	for host, level := range levels {
		h := out[host]
		h.Host, h.Level = host, level
		out[host] = h
	}
	return out
}

func hostNow(h limit.HostStats, rule limit.Rule, now time.Time) record.Host {
	out := record.Host{
		Host: h.Host, Level: speculate.Normal, InFlight: h.InFlight, Waiting: h.Waiting, Limited: h.Limited,
		Rate: rule.Rate, Burst: rule.Burst, Concurrency: rule.Concurrency, Prefetches: h.LastHour, HarmMS: float64(h.HarmMS),
		CoolingMS: max(0, ms(h.CoolingUntil.Sub(now))),
	}
	if h.CoolingUntil.IsZero() {
		out.CoolingMS = 0
	}
	if h.Tokens != nil {
		out.Tokens = *h.Tokens
	}
	return out
}
