package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/events"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/telemetry"
)

// observer tells the record what no single call shows: levels, harm, and how the
// limits and the store stand.
type observer struct {
	glanced atomic.Int64 // when it last looked, in Unix ns

	mu    sync.Mutex
	state time.Time           // when the state was last told
	harm  speculate.HarmStats // that was told
	names map[int]string      // the desk's number of a session → its name in the record
}

// How often it looks, at most, while calls come.
const (
	observeEvery = time.Second
	stateEvery   = 10 * time.Second
)

// named says what the record calls a session of the desk's.
func (o *observer) named(number int, session string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names == nil {
		o.names = make(map[int]string)
	}
	o.names[number] = session
}

// gone forgets a session, once its changes were told.
func (o *observer) gone(number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.names, number)
}

// glance has the record told what has changed, if that was not done just now. It is
// asked with every call, and waits for nothing.
func (s *Server) glance(now time.Time) {
	last := s.observer.glanced.Load()
	if now.UnixNano()-last >= int64(observeEvery) && s.observer.glanced.CompareAndSwap(last, now.UnixNano()) {
		s.work.Go(func() { s.observe(true) })
	}
}

// observe tells the record what has changed: levels, harm, and, if it is wanted, how
// the limits and the store stand.
func (s *Server) observe(state bool) {
	for _, e := range s.observed(time.Now(), state) {
		s.events.Add(e)
	}
}

// observed is what there is to tell.
func (s *Server) observed(now time.Time, state bool) (all []events.Event) {
	o, desk := &s.observer, s.prefetcher.traffic.read()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range desk.Changes() {
		if c.At.IsZero() {
			c.At = now
		}
		all = append(all, events.Event{Kind: events.Level, At: c.At, Host: c.Host, Session: o.names[c.Session], From: c.From, To: c.To, Why: c.Why})
	}
	harm := desk.Stats().Harm
	all = append(all, moreHarm(o.harm, harm, now)...)
	o.harm = harm
	if state && now.Sub(o.state) >= stateEvery {
		o.state = now
		all = append(all, s.state(now))
	}
	return all
}

// state is how the limits and the store stand.
func (s *Server) state(now time.Time) events.Event {
	st := s.store.Stats()
	sessions := s.sessions.all()
	e := events.Event{Kind: events.State, At: now, Sessions: len(sessions), Store: &events.Store{
		Entries: st.Entries, Bytes: st.Bytes, Evicted: st.Evicted, Displaced: st.Prefetch.Displaced,
	}}
	for _, h := range s.hosts() {
		e.Hosts = append(e.Hosts, h)
	}
	return e
}

// moreHarm is the harm that was done between the two.
func moreHarm(told, now speculate.HarmStats, at time.Time) (all []events.Event) {
	for _, h := range []struct {
		why string
		n   int64
		ms  float64
	}{
		{"foreground_wait", 0, now.ForegroundWaitMS - told.ForegroundWaitMS},
		{"rate_limited", now.RateLimited - told.RateLimited, 0},
		{"eviction", now.Evictions - told.Evictions, 0},
		{"question", now.Questions - told.Questions, 0},
	} {
		if h.n > 0 || h.ms > 0 {
			all = append(all, events.Event{Kind: events.Harm, At: at, Why: h.why, LatencyMS: h.ms, Count: max(h.n, 1)})
		}
	}
	return all
}

// hosts says what every host allows at the moment.
func (s *Server) hosts() map[string]telemetry.Host {
	p, levels, now := s.policy.Load(), s.prefetcher.traffic.read().Stats().Hosts, time.Now()
	out := make(map[string]telemetry.Host)
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

func hostNow(h limit.HostStats, rule limit.Rule, now time.Time) telemetry.Host {
	out := telemetry.Host{
		Host: h.Host, Level: speculate.Normal, InFlight: h.InFlight, Waiting: h.Waiting, Limited: h.Limited,
		Rate: rule.Rate, Burst: rule.Burst, Concurrency: rule.Concurrency, Guesses: h.LastHour, HarmMS: float64(h.HarmMS),
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
