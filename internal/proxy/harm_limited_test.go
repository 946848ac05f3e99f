package proxy_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
)

// quota allows a number of calls within any minute.
type quota struct {
	mu    sync.Mutex
	calls int
	times []time.Time
}

// takes reports whether one more call is within the quota.
func (q *quota) takes() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for len(q.times) > 0 && now.Sub(q.times[0]) >= time.Minute {
		q.times = q.times[1:]
	}
	if len(q.times) >= q.calls {
		return false
	}
	q.times = append(q.times, now)
	return true
}

// A server allows the client's calls and a few more. After a refusal of any form no prefetch is
// sent until the server's retry time, or 30 s, has passed and the server has answered a call. Each
// refusal of a prefetch, or of a call soon after one, is counted and costs one of three levels.
// Calls of clients are sent as always.
func TestHarmLimited(t *testing.T) {
	t.Parallel()
	const takes = 400 * time.Millisecond
	for _, test := range []struct {
		name    string
		refusal reply
		alone   time.Duration
	}{
		{"429", reply{status: http.StatusTooManyRequests}, 30 * time.Second},
		{"429 with a wait", reply{status: http.StatusTooManyRequests, retryAfter: "90"}, 90 * time.Second},
		{"503 with a wait", reply{status: http.StatusServiceUnavailable, retryAfter: "45"}, 45 * time.Second},
		{"in text", reply{result: complained("API rate limit exceeded")}, 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				bears := &quota{calls: 28} // the client makes at most 25
				var f *foe
				f = newFoe(func(v *visit) reply {
					if !bears.takes() {
						f.note(v, "refused")
						return test.refusal
					}
					v.sleeps(takes)
					return reply{result: v.told()}
				})
				d := beset(t, f, defaults(t, listing(t)...))
				g := d.enter()
				pages := soak(30)
				for p := range pages {
					for _, a := range g.skims(p + 1) {
						if a.took != 0 && a.took != takes {
							t.Errorf("page %d: a real call took %v", p+1, a.took)
						}
					}
				}
				ledger := f.ledger()
				leftAlone(t, ledger, test.alone)
				prefetches, real := refused(ledger)
				if counted, want := d.proxy.Stats().Prefetch.Harm.RateLimited, blamed(ledger); counted != want {
					t.Errorf("%d refusals count against prefetches, want %d: %d prefetches and %d calls were refused", counted, want, prefetches, real)
				}
				// At level 0, correct predictions raise the level again after 32 labels without harm. A page
				// gives at most three labels.
				episodes := 4 + 3*pages/32
				if prefetches > episodes {
					t.Errorf("%d prefetches were refused of %d, want at most %d", prefetches, len(early(ledger)), episodes)
				}
				// Until the minute is over, calls lack the quota that prefetches have used.
				if real == 0 || real > bears.calls+episodes {
					t.Errorf("%d real calls were refused, want some and at most %d", real, bears.calls+episodes)
				}
			})
		})
	}
}

// skims lists a page and reads one or two of its items, with pauses of two seconds.
func (g *guest) skims(p int) (all []answered) {
	all = append(all, g.call("list", page(p)))
	time.Sleep(2 * time.Second)
	for i := range perPage {
		if (p+i)%2 == 0 {
			all = append(all, g.call("get", thing(p, i)))
			time.Sleep(2 * time.Second)
		}
	}
	return all
}

// leftAlone checks that after a refusal no prefetch came before the cool-down was over and the
// server had answered a call.
func leftAlone(t *testing.T, ledger []visit, alone time.Duration) {
	t.Helper()
	for i := range ledger {
		prefetch := &ledger[i]
		if !prefetch.early {
			continue
		}
		var last time.Time
		for _, v := range ledger {
			if v.sort == "refused" && v.went.Before(prefetch.came) && v.went.After(last) {
				last = v.went
			}
		}
		well := last.IsZero()
		for _, v := range ledger {
			well = well || !v.early && v.sort == "" && !v.came.Before(last.Add(alone)) && !v.went.After(prefetch.came)
		}
		if !well {
			t.Errorf("a prefetch came %v after a refusal", prefetch.came.Sub(last))
		}
	}
}

// blamed counts the refusals that count against prefetches: those of prefetches, and the first
// refusal of a call within a minute after a prefetch.
func blamed(ledger []visit) (n int64) {
	type event struct {
		at      time.Time
		begins  bool // a prefetch; otherwise a refusal
		refused *visit
	}
	var events []event
	for i := range ledger {
		v := &ledger[i]
		if v.early {
			events = append(events, event{at: v.came, begins: true})
		}
		if v.sort == "refused" {
			events = append(events, event{at: v.went, refused: v})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	var prefetch time.Time // the last prefetch without a refusal after it; zero if none
	for _, e := range events {
		switch {
		case e.begins:
			prefetch = e.at
		case e.refused.early:
			n++
		default:
			if !prefetch.IsZero() && e.at.Sub(prefetch) < time.Minute {
				n++
			}
			prefetch = time.Time{}
		}
	}
	return n
}

// refused counts refused visits.
func refused(ledger []visit) (prefetches, real int) {
	for _, v := range ledger {
		switch {
		case v.sort != "refused":
		case v.early:
			prefetches++
		default:
			real++
		}
	}
	return prefetches, real
}

// A server that does one call at a time begins the call that has the slot of an asking one only when it has
// the client's reply. So a reply does not wait for a slot without end.
func TestReplyToASerialServer(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var f *foe
		f = newFoe(func(v *visit) reply {
			if v.tool == "write" {
				return reply{asks: elicits}
			}
			for i := 0; i < 60 && f.ledger()[0].went.IsZero(); i++ {
				v.sleeps(time.Second)
			}
			return reply{result: v.told()}
		})
		o := withoutPrefetch(defaults(t))
		o.Limits = map[string]limit.Rule{host: {Concurrency: 1}}
		g := beset(t, f, o).enter()
		asking, next := g.begin("write", `{}`), g.begin("get", thing(1, 0))
		if a := asking.wait(); a.took > 15*time.Second {
			t.Errorf("the asking call took %v", a.took)
		}
		next.wait()
	})
}
