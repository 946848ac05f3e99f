package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// onePrincipal makes all sessions share the connection to the foe, as one principal.
func onePrincipal(o proxy.Options) proxy.Options {
	o.Upstreams[0].Spec.Shared, o.Upstreams[0].SharedIdentity = true, true
	return o
}

// A client that cancels requests at random leaves nothing behind, and does not affect another
// client with the same calls.
func TestHarmCancel(t *testing.T) {
	t.Parallel()
	const takes = 400 * time.Millisecond
	for _, name := range []string{"each for itself", "one principal"} {
		t.Run(name, func(t *testing.T) {
			prefetches := int64(0)
			for seed := range uint64(soak(1)) {
				bubble.Test(t, func(t *testing.T) {
					o := defaults(t, listing(t)...)
					if name == "one principal" {
						o = onePrincipal(o)
					}
					f := newFoe(taking(takes))
					d := beset(t, f, o)
					var all sync.WaitGroup
					for i := range 5 {
						g, r := d.enter(), rand.New(rand.NewPCG(seed, uint64(i)))
						all.Go(func() { g.wavers(r, 8, 2*takes) })
					}
					bystander := d.enter()
					all.Go(func() {
						for i, a := range bystander.browses(0, 6, 700*time.Millisecond) {
							if a.took > takes || a.how() == "failed" {
								t.Errorf("seed %d, call %d: got %s after %v", seed, i, a.how(), a.took)
							}
						}
					})
					all.Wait()
					time.Sleep(time.Minute)
					st := d.proxy.Stats()
					if st.Store.Flights != 0 || st.Prefetch.Scheduler.UnderWay != 0 {
						t.Errorf("seed %d: %d flights, %d slots taken", seed, st.Store.Flights, st.Prefetch.Scheduler.UnderWay)
					}
					prefetches += st.Prefetch.Issued
				})
			}
			if prefetches == 0 {
				t.Error("nothing was prefetched")
			}
		})
	}
}

// wavers makes up to three concurrent calls, and cancels each after a random time of at most
// within.
func (g *guest) wavers(r *rand.Rand, rounds int, within time.Duration) {
	var all sync.WaitGroup
	for range rounds {
		p := r.IntN(8) + 1
		for n := range r.IntN(3) + 1 {
			tool, arguments := "list", page(p)
			if n > 0 {
				tool, arguments = "get", thing(p, r.IntN(perPage))
			}
			s := g.begin(tool, arguments)
			time.AfterFunc(time.Duration(r.Int64N(int64(within))), s.cancel)
			all.Go(func() { s.wait() })
		}
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
	}
	all.Wait()
}

// holdingPeers are replicas that hold every fetch until release is closed. No place changes there.
type holdingPeers struct{ release chan struct{} }

func (*holdingPeers) Lookup(_ context.Context, places []call.Place) ([]string, error) {
	tokens := make([]string, len(places))
	for i := range tokens {
		tokens[i] = "same"
	}
	return tokens, nil
}

func (*holdingPeers) Announce(context.Context, []call.Place, func(error)) (dedup.Announcement, error) {
	return new(announcement), nil
}

func (p *holdingPeers) Lead(context.Context, string, []string, func()) (*dedup.SharedAnswer, func(*dedup.SharedAnswer)) {
	<-p.release
	return nil, func(*dedup.SharedAnswer) {}
}

// announcement is a write, and whether it has ended.
type announcement struct{ ended atomic.Bool }

func (a *announcement) Fence() error {
	if a.ended.Load() {
		return errors.New("the write has ended")
	}
	return nil
}

func (a *announcement) End() { a.ended.Store(true) }

// A reload may turn a write into a read while its client is asked for input. The call is then sent again without the
// fence of the write.
func TestOnlyReadsAfterItsQuestion(t *testing.T) {
	peers := &holdingPeers{release: make(chan struct{})}
	close(peers.release)
	one := child(t, mcptest.Options{Name: "one", Era: "stateless"})
	o := stored(t, nil, one)
	o.Dedup.Peers = peers
	s := start(t, o)
	c := connect(t, s, handshake)
	call := c.begin("ask", `{"asks":[`+elicits+`]}`)
	question := c.next("elicitation/create")
	o.Models = stored(t, []valuemodel.Rule{reading("one/ask", 0)}, one).Models
	s.Apply(o)
	c.send(string(jsonrpc.AppendResult(nil, question.ID, accepts("", nil))))
	if m := call.wait(); string(jsonrpc.Get(m.Result, "isError")) == "true" {
		t.Errorf("got %s", m.Result)
	}
}

// A client cancels a call that waits for other replicas. The call of another client that joined it is
// answered, and the next call of the first client is sent.
func TestCancelledWhileReplicasAreAsked(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			peers := &holdingPeers{release: make(chan struct{})}
			o := onePrincipal(withoutPrefetch(defaults(t, reading("foe/get", time.Hour), writesAll("foe/write"))))
			o.Dedup.Peers = peers
			d := beset(t, newFoe(nil), o)
			g, other := d.enter(), d.enter()
			first := g.begin("get", thing(1, 0))
			synctest.Wait()
			var second sent
			if joined {
				second = other.begin("get", thing(1, 0))
				synctest.Wait()
			}
			first.cancel()
			synctest.Wait()
			close(peers.release)
			if joined {
				if how := second.wait().how(); how != "fetched" {
					t.Errorf("the call that had joined: got %s", how)
				}
			}
			if how := g.call("write", "{}").how(); how != "fetched" {
				t.Errorf("joined %v, the next call: got %s", joined, how)
			}
			if how := g.call("get", thing(1, 0)).how(); how != "fetched" && how != "hit" {
				t.Errorf("joined %v, the same call again: got %s", joined, how)
			}
		})
	}
}

// A client over HTTP may cancel a call of a wrapper tool while it is being routed. Only the race detector shows a
// failure.
func TestCancelledWhileRouted(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		o := withoutPrefetch(defaults(t, reading("foe/get", 0)))
		o.Selection.Tools = "search"
		d := beset(t, newFoe(nil), o)
		v := d.visit()
		long := `{"x":"` + strings.Repeat("x", 256<<10) + `"}` // routing takes a while
		for id := range 20 {
			params := toolCall("call_read_tool", toolCall("get", long))
			d.account.note("tools/call", params)
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				d.post(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":"n%d","method":"tools/call","params":%s}`, id, params), "Mcp-Session-Id", v.id).Body.Close()
			}()
			for open := true; open; {
				d.post(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"n%d"}}`, id), "Mcp-Session-Id", v.id).Body.Close()
				select {
				case <-answered:
					open = false
				default:
				}
			}
		}
	})
}
