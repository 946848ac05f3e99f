package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
)

const (
	lease = 10 * time.Second      // how long an absent replica still counts as present
	slow  = 10 * time.Millisecond // longest delay of a request or a reply
)

// bucket is the shared state of one host.
type bucket struct {
	rule  limit.Rule
	known int // number of replicas

	mu     sync.Mutex
	gone   int // absent replicas
	tokens float64
	at     time.Time
	began  []time.Time // of prefetches in the last hour
}

// settle adds the tokens that have arrived.
func (b *bucket) settle() (now time.Time) {
	now = time.Now()
	there := float64(b.known-b.gone) / float64(b.known)
	b.tokens = min(max(1, there*float64(b.rule.Burst)), b.tokens+there*b.rule.Rate*now.Sub(b.at).Seconds())
	b.at = now
	return now
}

// part makes some replicas absent or present.
func (b *bucket) part(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	b.gone += n
	b.settle()
}

func (b *bucket) grant(a limit.TokenRequest) (g limit.Grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.settle()
	if a.MaxPerHour > 0 {
		b.began = slices.DeleteFunc(b.began, func(t time.Time) bool { return now.Sub(t) >= time.Hour })
		if len(b.began) >= a.MaxPerHour {
			return limit.Grant{QuotaWait: b.began[0].Add(time.Hour).Sub(now)}
		}
	}
	switch {
	case a.Calls > 0:
		g.Tokens = max(0, min(a.Calls, int(math.Floor(b.tokens+a.Rate*limit.MaxAhead.Seconds()))))
	case a.Rate == 0 || b.tokens >= a.MinTokens:
		g.Tokens = 1
	}
	if a.Rate > 0 {
		b.tokens -= float64(g.Tokens)
		g.Left = b.tokens
	}
	if a.MaxPerHour > 0 && g.Tokens > 0 {
		b.began = append(b.began, now)
	}
	return g
}

// sharing is a replica that takes from a bucket.
type sharing struct {
	*limit.Hosts
	book   *ledger // its own calls
	bucket *bucket

	mu  sync.Mutex
	rnd *rand.Rand
	cut bool
}

// share starts n replicas that share a bucket under a rule.
func share(t *testing.T, n int, seed uint64, rule limit.Rule) []*sharing {
	b := &bucket{rule: rule, known: n, tokens: float64(rule.Burst), at: time.Now()}
	all := make([]*sharing, n)
	for i := range all {
		s := &sharing{Hosts: limit.New(map[string]limit.Rule{github: rule}), book: &ledger{t: t, start: time.Now()}, bucket: b, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		s.SetShared(func(a limit.TokenRequest) (g limit.Grant, err error) {
			if s.lost() {
				return g, errCut
			}
			if g = b.grant(a); s.lost() {
				return limit.Grant{}, errCut
			}
			return g, nil
		})
		s.SetReplicas(n, false)
		all[i] = s
	}
	return all
}

var errCut = errors.New("cut off")

// lost waits for the delay of a message, and reports whether the message was lost.
func (s *sharing) lost() bool {
	s.mu.Lock()
	took := time.Duration(s.rnd.Int64N(int64(slow)))
	s.mu.Unlock()
	time.Sleep(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

// cutFor partitions a replica for a while.
func (s *sharing) cutFor(d time.Duration) {
	set := func(cut bool) { s.mu.Lock(); s.cut = cut; s.mu.Unlock() }
	set(true)
	n := s.bucket.known
	if d < 2*lease {
		time.Sleep(d)
		set(false)
		return
	}
	time.Sleep(lease)
	s.bucket.part(1)
	time.Sleep(lease / 5)
	s.SetReplicas(n, true)
	time.Sleep(d - lease - lease/5)
	set(false)
	s.lost()
	s.bucket.part(-1)
	s.lost()
	s.SetReplicas(n, false)
}

// keeps fails if in any time span more calls of all replicas began than the rule allows. It returns
// how many began.
func keeps(t *testing.T, all []*sharing, rule limit.Rule) (n int) {
	t.Helper()
	var began []time.Duration
	for _, s := range all {
		s.book.check()
		began = append(began, s.book.prefetches...)
		for _, r := range s.book.real {
			if r.entered {
				began = append(began, r.to)
			}
		}
	}
	slices.Sort(began)
	full := float64(rule.Burst) + rule.Rate*(2*slow).Seconds() // two tokens may have different delays
	left, last := full, time.Duration(0)
	for i, at := range began {
		left = min(full, left+rule.Rate*(at-last).Seconds()) - 1
		if last = at; left < -1e-6 {
			t.Fatalf("call %d, at %v: too many have begun, by %v", i, at, -left)
		}
	}
	return len(began)
}

// TestReplicasKeepToRule: all replicas together keep to a rule, however often one is partitioned.
func TestReplicasKeepToRule(t *testing.T) {
	runs := 4
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		runs = 40
	}
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				rule := []limit.Rule{{Rate: 10, Burst: 10}, {Rate: 3, Burst: 12, SpeculativePerHour: 60}}[i%2]
				all := share(t, 3, uint64(i), rule)
				var calls sync.WaitGroup
				for nth, s := range all {
					rnd := rand.New(rand.NewPCG(uint64(i), uint64(nth)))
					calls.Go(func() {
						for s.book.now() < 4*time.Minute {
							seed := rnd.Uint64()
							calls.Go(func() { s.book.call(s.Hosts, rand.New(rand.NewPCG(seed, 2))) })
							pauses := []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second}
							time.Sleep(1 + time.Duration(rnd.Int64N(int64(pauses[rnd.IntN(9)/4]))))
						}
					})
				}
				calls.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(i), 9))
					for all[0].book.now() < 3*time.Minute {
						time.Sleep(time.Duration(rnd.Int64N(int64(20 * time.Second))))
						all[rnd.IntN(3)].cutFor(time.Duration(rnd.Int64N(int64(time.Minute))))
					}
				})
				calls.Wait()
				time.Sleep(time.Second) // until the last replies have arrived
				if n := keeps(t, all, rule); n < 300 {
					t.Errorf("%d calls: the test proves little", n)
				}
			})
		})
	}
}

