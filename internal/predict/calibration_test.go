package predict_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// habits are simulated clients: look returns the index in a list of n items that the client reads
// next.
var habits = []struct {
	name string
	look func(r *rand.Rand, n int) int // -1: it reads none
}{
	{"one of few, else nothing", func(r *rand.Rand, n int) int {
		if r.Float64() < 0.8/float64(n) {
			return r.IntN(n)
		}
		return -1
	}},
	{"mostly the first", func(r *rand.Rand, n int) int {
		if r.Float64() < 0.7 {
			return 0
		}
		return r.IntN(n+1) - 1
	}},
	{"any", func(r *rand.Rand, n int) int { return r.IntN(n) }},
	{"the last, or nothing", func(r *rand.Rand, n int) int {
		if r.Float64() < 0.3 {
			return n - 1
		}
		return -1
	}},
}

// Of the candidates with similar P, about that share are hits.
func TestCalibration(t *testing.T) {
	for _, habit := range habits {
		t.Run(habit.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			m := learner(learning{Target: reads})
			type decile struct {
				n, hits  int
				expected float64
			}
			var deciles [10]decile
			next := 0
			for session := range 1200 {
				p := begin(t, m)
				n := 1 + r.IntN(5)
				var all []string
				for i := range n {
					all = append(all, item(next+i))
				}
				p.call("list", fmt.Sprintf(`{"n":%d}`, 10+session), "["+strings.Join(all, ",")+"]")
				at := habit.look(r, n)
				for _, c := range p.s.Candidates(p.now) {
					if session < 100 {
						continue
					}
					d := &deciles[int(c.P*10)]
					d.n++
					d.expected += c.P
					if c.Key.Arguments == item(next+at) && at >= 0 {
						d.hits++
					}
				}
				if at >= 0 {
					p.call("get", item(next+at), "x")
				}
				next += n
				p.s.End()
			}
			candidates := 0
			for i, d := range deciles {
				candidates += d.n
				expected, observed := d.expected/float64(max(d.n, 1)), float64(d.hits)/float64(max(d.n, 1))
				if diff := observed - expected; d.n >= 100 && (diff > 0.1 || diff < -0.1) {
					t.Errorf("P from 0.%d: %d candidates, expected %.3f, observed %.3f", i, d.n, expected, observed)
				}
				t.Logf("P from 0.%d: %4d candidates, expected %.3f, observed %.3f", i, d.n, expected, observed)
			}
			if candidates < 2000 { // candidates for items that are never read are not even built
				t.Errorf("got %d candidates of about 3300", candidates)
			}
		})
	}
}

// The sessions of a task all read the same file, and tasks change every four sessions. What one
// task reads says little about the next, but P must not be too high because of weights learned for
// its values.
func TestCalibrationOfTasksThatAreRepeated(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	m := learner(learning{Target: reads})
	task := 0 // the file that it reads
	n, hits, expected := 0, 0, 0.0
	for session := range 1500 {
		if session%4 == 0 {
			task = r.IntN(40)
		}
		listed := r.Perm(40)[:6]
		if !slices.Contains(listed, task) {
			listed[r.IntN(6)] = task
		}
		var all []string
		for _, i := range listed {
			all = append(all, item(i))
		}
		p := begin(t, m)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 100+session), "["+strings.Join(all, ",")+"]")
		for _, c := range p.s.Candidates(p.now) {
			if c.P < 0.3 || session < 300 {
				continue
			}
			n++
			expected += c.P
			if c.Key.Arguments == item(task) {
				hits++
			}
		}
		p.call("get", item(task), "x")
		p.s.End()
	}
	if observed := float64(hits) / float64(n); n < 100 || observed < expected/float64(n)-0.1 {
		t.Errorf("%d candidates from 0.3 on: expected %.3f, observed %.3f", n, expected/float64(n), observed)
	}
	t.Logf("%d candidates from 0.3 on: expected %.3f, observed %.3f", n, expected/float64(n), float64(hits)/float64(n))
}

// Misses are learned while the result may still be served, so P of a call that never comes drops
// soon.
func TestMissesCountBeforeAnswersExpire(t *testing.T) {
	m := learner(learning{Target: reads, MaxAge: time.Hour})
	p := begin(t, m)
	list := func(i int) {
		p.call("list", fmt.Sprintf(`{"n":%d}`, i), fmt.Sprintf(`{"items":[{"id":"a-%d"},{"id":"b-%d"}]}`, i, i))
	}
	id := func(letter string, i int) string { return fmt.Sprintf(`{"id":"%s-%d"}`, letter, i) }
	for i := range 25 {
		list(i)
		p.s.Candidates(p.now)
		p.call("get", id("a", i), "x")
	}
	list(25)
	first, second := p.find("get", id("a", 25)), p.find("get", id("b", 25))
	if first.P < 0.6 || second.P > 0.2 {
		t.Errorf("of 25 lists, the first entry was read each time and the second never: got P %.2f and %.2f", first.P, second.P)
	}
}

// A call that comes only after its trigger is forgotten, but while the result may be served, counts as a hit: its
// miss, learned before, is made up for.
func TestLateHitMakesUpForItsMiss(t *testing.T) {
	m := learner(learning{Target: reads, MaxAge: time.Hour})
	p := begin(t, m)
	id := func(i int) string { return fmt.Sprintf(`{"id":"a-%d"}`, i) }
	list := func(i int) {
		p.call("list", fmt.Sprintf(`{"n":%d}`, i), fmt.Sprintf(`{"items":[{"id":"a-%d"}]}`, i))
		p.s.Candidates(p.now)
	}
	for i := range 30 {
		list(i)
		for j := range 13 {
			if i >= 5 { // earlier, the call comes at once, so that it is explained
				p.call("other", fmt.Sprintf(`{"x":"%d %d"}`, i, j), "x")
			}
		}
		p.call("get", id(i), "x")
	}
	list(30)
	if got := p.find("get", id(30)); got.P < 0.6 {
		t.Errorf("the call came late each time: got P %.2f, want at least 0.6", got.P)
	}
}
