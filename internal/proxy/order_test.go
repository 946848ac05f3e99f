package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// orderLimits are the limits of the hosts. For each host there is a tool that reads and one that
// writes, named after it.
var orderLimits = map[string]limit.Rule{
	"paced":  {Rate: 1.0 / 6, Burst: 1},
	"brisk":  {Rate: 0.5, Burst: 1},
	"single": {Concurrency: 1},
	"free":   {},
}

// lined is a client's call in a test of the order of sending.
type lined struct {
	id, host string
	reads    bool
	arrived  time.Time
	call     sent
	ended    time.Time // answered or cancelled
	text     string    // text of the error
	came     time.Time // arrived at the server; zero if not sent
}

// lineup is a test of the order in which calls are sent. Its server records when each call
// arrives, and may need time to become ready.
type lineup struct {
	*ordeal
	ready time.Time

	mu  sync.Mutex
	all []*lined
}

// lineUp returns a lineup with a server that takes starts for the handshake, and takes for each
// call.
func lineUp(t *testing.T, o func(*proxy.Options), starts, takes time.Duration) *lineup {
	var rules []valuemodel.Rule
	var tools []string
	for name := range orderLimits {
		for tool, class := range map[string]valuemodel.Class{name + "_read": valuemodel.ReadOnly, name + "_write": valuemodel.MutatesExternal} {
			tools = append(tools, `{"name":"`+tool+`","inputSchema":{"type":"object"}}`)
			rules = append(rules, valuemodel.Rule{Pattern: "foe/" + tool, Source: "test", Layer: valuemodel.Layer{Class: class, Host: name}})
		}
	}
	opts := withoutPrefetch(defaults(t, rules...))
	opts.Limits = orderLimits
	if o != nil {
		o(&opts)
	}
	l := &lineup{ready: time.Now().Add(starts)}
	f := newFoe(taking(takes), tools...)
	f.first = func(_ http.ResponseWriter, m jsonrpc.Message) bool {
		if m.Method == "initialize" {
			time.Sleep(time.Until(l.ready))
		}
		return false
	}
	l.ordeal = beset(t, f, opts)
	return l
}

// call makes a call and records how it ends.
func (l *lineup) call(g *guest, host string, reads bool) *lined {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &lined{id: fmt.Sprint(len(l.all)), host: host, reads: reads, arrived: time.Now()}
	l.all = append(l.all, c)
	tool := host + "_write"
	if reads {
		tool = host + "_read"
	}
	c.call = g.begin(tool, `{"id":"`+c.id+`"}`)
	go func() {
		a := c.call.wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		c.ended = time.Now()
		if !a.none && a.how() != "fetched" {
			c.text = string(a.Raw)
		}
	}()
	return c
}

// calls returns all calls, with the time when each reached the server.
func (l *lineup) calls() []*lined {
	synctest.Wait()
	came := make(map[string]time.Time)
	for _, v := range l.foe.ledger() {
		id, _ := jsonrpc.String(jsonrpc.Get([]byte(v.arguments), "id"))
		if _, twice := came[id]; twice {
			l.t.Errorf("call %s came twice", id)
		}
		came[id] = v.came
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		c.came = came[c.id]
	}
	return l.all
}

// sentAfter returns how long after its arrival a call reached the server.
func (c *lined) sentAfter() string {
	if c.came.IsZero() {
		return "never"
	}
	return c.came.Sub(c.arrived).Round(time.Millisecond).String()
}

// A cancelled call keeps its turn if another call waits for the same answer, so the calls behind
// it keep waiting.
func TestOrderOfAFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := lineUp(t, nil, 0, 0)
		g := l.enter()
		l.call(g, "paced", true)
		synctest.Wait()
		first := g.begin("paced_read", `{"id":"same"}`)
		second := g.begin("paced_read", `{"id":"same"}`)
		write := l.call(g, "free", false)
		behind := l.call(g, "brisk", true)
		time.Sleep(time.Second)
		first.cancel()
		time.Sleep(time.Minute)
		l.calls()
		if write.sentAfter() != "6s" || behind.sentAfter() != "6s" {
			t.Errorf("a write was sent after %s, a read behind it after %s; want 6s, as the call before them was sent then", write.sentAfter(), behind.sentAfter())
		}
		if a := second.wait(); a.how() != "joined" {
			t.Errorf("the second call got %s", a.how())
		}
	})
}

