package predict_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/predict"
)

const worldTools = 1000

// world makes random calls of a thousand tools, a sixth of which use values of earlier results, to
// fill all tables of a model.
type world struct {
	random  *rand.Rand
	tools   [worldTools]string
	results [64]string
	now     time.Time
}

func newWorld() *world {
	w := &world{random: rand.New(rand.NewPCG(1, 2)), now: time.Unix(1e9, 0)}
	for i := range w.tools {
		w.tools[i] = fmt.Sprintf("some_server_tool_%d", i)
	}
	for i := range w.results {
		text := fmt.Sprintf(`{"owner":"owner-%d","items":[{"id":"id-%d","path":"src/%d/a.go"},{"id":"id-%d","path":"src/%d/b.go"},{"id":"id-%d","path":"src/%d/c.go"}]}`, i, 3*i, i%7, 3*i+1, i%5, 3*i+2, i%3)
		w.results[i] = text
	}
	return w
}

// session makes calls, and asks for candidates after one in every.
func (w *world) session(m *predict.Model, calls, every int) {
	s := m.Begin(w.random.Uint64(), false)
	result := 0
	for i := range uint64(calls) {
		tool := w.random.IntN(worldTools)
		arguments := fmt.Sprintf(`{"page":%d,"query":"q%d"}`, w.random.IntN(9), w.random.IntN(1e6))
		if i > 0 && w.random.IntN(3) > 0 {
			tool = (tool/8*8 + w.random.IntN(3)) % worldTools
			arguments = fmt.Sprintf(`{"id":"id-%d","mode":"m%d","owner":"owner-%d"}`, 3*result+w.random.IntN(3), tool%5, result)
		}
		s.Call(predict.Call{ID: i, Turn: int(i), Tool: w.tools[tool], Arguments: arguments, At: w.now})
		result = w.random.IntN(len(w.results))
		w.now = w.now.Add(time.Second)
		s.Result(predict.Result{ID: i, Text: []byte(w.results[result]), Size: 1000 * result, At: w.now})
		if w.random.IntN(every) == 0 {
			s.Candidates(w.now)
		}
	}
	s.End()
}

// A model takes less than 34 MiB, whether it was learned or loaded. Forty thousand calls fill the
// larger tables. The soak test continues until the weights, the largest table, are full and some
// were evicted, and then loads the state.
func TestMemory(t *testing.T) {
	calls, every, perSession, bound := 15_000, 400, 4, int64(14<<20)
	soak := os.Getenv("MCPSCHEDD_SOAK") != ""
	if soak {
		calls, every, perSession, bound = 150_000, 4, 25, 34<<20
	}
	w := newWorld()
	before := used()
	m := learner(learning{Target: reads})
	for range calls / perSession {
		w.session(m, perSession, every)
	}
	got := used() - before
	templates, weights := m.Learned()
	t.Logf("%d calls: %.1f MB, %d templates, %d weights", calls, float64(got)/(1<<20), templates, weights)
	if got > bound {
		t.Errorf("got %d bytes after %d calls, want at most %d", got, calls, bound)
	}
	if !soak {
		runtime.KeepAlive(m)
		return
	}
	if weights < predict.MaxWeights*3/4 {
		t.Errorf("got %d weights: they are not full", weights)
	}
	kept, _ := m.Merge(predict.State{})
	runtime.KeepAlive(m)
	loaded := model()
	before = used()
	if _, err := loaded.Merge(kept); err != nil {
		t.Error(err)
	}
	got = used() - before
	t.Logf("a state of %.1f MB: %.1f MB", float64(len(kept.Server)+len(kept.Values))/(1<<20), float64(got)/(1<<20))
	if got > bound {
		t.Errorf("loaded: got %d bytes, want at most %d", got, bound)
	}
	runtime.KeepAlive(loaded)
	runtime.KeepAlive(kept)
}

// A model does not retain long arguments: templates hold the text around the values, and a value
// only if it is short.
func TestLongArgumentsAreNotRetained(t *testing.T) {
	m := learner(learning{Target: reads})
	const calls, long = 64, 60 << 10
	learn := func() {
		for i := range calls {
			p := begin(t, m)
			p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), items(i))
			p.call("get", fmt.Sprintf(`{"id":"id-%d","note":"%0*d"}`, i, long, i), "x")
			p.call("get", item(i), "x")
			p.s.End()
		}
	}
	learn() // fills the tables that do not depend on the length
	before := used()
	learn()
	if got := used() - before; got > calls*long/4 {
		t.Errorf("got %d bytes after %d calls with arguments of %d bytes each", got, calls, long)
	}
	if m.Weight("list", "get") == 0 {
		t.Error("nothing was learned")
	}
	runtime.KeepAlive(m)
}

// used returns the number of reachable bytes on the heap.
func used() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// Nor does it retain the long names of arguments, which templates hold.
func TestLongNamesAreNotRetained(t *testing.T) {
	m := learner(learning{Target: reads})
	const calls, long = 64, 60 << 10
	before := used()
	for i := range calls {
		p := begin(t, m)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), items(i))
		p.call("get", fmt.Sprintf(`{"%0*d":"id-%d"}`, long, i, i), "x")
		p.s.End()
	}
	if got := used() - before; got > calls*long/4 {
		t.Errorf("got %d bytes after %d calls with names of %d bytes each", got, calls, long)
	}
	runtime.KeepAlive(m)
}

// Traits are kept only of the elements that candidates are built from, not of all that a result lists.
func TestTraitsOfLongListsAreNotRetained(t *testing.T) {
	kept := func(entries string) int64 {
		result := []byte(strings.Repeat(entries, 4000))
		before := used()
		v := predict.Extract(result, nil)
		got := used() - before
		runtime.KeepAlive(v)
		runtime.KeepAlive(result)
		return got
	}
	if plain, got := kept("- a\n- b\n"), kept("- a/\n- b\n"); got > plain+50_000 {
		t.Errorf("a listing of files takes %d bytes, one of files and directories %d", plain, got)
	}
}
