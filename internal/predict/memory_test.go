package predict_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"mcpschedd/internal/predict"
)

// What is remembered of a thousand tools is bounded, however many calls there are.
func TestMemory(t *testing.T) {
	calls := 20_000
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		calls = 1_000_000
	}
	const most = 64 << 20 // bytes
	before := heap()
	m := predict.New(predict.Options{Target: func(string) bool { return true }})
	rnd := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1e9, 0)
	for made := 0; made < calls; {
		s := m.Begin(false)
		last := rnd.IntN(1000)
		for turn := range 50 {
			tool := (last*7 + rnd.IntN(8)) % 1000 // each is followed by eight
			last, made = tool, made+1
			now = now.Add(3 * time.Second)
			id := uint64(made)
			s.Call(predict.Call{ID: id, Turn: turn, Tool: fmt.Sprint("tool", tool), Arguments: fmt.Sprintf(`{"id":"item-%d","n":%d}`, rnd.IntN(1e6), rnd.IntN(50)), At: now})
			body := fmt.Appendf(nil, `{"items":[{"id":"item-%d"},{"id":"item-%d"},{"id":"item-%d"}],"next":%d}`, rnd.IntN(1e6), rnd.IntN(1e6), rnd.IntN(1e6), turn)
			s.Result(predict.Result{ID: id, Values: predict.Extract(body, nil), Size: len(body), At: now.Add(time.Second)})
			s.Candidates(now.Add(time.Second))
		}
		s.End()
	}
	grown := heap() - before
	t.Logf("%d calls of 1000 tools: %d KiB", calls, grown>>10)
	if grown > most {
		t.Errorf("the model takes %d MiB after %d calls, want at most %d", grown>>20, calls, most>>20)
	}
	runtime.KeepAlive(m)
}

func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
