package proxy

import (
	"sync"
	"time"

	"mcpschedd/internal/events"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/telemetry"
)

// observer tells the record what no single call shows: levels, harm, and how the
// limits and the store stand.
type observer struct {
	mu    sync.Mutex
	at    time.Time           // when it last looked
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

// observe tells the record what has changed, if it was not told just now, or is to be
// told in any case.
func (s *Server) observe(always bool) {
	o, now := &s.observer, time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !always && now.Sub(o.at) < observeEvery {
		return
	}
	o.at = now
	desk := s.foresight.desk
	for _, c := range desk.Changes() {
		at := c.At
		if at.IsZero() {
			at = now
		}
		s.events.Add(events.Event{Kind: events.Level, At: at, Host: c.Host, Session: o.names[c.Session], From: c.From, To: c.To, Why: c.Why})
	}
	s.tellHarmLocked(desk.Stats().Harm, now)
	if now.Sub(o.state) >= stateEvery {
		o.state = now
		st := s.store.Stats()
		sessions, _ := s.all()
		e := events.Event{Kind: events.State, At: now, Sessions: len(sessions), Store: &events.Store{
			Entries: st.Entries, Bytes: st.Bytes, Evicted: st.Evicted, Displaced: st.Prefetch.Displaced,
		}}
		for _, h := range s.hosts() {
			e.Hosts = append(e.Hosts, h)
		}
		s.events.Add(e)
	}
}

// tellHarmLocked records the harm that was done since it was last told.
func (s *Server) tellHarmLocked(now speculate.HarmStats, at time.Time) {
	told := s.observer.harm
	s.observer.harm = now
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
			s.events.Add(events.Event{Kind: events.Harm, At: at, Why: h.why, LatencyMS: h.ms, Count: max(h.n, 1)})
		}
	}
}

// hosts says what every host allows at the moment.
func (s *Server) hosts() map[string]telemetry.Host {
	p, levels, now := s.policy.Load(), s.foresight.desk.Stats().Hosts, time.Now()
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

// rule is what the operator says of a host.
func (p *policy) rule(host string) limit.Rule {
	if r, ok := p.Limits[host]; ok {
		return r
	}
	return p.Limits["*"]
}
