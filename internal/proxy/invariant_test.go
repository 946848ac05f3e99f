package proxy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/bubble"
)

// TestInvariant checks the promise of the proxy's store. If a write went through the proxy and has
// ended or is pending when a call arrives, the call is never answered by a fetch that was sent
// before the write took effect. And no client receives an answer for another principal.
//
// Sessions of all kinds concurrently read and write the registers of a world at random, through
// three upstreams. The world knows every version. An answer is wrong if it is older than the state
// just before its read was sent: a write that had landed by then is either pending, and then
// nothing may be served, joined or stored, or has ended. Durations only affect how much is served.
func TestInvariant(t *testing.T) {
	goal := slice(2_000, 1_000_000)
	var sum tally
	few := func() bool { // repeats, until every event has occurred
		n := sum.of("operations")
		return n < goal || n < 10*goal && len(missing(&sum)) > 0
	}
	for few() && !t.Failed() {
		t.Run("proxies", func(t *testing.T) {
			for range 2 {
				t.Run("proxy", func(t *testing.T) {
					t.Parallel()
					bubble.Test(t, func(t *testing.T) {
						a := newArena(t)
						a.goal = min(goal/2, 10_000)
						rapid.Check(struct{ testing.TB }{t}, a.check) // a test in a bubble has no deadline
						if sum.of("operations") == 0 {
							a.complete()
						}
						a.settle()
						sum.add(&a.tally)
					})
				})
			}
		})
	}
	t.Logf("what happened:\n%s", &sum)
	for _, what := range missing(&sum) {
		t.Errorf("the test proves little: %s", what)
	}
}

// tries is how often a history is repeated after a failure. A fault does not occur every time, and
// rapid can only shrink a failure that it can reproduce.
const tries = 20

// check plays one history drawn by rapid, and plays it repeatedly once there was a fault.
func (a *arena) check(t *rapid.T) {
	if a.suspect == 0 && a.of("operations") >= a.goal {
		return
	}
	h := someHistory(t, bursting, single)
	for range max(1, a.suspect) {
		if faults := a.run(h); faults != nil {
			if a.suspect == 0 {
				a.t.Logf("%s\n(%d faults)", faults[0], len(faults))
			}
			a.suspect = tries
			t.Log(faults[0])
			what, _, _ := strings.Cut(faults[0], ":")
			t.Fatal(what) // a constant message, so that rapid can shrink the failure
		}
	}
}

// complete plays a client that repeats a call until it must back off, and the incidents that no
// history had.
func (a *arena) complete() {
	poll := []op{{tool: "poll", up: "A", wait: true}}
	if faults := a.run(history{scripts: [][][]op{{poll, poll, poll, poll}}}); faults != nil {
		a.t.Fatal(faults[0])
	}
	for i, what := range incidents {
		for a.of(what) == 0 {
			h := history{events: []event{{what: what, nth: i}}, scripts: [][][]op{{{{tool: "read", up: "A"}}}}}
			if faults := a.run(h); faults != nil {
				a.t.Fatal(faults[0])
			}
		}
	}
}

// missing returns what a run lacks to be conclusive: enough cached answers, and each incident at
// least once.
func missing(sum *tally) (lacks []string) {
	served, fetched := sum.of("hit")+sum.of("joined"), sum.of("fetched")
	if served*20 < served+fetched {
		lacks = append(lacks, fmt.Sprintf("%d reads were served or joined and %d fetched", served, fetched))
	}
	want := append([]string{"hit", "joined", "fetched", "withdrawn", "tasks/get", "prefetch", "write refused", "hit by a prefetch, or joined", "backed off", "evicted", "found stale"}, incidents...)
	for _, tool := range writeTools {
		want = append(want, tool+" "+string(lands))
	}
	for _, what := range want {
		if sum.of(what) == 0 {
			lacks = append(lacks, fmt.Sprintf("there was no %q", what))
		}
	}
	return lacks
}

// tally counts events by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) count(what string) { c.more(what, 1) }

func (c *tally) more(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[what] += n
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[what]
}

func (c *tally) add(d *tally) {
	d.mu.Lock()
	counts := maps.Clone(d.counts)
	d.mu.Unlock()
	for what, n := range counts {
		c.more(what, n)
	}
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		fmt.Fprintf(&b, "%8d %s\n", c.counts[what], what)
	}
	return b.String()
}
