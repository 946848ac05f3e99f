package proxy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/proxy"
)

// ledgered is a server with registers. Each counts its writes. A call reads or writes at a random
// time before its answer.
type ledgered struct {
	mu     sync.Mutex
	r      *rand.Rand
	counts [3]int
	landed map[int]int // serial of a write → value of its register after it
}

const shelves = 3

func (l *ledgered) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.r.IntN(300)) * time.Millisecond
}

func (l *ledgered) serve(v *visit) reply {
	if v.tool == "list" {
		return reply{result: said(`{"things":[{"n":0},{"n":1},{"n":2}]}`)}
	}
	v.sleeps(l.pause())
	var a struct{ N, Serial int }
	if err := json.Unmarshal([]byte(v.arguments), &a); err != nil || a.N >= shelves {
		return reply{result: complained("no such register")}
	}
	l.mu.Lock()
	if v.tool == "write" {
		l.counts[a.N]++
		l.landed[a.Serial] = l.counts[a.N]
	}
	count, luck := l.counts[a.N], l.r.IntN(12)
	l.mu.Unlock()
	v.sleeps(l.pause())
	switch {
	case v.tool == "write" && luck == 0:
		return reply{cut: true}
	case v.tool == "write" && luck == 1:
		return reply{result: complained("it went wrong later")}
	}
	return reply{result: said(fmt.Sprintf(`{"count":%d}`, count))}
}

// now returns the current values, which later reads must see.
func (l *ledgered) now() [shelves]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// planStep is a step of a random plan.
type planStep struct {
	id     string
	n      int
	serial int // of a write; zero for a read
}

// draws returns a random plan: reads and writes of registers, some of them with edges.
func draws(r *rand.Rand, serial func() int) (steps []planStep, text string) {
	var all []string
	for i := range 3 + r.IntN(8) {
		s := planStep{id: fmt.Sprintf("s%d", i), n: r.IntN(shelves)}
		tool, arguments := "get", fmt.Sprintf(`{"n":%d}`, s.n)
		if r.IntN(3) == 0 {
			s.serial = serial()
			tool, arguments = "write", fmt.Sprintf(`{"n":%d,"serial":%d}`, s.n, s.serial)
		}
		depends := "[]"
		if i > 0 && r.IntN(4) == 0 {
			depends = fmt.Sprintf(`["s%d"]`, r.IntN(i))
		}
		steps = append(steps, s)
		all = append(all, fmt.Sprintf(`{"id":%q,"tool":%q,"arguments":%s,"depends_on":%s,"on_error":"continue"}`, s.id, tool, arguments, depends))
	}
	return steps, strings.Join(all, ",")
}

// A read in a plan never returns a value from before a write that is earlier in the plan, or that
// had ended before the plan started, whatever is cached, joined or prefetched. The same holds for
// ordinary calls after the plan.
func TestPlanReadsItsWrites(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for seed := range uint64(slice(2, 600)) {
		bubble.Test(t, func(t *testing.T) {
			l := &ledgered{r: rand.New(rand.NewPCG(seed, 1)), landed: make(map[int]int)}
			rules := listing(t)
			rules[0] = reading("foe/get", time.Hour)
			rules = append(rules, writesAll("foe/write"))
			o := defaults(t, rules...)
			if seed%2 == 0 {
				o = onePrincipal(o)
			}
			o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: "allow"})
			d := beset(t, newFoe(l.serve).of([]string{"handshake", "stateless"}[seed/2%2]), o)
			var mu sync.Mutex
			serials := 0
			serial := func() int {
				mu.Lock()
				defer mu.Unlock()
				serials++
				return serials
			}
			var all sync.WaitGroup
			for i := range 3 {
				p, r := d.plans([]string{handshake, stateless}[i%2]), rand.New(rand.NewPCG(seed, uint64(10+i)))
				all.Go(func() {
					for range 12 {
						how := p.mixes(l, r, serial)
						mu.Lock()
						for what, n := range how {
							seen[what] += n
						}
						mu.Unlock()
						time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
					}
				})
			}
			all.Wait()
		})
	}
	t.Logf("what happened: %v", seen)
	for _, what := range []string{"hit", "joined", "fetched", "ordinary hit", "failed"} {
		if seen[what] == 0 {
			t.Errorf("there was no %q: the test proves nothing", what)
		}
	}
}