// A call that joined a prefetch keeps its turn until the prefetch has been sent, so no call behind
// it is sent before.
func TestOrderOfAPrefetch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const takes = 10 * time.Second
		f := newFoe(delaying(func(v *visit) bool { return v.arguments == thing(2, 0) }, takes), tools("list", "get", "write", "look")...)
		rules := listing(t)
		rules[0].Layer.Host = "single"
		for tool, class := range map[string]valuemodel.Class{"write": valuemodel.MutatesExternal, "look": valuemodel.ReadOnly} {
			rules = append(rules, valuemodel.Rule{Pattern: "foe/" + tool, Source: "test", Layer: valuemodel.Layer{Class: class, Host: "free"}})
		}
		o := defaults(t, rules...)
		o.Limits = orderLimits
		d := beset(t, f, o)
		began := time.Now()
		other := d.enter().begin("get", thing(2, 0)) // holds the only slot of the host
		g := d.enter()
		g.call("list", page(1))
		time.Sleep(time.Second)
		if s := d.proxy.Stats().Prefetch; s.Issued != 1 || len(early(f.ledger())) > 0 {
			t.Fatalf("%d prefetches were started, %d sent; want 1 that waits for its host", s.Issued, len(early(f.ledger())))
		}
		joined := g.begin("get", thing(1, 0))
		synctest.Wait()
		read := g.begin("look", `{}`)
		write := g.begin("write", `{}`)
		behind := g.begin("look", `{"behind":true}`)
		for _, s := range []sent{other, joined, read, write, behind} {
			s.wait()
		}
		came := make(map[string]time.Duration)
		for _, v := range f.ledger() {
			came[v.tool+v.arguments] = v.came.Sub(began).Round(time.Second)
		}
		want := map[string]time.Duration{
			"get" + thing(2, 0): 0, "list" + page(1): 0, "get" + thing(1, 0): takes,
			"look{}": takes, "write{}": takes, `look{"behind":true}`: takes,
		}
		if diff := cmp.Diff(want, came); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if s := d.proxy.Stats().Prefetch; s.Used != 1 {
			t.Errorf("%d prefetches were used, want 1", s.Used)
		}
	})
}

// A call that joined a fetch which fails is sent itself, but not before the calls ahead of it.
func TestOrderOfACallThatFetchesAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := lineUp(t, nil, 0, 0)
		var again time.Time // when the call was sent the last time
		l.foe.serve = func(v *visit) reply {
			if v.tool != "free_read" {
				return reply{result: v.told()}
			}
			again = v.came
			v.sleeps(time.Second)
			return reply{result: complained("no")}
		}
		g := l.enter()
		l.call(g, "paced", true)
		synctest.Wait()
		fetched := g.begin("free_read", `{"id":"same"}`)
		ahead := l.call(g, "paced", true)
		joined := g.begin("free_read", `{"id":"same"}`)
		fetched.wait()
		joined.wait()
		synctest.Wait()
		if came, after := l.foe.ledger(), again.Sub(ahead.arrived).Round(time.Millisecond); len(came) != 4 || after != 6*time.Second {
			t.Errorf("%d calls were sent, the last one after %v, want 4 and 6s, when the call ahead of it was sent", len(came), after)
		}
	})
}

// A call that is repeated with the client's replies takes a new turn, behind the calls that came before the replies.
func TestOrderOfACallThatAsks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := lineUp(t, nil, 0, 0)
		l.foe.of("stateless").serve = func(v *visit) reply {
			if v.tool == "free_write" {
				return reply{asks: elicits}
			}
			return reply{result: `{"resultType":"complete","content":[]}`}
		}
		g := l.enter()
		g.mu.Lock()
		g.answer = func(method string, params []byte) []byte {
			time.Sleep(time.Second)
			return accepts(method, params)
		}
		g.mu.Unlock()
		l.call(g, "paced", true)
		asks := g.begin("free_write", `{}`)
		l.call(g, "paced", true) // waits for its host
		if a := asks.wait(); a.Error != nil {
			t.Errorf("got %s", a.Raw)
		}
		synctest.Wait()
		if after := l.foe.ledger()[2:]; len(after) != 2 || after[0].came.Sub(l.began).Round(time.Millisecond) != 6*time.Second {
			t.Errorf("got %v, want both calls at 6s", after)
		}
	})
}

// A step of a plan that waits for its host does not delay the client's calls.
func TestOrderOfAPlan(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := lineUp(t, func(o *proxy.Options) { o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: "allow"}) }, 0, 0)
		g := l.enter()
		l.call(g, "paced", true)
		synctest.Wait()
		plan := g.begin("execute_tool_plan", `{"steps":[{"id":"a","tool":"paced_read","arguments":{"id":"step"}}]}`)
		synctest.Wait()
		beside := l.call(g, "free", false)
		plan.wait()
		l.calls()
		if beside.sentAfter() != "0s" {
			t.Errorf("a call beside the plan was sent after %s, want at once", beside.sentAfter())
		}
	})
}