// saturate keeps more calls waiting at a replica than can begin, until ctx ends.
func (s *sharing) saturate(ctx context.Context, calls *sync.WaitGroup) {
	for range 20 {
		calls.Go(func() {
			for ctx.Err() == nil {
				from := s.book.now()
				slot, err := s.Enter(ctx, github)
				s.book.enters(from, true, err == nil)
				if err == nil {
					s.book.leaves(slot, limit.Outcome{})
				}
			}
		})
	}
}

// TestReplicasUseUpRate: a single busy replica gets all of a rate; several get about equal parts.
func TestReplicasUseUpRate(t *testing.T) {
	for _, rule := range []limit.Rule{{Rate: 10, Burst: 10}, {Rate: 0.5, Burst: 1}, {Rate: 500, Burst: 20}, {Rate: 10, Burst: 10, Concurrency: 6}} {
		for _, busy := range []int{1, 3} {
			t.Run(fmt.Sprintf("%+v busy %d", rule, busy), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					all := share(t, 3, 1, rule)
					long := time.Duration(1200 / rule.Rate * float64(time.Second))
					ctx, cancel := context.WithTimeout(t.Context(), long)
					defer cancel()
					var calls sync.WaitGroup
					for _, s := range all[:busy] {
						s.saturate(ctx, &calls)
					}
					calls.Wait()
					time.Sleep(time.Second)
					n, want := keeps(t, all, rule), rule.Rate*long.Seconds()
					if float64(n) < 0.99*want {
						t.Errorf("%d calls began, want %v", n, want)
					}
					for i, s := range all[:busy] {
						if got := float64(len(s.book.real)-20) / want; got < 0.5/float64(busy) {
							t.Errorf("replica %d of %d had %.2f of the calls", i, busy, got)
						}
					}
				})
			})
		}
	}
}

// TestReplicasShareQuota: prefetches of all replicas are counted together, and a partitioned replica
// makes none.
func TestReplicasShareQuota(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rule := limit.Rule{SpeculativePerHour: 30}
		all := share(t, 3, 1, rule)
		began := 0
		for i := range 60 {
			if slot, err := all[i%2].EnterSpare(t.Context(), github, nil); err == nil {
				slot.Leave(good)
				began++
			}
		}
		if began != 30 {
			t.Errorf("%d prefetches began, want 30", began)
		}
		wantRefused(t, all[0].Hosts, github, limit.ErrQuota)
		if _, err := all[2].EnterSpare(t.Context(), github, nil); err != limit.ErrQuota {
			t.Errorf("a replica without prefetches: got %v, want ErrQuota", err)
		}
		enter(t, all[2].Hosts, github).Leave(good)
		time.Sleep(time.Hour)
		wantRefused(t, all[0].Hosts, github, nil)
		all[0].SetReplicas(3, true)
		wantRefused(t, all[0].Hosts, github, limit.ErrQuota)
		wantRefused(t, all[0].Hosts, "gitlab.com", limit.ErrQuota)
		wantRefused(t, all[0].Hosts, "upstream:files", nil)
	})
}
