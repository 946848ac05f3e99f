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

// A reload swaps the whole policy under calls that go on: none is lost, and none
// is judged by half of one and half of another. Of the two policies here one
// stores what the other takes for a write; a model with the class of the one and
// the freshness of the other would serve what must not be served.
func TestReloadUnderLoad(t *testing.T) {
	up := child(t, mcptest.Options{Name: "one"})
	reads := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, up)
	writes := stored(t, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{
		Class: valuemodel.MutatesExternal, Cost: valuemodel.Cost{Freshness: time.Hour},
	}}}, up)
	writes.Limits = map[string]limit.Rule{"*": {Concurrency: 8}}
	s := start(t, reads)
	var clients []*caller
	for range 4 {
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
				next <- struct{}{} // some of what follows comes before it is applied, some after
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
	s.Apply(writes)
	for range 2 {
		if how := disposition(t, clients[0].call("echo", `{}`)); how != "fetched" {
			t.Errorf("under the policy for which it writes: got %s", how)
		}
	}
	totals := s.Report().Totals
	if want := int64(len(clients)*(calls+1) + 2); totals.Calls != want || totals.ServedStored+totals.Joined+totals.Fetched != want || totals.Errors != 0 {
		t.Errorf("got totals %+v, want %d calls, each answered once", totals, want)
	}
	if totals.ServedStored+totals.Joined == 0 || reloads != len(clients)*calls/25 {
		t.Errorf("%d answers that were another call's and %d reloads tell nothing", totals.ServedStored+totals.Joined, reloads)
	}
}