// Clients make random calls to hosts with tight limits, at a server that may start slowly, and
// cancel some. The order of sending must follow the rules.
func TestOrderHolds(t *testing.T) {
	sent, gaveUp := 0, 0
	for seed := range uint64(slice(3, 2000)) {
		bubble.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 13))
			var starts, timeout time.Duration
			if r.IntN(3) == 0 {
				starts = time.Duration(r.Int64N(int64(50 * time.Second)))
			}
			if r.IntN(2) == 0 {
				timeout = 10*time.Second + time.Duration(r.Int64N(int64(30*time.Second)))
			}
			l := lineUp(t, func(o *proxy.Options) { o.Upstreams[0].Timeout = timeout }, starts, 700*time.Millisecond)
			lines := make([][]*lined, 2) // client → its calls
			var all sync.WaitGroup
			for i := range lines {
				g, r := l.enter(), rand.New(rand.NewPCG(seed, uint64(i)))
				all.Go(func() { lines[i] = l.calling(g, r, 30) })
			}
			all.Wait()
			time.Sleep(10 * time.Minute)
			everything := l.calls()
			for _, line := range lines {
				for i, c := range line {
					l.check(seed, c, timeout)
					if !c.came.IsZero() {
						sent++
						l.caused(seed, everything, line[:i], c)
					} else {
						gaveUp++
					}
					for _, later := range line[i+1:] {
						if !c.came.IsZero() && !later.came.IsZero() && later.came.Before(c.came) {
							t.Errorf("seed %d: %s passed %s", seed, later, c)
						}
					}
				}
			}
		})
	}
	if sent == 0 || gaveUp == 0 {
		t.Errorf("%d calls were sent, %d were not: want some of each", sent, gaveUp)
	}
}

func (c *lined) String() string {
	sort := "write"
	if c.reads {
		sort = "read"
	}
	return fmt.Sprintf("%s %s of %s (arrived %v, sent %v)", sort, c.id, c.host, c.arrived.Format("04:05.000000"), c.came.Format("04:05.000000"))
}

// calling makes n calls for a client. Durations are such that two events coincide only if one
// causes the other.
func (l *lineup) calling(g *guest, r *rand.Rand, n int) (line []*lined) {
	hosts := []string{"paced", "brisk", "single", "free", "free"}
	for range n {
		pause := time.Duration(r.Int64N(int64(time.Millisecond)))
		if r.IntN(2) == 0 {
			pause = time.Duration(r.Int64N(int64(4 * time.Second)))
		}
		time.Sleep(pause)
		c := l.call(g, hosts[r.IntN(len(hosts))], r.IntN(4) > 0)
		if r.IntN(5) == 0 {
			time.AfterFunc(time.Duration(r.Int64N(int64(15*time.Second))), c.call.cancel)
		}
		line = append(line, c)
	}
	return line
}

// check checks one call: it is sent, answered, cancelled or refused in time, and a refused call is
// never sent.
func (l *lineup) check(seed uint64, c *lined, timeout time.Duration) {
	from := c.arrived
	if l.ready.After(from) {
		from = l.ready
	}
	switch {
	case c.ended.IsZero():
		l.t.Errorf("seed %d: %s has no answer", seed, c)
	case strings.Contains(c.text, "still starting after 30s"):
		if !c.came.IsZero() || c.ended != c.arrived.Add(30*time.Second) || l.ready.Before(c.ended) {
			l.t.Errorf("seed %d: %s got at %v the error that its server is starting", seed, c, c.ended)
		}
	case strings.Contains(c.text, "not sent within"):
		if !c.came.IsZero() || timeout == 0 || c.ended != from.Add(timeout) {
			l.t.Errorf("seed %d: %s got at %v the error that it was not sent in time", seed, c, c.ended)
		}
	case c.text != "":
		l.t.Errorf("seed %d: %s got %s", seed, c, c.text)
	case c.came.After(c.ended):
		l.t.Errorf("seed %d: %s was sent after its end at %v", seed, c, c.ended)
	case timeout > 0 && c.came.After(from.Add(timeout)):
		l.t.Errorf("seed %d: %s was sent after more than %v", seed, c, timeout)
	}
}

// caused checks that a call that had to wait was sent at the time of an event that it may have
// waited for: of a call before it, or of its host.
func (l *lineup) caused(seed uint64, all, before []*lined, c *lined) {
	if c.came.Equal(c.arrived) || c.came.Equal(l.ready) {
		return
	}
	for _, b := range before {
		if b.came.Equal(c.came) || b.came.IsZero() && b.ended.Equal(c.came) {
			return
		}
	}
	rule := orderLimits[c.host]
	for _, o := range all {
		if o.host != c.host || o.came.IsZero() {
			continue
		}
		if rule.Concurrency > 0 && o.ended.Equal(c.came) {
			return
		}
		if rule.Rate > 0 {
			off := c.came.Sub(o.came) - time.Duration(float64(time.Second)/rule.Rate)
			if off.Abs() < time.Microsecond {
				return
			}
		}
	}
	l.t.Errorf("seed %d: %s waited for nothing", seed, c)
}
