package valkey_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/limit"
	"mcpschedd/internal/valkey"
)

// pacer has the limits of hosts at one replica.
type pacer struct {
	*limit.Hosts
	cable *cable
	apart atomic.Bool
	known atomic.Int64 // number of replicas

	began atomic.Int64 // number of calls
}

const limitedHost = "api.example.com"

// pacers starts three replicas with a rule, each with its own cable.
func pacers(t *testing.T, at *store, lease time.Duration, rule limit.Rule) []*pacer {
	const n = 3
	var all []*pacer
	for range n {
		p := &pacer{Hosts: limit.New(map[string]limit.Rule{"*": rule}), cable: newCable(t, at.addr)}
		s, err := valkey.New(valkey.Options{URL: "valkey://" + p.cable.addr(), Lease: lease, WriteSettle: shortSettle})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		p.SetShared(s.Take)
		s.WatchCount(func(n int, apart bool) {
			p.SetReplicas(n, apart)
			p.apart.Store(apart)
			p.known.Store(int64(n))
		})
		all = append(all, p)
	}
	for _, p := range all { // each must know the others, as a partitioned replica divides the rate by their number
		waitUntil(t, "each knows all", func() bool { return p.known.Load() >= int64(n) })
	}
	return all
}

// saturate keeps 30 calls waiting, more than can begin, until ctx ends.
func (p *pacer) saturate(ctx context.Context, calls *sync.WaitGroup) {
	for range 30 {
		calls.Go(func() {
			for {
				slot, err := p.Enter(ctx, limitedHost)
				if err != nil {
					return
				}
				p.began.Add(1)
				slot.Leave(limit.Outcome{})
			}
		})
	}
}

// TestPaceOfAll: busy replicas together keep to the rate of a host, also while one is partitioned
// and continues.
func TestPaceOfAll(t *testing.T) {
	t.Parallel()
	rule := limit.Rule{Rate: 200, Burst: 30}
	all := pacers(t, startServer(t), shortLease, rule)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := time.Now()
	var calls sync.WaitGroup
	for _, p := range all {
		p.saturate(ctx, &calls)
	}
	for _, p := range []*pacer{all[rand.IntN(3)], all[rand.IntN(3)]} {
		time.Sleep(rand.N(500 * time.Millisecond))
		p.cable.setCut(true)
		waitUntil(t, "it is apart", p.apart.Load)
		before := p.began.Load()
		waitUntil(t, "it goes on", func() bool { return p.began.Load() > before+cutOff })
		p.cable.setCut(false)
		waitUntil(t, "it is back", func() bool { return !p.apart.Load() })
	}
	time.Sleep(500 * time.Millisecond)
	cancel()
	calls.Wait()
	// A token may be granted MaxAhead before its time. A replica that is connected again uses its
	// part of the rate until it has noticed.
	const hears = 500 * time.Millisecond
	most := float64(rule.Burst) + rule.Rate*(time.Since(start)+limit.MaxAhead+2*hears/3).Seconds()
	total := all[0].began.Load() + all[1].began.Load() + all[2].began.Load()
	if float64(total) > most {
		t.Errorf("too many have begun: %d calls, want at most %v", total, most)
	}
	if float64(total) < most/2 {
		t.Errorf("%d calls began, want at least half of %v", total, most)
	}
}

// cutOff is how many calls a partitioned replica has to begin: its part of the rate in 1.5 s. The
// other replicas leave at least that much to it.
const cutOff = 100

// TestQuotaOfAll: all replicas together make exactly as many prefetches as the quota allows, also
// after all were restarted.
func TestQuotaOfAll(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	var began atomic.Int64
	for range 2 {
		var tries sync.WaitGroup
		for _, p := range pacers(t, at, longLease, limit.Rule{SpeculativePerHour: 10, Rate: 1e6, Burst: 1e6}) {
			for range 6 {
				tries.Go(func() {
					if slot, err := p.EnterSpare(t.Context(), limitedHost, nil); err == nil {
						began.Add(1)
						slot.Leave(limit.Outcome{})
					} else if err != limit.ErrQuota {
						t.Error(err)
					}
				})
			}
		}
		tries.Wait()
		if got := began.Load(); got != 10 {
			t.Errorf("%d prefetches began, want 10", got)
		}
	}
}

// TestEmptyBucket: a bucket is empty after the server was restarted, and after a replica was
// connected again that has used its part of the rate while it was partitioned.
func TestEmptyBucket(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	s := shared(t, "valkey://"+at.addr)
	s.WatchCount(func(int, bool) {})
	gives := func(when string, least, most int) {
		t.Helper()
		got, err := limit.Grant{}, error(nil)
		waitUntil(t, "it is counted", func() bool {
			got, err = s.Take(limit.TokenRequest{Host: limitedHost, Rate: 0.1, Burst: 50, Calls: 50})
			return err == nil
		})
		if got.Tokens < least || got.Tokens > most {
			t.Errorf("%s: %d tokens, want %d to %d", when, got.Tokens, least, most)
		}
	}
	gives("at first", 0, 10)
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:l:*')) do redis.call('DEL', k) end for _, k in ipairs(redis.call('KEYS', '*:open')) do redis.call('SET', k, 1) end return 1", "0")
	at.command(t, "SET", "mcpschedd:back", "1")
	gives("long after", 50, 50)
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:l:*')) do redis.call('SET', k, '1 50') end return redis.call('SET', 'mcpschedd:back', redis.call('TIME')[1] * 1000)", "0")
	gives("when a replica has come back", 0, 10)
}

// TestLimitsOutliveEviction: a server that evicts keys with a TTL keeps a host's bucket and its count
// of prefetches.
func TestLimitsOutliveEviction(t *testing.T) {
	t.Parallel()
	at := startServer(t, "--maxmemory-policy", "volatile-ttl")
	s := shared(t, "valkey://"+at.addr)
	s.WatchCount(func(int, bool) {})
	take := func() (g limit.Grant) {
		t.Helper()
		waitUntil(t, "it is counted", func() (counted bool) {
			var err error
			g, err = s.Take(limit.TokenRequest{Host: limitedHost, Rate: 1e-3, Burst: 50, MaxPerHour: 1})
			return err == nil
		})
		return g
	}
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:open')) do redis.call('SET', k, 1) end return 1", "0") // the bucket is full
	if g := take(); g.Tokens != 1 || g.QuotaWait > 0 {
		t.Fatalf("got %+v, want a prefetch", g)
	}
	at.command(t, "CONFIG", "SET", "maxmemory", "1")
	_, _ = at.try("SET", "x", "1") // refused after everything that may be evicted was
	at.command(t, "CONFIG", "SET", "maxmemory", "0")
	if g := take(); g.QuotaWait <= 0 {
		t.Errorf("got %+v after an eviction, want none above the quota", g)
	}
	if got, err := s.Take(limit.TokenRequest{Host: limitedHost, Rate: 1e-3, Burst: 50, Calls: 50}); err != nil || got.Tokens != 49 {
		t.Errorf("got %+v (%v) after an eviction, want the 49 tokens that are left", got, err)
	}
}