// mixes runs a plan, or makes some calls, and compares the results with the model.
func (p *planner) mixes(l *ledgered, r *rand.Rand, serial func() int) (how map[string]int) {
	how = make(map[string]int)
	if r.IntN(3) > 0 {
		p.call("list", `{}`)
		time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
		before := l.now()
		for n := range shelves {
			a := p.call("get", fmt.Sprintf(`{"n":%d}`, n))
			how["ordinary "+a.how()]++
			p.least(fmt.Sprintf("an ordinary call of %d", n), string(jsonrpc.Get([]byte(firstText(a.Result)), "count")), before[n])
		}
		return how
	}
	before := l.now()
	steps, text := draws(r, serial)
	a := p.run(text)
	for i, s := range steps {
		how[a.source(s.id)]++
		how[a.Steps[i].Status]++
		if s.serial != 0 || a.Steps[i].Status != "ok" {
			continue
		}
		least := before[s.n]
		for _, w := range steps[:i] {
			if w.serial != 0 && w.n == s.n {
				l.mu.Lock()
				least = max(least, l.landed[w.serial])
				l.mu.Unlock()
			}
		}
		p.least(fmt.Sprintf("%s of %s", s.id, text), string(jsonrpc.Get(a.Outputs[s.id], "count")), least)
	}
	return how
}

func (p *planner) least(what, got string, least int) {
	p.t.Helper()
	var count int
	if err := json.Unmarshal([]byte(got), &count); err != nil || count < least {
		p.t.Errorf("%s: got %s, want at least %d", what, got, least)
	}
}

// firstText returns the first text of a result.
func firstText(result []byte) string { return jsonrpc.Text(jsonrpc.At(result, "/content/0"), "text") }

// A step can join an ordinary call and use cached results, and its own result is cached for
// ordinary calls.
func TestPlanSharesTheStore(t *testing.T) {
	o := func(t testing.TB) proxy.Options { return planned(t, reading("foe/list", time.Hour)) }
	besetEach(t, o, slowly, func(t *testing.T, d *ordeal, p *planner) {
		p.call("list", `{"x":0}`)
		time.Sleep(time.Second) // the acknowledgement of the server's listen stream, which invalidates open fetches, has arrived
		under := p.begin("list", `{"x":1}`)
		time.Sleep(50 * time.Millisecond)
		a := p.run(`{"id":"a","tool":"list","arguments":{"x":1}},{"id":"b","tool":"list","arguments":{"x":2}},{"id":"c","tool":"list","arguments":{"x":2}}`)
		under.wait()
		again := p.run(`{"id":"a","tool":"list","arguments":{"x":1}}`)
		if got := a.source("a") + " " + again.source("a"); got != "joined hit" {
			t.Errorf("got %s, want joined hit", got)
		}
		if got := a.source("b") + " " + a.source("c"); got != "fetched joined" && got != "joined fetched" {
			t.Errorf("got %s, want one fetched and one joined", got)
		}
		if how := p.call("list", `{"x":2}`).how(); how != "hit" {
			t.Errorf("an ordinary call: got %s, want hit", how)
		}
		if n := len(d.foe.ledger()); n != 3 {
			t.Errorf("%d calls, want 3: %s", n, calls(d.foe.ledger()))
		}
		if n := d.proxy.Report().Totals.Calls; n != 7 {
			t.Errorf("%d calls are counted, want 7: each step, but not the plans", n)
		}
	})
}

// Latencies are learned from the steps of plans too.
func TestPlanIsLearnedFrom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := defaults(t, listing(t)...)
		o.Plans = planSettings(proxy.Plans{Enabled: true})
		d := beset(t, newFoe(slowly), o)
		p := d.plans(handshake)
		for i := range 5 {
			p.run(fmt.Sprintf(`{"id":"a","tool":"get","arguments":{"x":%d}}`, i))
			time.Sleep(time.Minute)
		}
		a := p.call("execute_tool_plan", `{"steps":[{"id":"a","tool":"get"},{"id":"b","tool":"get","depends_on":["a"]}],"dry_run":true}`)
		var expected struct{ MS int }
		if err := json.Unmarshal(jsonrpc.At(a.Result, "/structuredContent/plan/expected"), &expected); err != nil || expected.MS < 1500 || expected.MS > 3000 {
			t.Errorf("got %+v (%v), want about two seconds: %s", expected, err, a.Raw)
		}
		if n := len(d.foe.ledger()); n != 5 {
			t.Errorf("%d calls, want 5", n)
		}
	})
}

// source returns where a step's result came from, or "" if it has none.
func (a planAnswer) source(id string) string {
	for _, s := range a.Steps {
		switch {
		case s.ID != id:
		case s.Source == "" && s.Status == "ok":
			return "fetched"
		default:
			return s.Source
		}
	}
	return ""
}
