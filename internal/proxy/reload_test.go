package proxy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/limit"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// A reload replaces the whole policy while calls are running: no call is lost, and none is classified
// half by one policy and half by the other. One of the two policies stores what the other treats as
// a write; a model with the class of one and the freshness of the other would serve wrong answers.
func TestReloadUnderLoad(t *testing.T) {
	up := child(t, mcptest.Options{Name: "one"})
	reads := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, up)
	writes := stored(t, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{
		Class: valuemodel.MutatesExternal, Cost: valuemodel.Cost{Freshness: time.Hour},
	}}}, up)
	writes.Limits = map[string]limit.Rule{"*": {Concurrency: 8}}
	s := start(t, reads)
	var clients []*caller
	for range 3 { // odd, so that rounds in step see both policies
		c := connect(t, s, handshake)
		c.tools() // its server is known
		c.call("echo", `{}`)
		clients = append(clients, c)
	}
	calls := slice(400, 2500)
	next, reloads := make(chan struct{}), 0
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for range next {
			s.Apply([]proxy.Options{writes, reads}[reloads%2])
			reloads++
		}
	})
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for first := 0; first < calls; first += 25 {
				next <- struct{}{} // some of the calls that follow come before the reload, some after
				var open []pending
				for n := range 25 {
					open = append(open, c.begin("echo", fmt.Sprintf(`{"client":%d,"n":%d}`, i, (first+n)%5)))
				}
				for n, p := range open {
					if got, want := string(p.wait().Result), fmt.Sprintf(`"n":%d}`, (first+n)%5); !strings.Contains(got, want) {
						t.Errorf("got %s, want the answer to %s", got, want)
					}
				}
			}
		})
	}
	all.Wait()
	close(next)
	reloading.Wait()
	for _, now := range []struct {
		policy proxy.Options
		second string
	}{{reads, "hit"}, {writes, "fetched"}} {
		s.Apply(now.policy)
		clients[0].call("echo", `{}`)
		if how := disposition(t, clients[0].call("echo", `{}`)); how != now.second {
			t.Errorf("the second of two equal calls, when the reloads are over: got %s, want %s", how, now.second)
		}
	}
	totals := s.Report().Totals
	if want := int64(len(clients)*(calls+1) + 4); totals.Calls != want || totals.ServedStored+totals.Joined+totals.Fetched != want || totals.Errors != 0 {
		t.Errorf("got totals %+v, want %d calls, each answered once", totals, want)
	}
	if want := len(clients) * calls / 25; reloads != want {
		t.Errorf("got %d reloads, want %d", reloads, want)
	}
}
