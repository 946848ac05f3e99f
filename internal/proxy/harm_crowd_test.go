package proxy_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
)

// visitor is a client over HTTP with its own session.
type visitor struct {
	d   *ordeal
	id  string
	ids int
}

// visit opens a session over HTTP.
func (d *ordeal) visit() *visitor {
	v := &visitor{d: d}
	r := v.post(d.t.Context(), `"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":`+able+`,"clientInfo":{"name":"visitor","version":"1"}}`)
	v.id = r.Header.Get("Mcp-Session-Id")
	r.Body.Close()
	v.call(d.t.Context(), "tools/list", "{}")
	return v
}

// post sends a message over HTTP. It returns nil if ctx ended before the response.
func (d *ordeal) post(ctx context.Context, body string, header ...string) *http.Response {
	f := &mcptest.WebClient{T: d.t, URL: "http://localhost"}
	answer, err := d.web.Do(f.Request(http.MethodPost, "/mcp", body, header...).WithContext(ctx))
	if err == nil {
		return answer
	}
	if ctx.Err() == nil {
		d.t.Errorf("post: %v", err)
	}
	return nil
}

// post sends a request.
func (v *visitor) post(ctx context.Context, rest string) *http.Response {
	v.ids++
	var header []string
	if v.id != "" {
		header = []string{"Mcp-Session-Id", v.id}
	}
	return v.d.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, v.ids, rest), header...)
}

// call makes a request and reads its answer.
func (v *visitor) call(ctx context.Context, method, params string) string {
	v.d.account.note(method, params)
	r := v.post(ctx, `"method":"`+method+`","params":`+params)
	if r == nil {
		v.d.account.lost.Add(1)
		return ""
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil && ctx.Err() == nil {
		v.d.t.Errorf("%s: %v", method, err)
	}
	return string(body)
}

// ends ends the session with a DELETE.
func (v *visitor) ends() {
	f := &mcptest.WebClient{T: v.d.t, URL: "http://localhost", Client: v.d.web}
	f.Do(f.Request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", v.id)).Body.Close()
}

// strolls reads some pages and some of their items. It sometimes disconnects before a response.
func (v *visitor) strolls(r *rand.Rand, pages int) {
	pause := func() { time.Sleep(10*time.Millisecond + time.Duration(r.ExpFloat64()*float64(2*time.Second))) }
	for range pages {
		p := r.IntN(400) + 1
		pause()
		v.call(v.d.t.Context(), "tools/call", toolCall("list", page(p)))
		for i := range perPage {
			if r.IntN(3) == 0 {
				continue
			}
			pause()
			ctx, cancel := context.WithCancel(v.d.t.Context())
			if r.IntN(8) == 0 {
				time.AfterFunc(time.Duration(r.Int64N(int64(time.Second))), cancel)
			}
			v.call(ctx, "tools/call", toolCall("get", thing(p, i)))
			cancel()
		}
	}
}

// With two hundred concurrent sessions, the limits hold for all of them together, the prefetches
// of a session end with it, and nothing is left.
func TestHarmCrowd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		sessions   int
		make       func(proxy.Options) proxy.Options
		prefetches int // maximum at a time
	}{
		{"each for itself", slice(100, 200), func(o proxy.Options) proxy.Options {
			o.Upstreams[0].Spec.Shared = true
			return o
		}, 4},
		{"one principal", slice(60, 100), onePrincipal, 4},
		{"each with a connection of its own, to a host that bears a thousand calls", slice(30, 50), func(o proxy.Options) proxy.Options {
			o.Limits = map[string]limit.Rule{host: {Concurrency: 1000, SpeculativePerHour: 100_000}}
			return o
		}, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFoe(taking(700 * time.Millisecond))
				o := test.make(defaults(t, listing(t)...))
				o.HTTP.MaxSessions = 4 * test.sessions // a quarter of them may be open
				d := beset(t, f, o)
				var visitors []*visitor
				for range test.sessions {
					visitors = append(visitors, d.visit())
				}
				sideBySide(visitors, func(i int, v *visitor) {
					v.strolls(rand.New(rand.NewPCG(uint64(i), 200)), soak(1))
					v.ends()
				})
				synctest.Wait()
				if n := atOnce(f.ledger()); n == 0 || n > test.prefetches {
					t.Errorf("%d prefetches at once, want at least one and at most %d", n, test.prefetches)
				}
				if st := d.proxy.Stats(); st.Sessions != 0 || st.Store.Flights != 0 || test.prefetches == 4 && st.Hosts[0].LastHour > 200 {
					t.Errorf("%d sessions, %d flights, %d prefetches in an hour", st.Sessions, st.Store.Flights, st.Hosts[0].LastHour)
				}
			})
		})
	}
}

// Sessions that have ended use no memory, neither for their state nor for their prefetches.
func TestHarmCrowdIsForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(taking(200 * time.Millisecond))
		o := defaults(t, listing(t)...)
		o.Upstreams[0].Spec.Shared = true
		o.Record.OnEvent = func(record.Event) {} // an account would grow with every call
		d := beset(t, f, o)
		used := func() uint64 {
			f.mu.Lock()
			f.visits = nil
			f.mu.Unlock()
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		round := func(nth int) uint64 {
			for i := range soak(30) {
				v := d.visit()
				v.call(t.Context(), "tools/call", toolCall("list", page(1+i%10)))
				time.Sleep(time.Second)
				v.call(t.Context(), "tools/call", toolCall("get", thing(1+i%10, 0)))
				v.ends()
			}
			time.Sleep(time.Hour)
			return used()
		}
		round(0)
		round(1)
		first := round(2)
		last := round(3)
		if grown := int64(last) - int64(first); grown > 256<<10 {
			t.Errorf("%d more bytes after the same number of sessions again", grown)
		}
		for what, n := range proxy.Kept(d.proxy) {
			if n != 0 {
				t.Errorf("left: %d %s", n, what)
			}
		}
	})
}

// When a session ends, its prefetches are cancelled at once, including those that wait for their
// host.
func TestHarmCrowdEnds(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(delaying(isGet, 1000*time.Hour))
		d := beset(t, f, defaults(t, listing(t)...))
		var all []*visitor
		for i := range 12 {
			v := d.visit()
			v.call(t.Context(), "tools/call", toolCall("list", page(i+1)))
			all = append(all, v)
		}
		time.Sleep(time.Second)
		st := d.proxy.Stats()
		if st.Prefetch.Scheduler.UnderWay != 12 || st.Hosts[0].Prefetches != 4 || st.Hosts[0].WaitingPrefetches != 8 {
			t.Errorf("%d slots taken, %d prefetches begun, %d wait; want 12, 4 and 8", st.Prefetch.Scheduler.UnderWay, st.Hosts[0].Prefetches, st.Hosts[0].WaitingPrefetches)
		}
		for _, v := range all {
			v.ends()
		}
		time.Sleep(50 * time.Millisecond) // until the worker has notified the scheduler
		st = d.proxy.Stats()
		if st.Prefetch.Scheduler.UnderWay != 0 || st.Store.Flights != 0 || st.Hosts[0].Prefetches != 0 || st.Hosts[0].WaitingPrefetches != 0 {
			t.Errorf("%d slots taken, %d flights, %d prefetches begun, %d wait; want none", st.Prefetch.Scheduler.UnderWay, st.Store.Flights, st.Hosts[0].Prefetches, st.Hosts[0].WaitingPrefetches)
		}
		for _, v := range early(f.ledger()) {
			if v.ctx.Err() == nil {
				t.Errorf("a prefetch %s is still open at the server, although its session has ended", v.arguments)
			}
		}
	})
}
