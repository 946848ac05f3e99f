package predict_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/predict"
)

func learn(t testing.TB, m *predict.Model, from, sessions int) {
	for i := range sessions {
		p := begin(t, m)
		id := fmt.Sprintf(`{"id":"id-%d"}`, from+i)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+from+i), `{"items":[`+id+`]}`)
		p.find("get", id)
		p.call("get", id, "x")
		p.call("read", `{"path":"/home/u/README.md"}`, "text")
		p.s.End()
	}
}

func next(t testing.TB, m *predict.Model) float64 {
	p := begin(t, m)
	p.call("list", `{"n":5}`, `{"items":[{"id":"id-77777"}]}`)
	return p.find("get", `{"id":"id-77777"}`).P
}

func model() *predict.Model { return predict.New(predict.Options{Target: reads}) }

func TestStateGoesOn(t *testing.T) {
	m := model()
	learn(t, m, 0, 20)
	state, err := m.Merge(nil)
	if err != nil {
		t.Fatal(err)
	}
	other := model()
	if _, err := other.Merge(state); err != nil {
		t.Fatal(err)
	}
	if got, want := next(t, other), next(t, m); got != want || got < 0.5 {
		t.Errorf("got P %v from the kept state, want %v", got, want)
	}
}

// One session a process, as clients start them.
func TestLearnsAcrossProcesses(t *testing.T) {
	var state []byte
	for i := range 20 {
		m := model()
		if _, err := m.Merge(state); err != nil {
			t.Fatal(err)
		}
		learn(t, m, i, 1)
		state, _ = m.Merge(state)
	}
	m := model()
	m.Merge(state)
	if got := next(t, m); got < 0.5 {
		t.Errorf("after 20 processes: got P %.3f, want at least 0.5", got)
	}
}

// Processes that loaded the same state add to it, whatever the order.
func TestMergeLosesNoCounts(t *testing.T) {
	start := model()
	learn(t, start, 0, 5)
	state, _ := start.Merge(nil)
	var all []*predict.Model
	for range 8 {
		m := model()
		m.Merge(state)
		all = append(all, m)
	}
	for i, m := range all {
		learn(t, m, 100*(i+1), 10)
	}
	for _, m := range all {
		state, _ = m.Merge(state)
	}
	merged := model()
	merged.Merge(state)
	if got := merged.Weight("list", "get"); got < 83 || got > 85 {
		t.Errorf("got a weight of %.1f for 85 calls in 8 processes", got)
	}
}

// Whatever is cut off or broken, the rest is read.
func TestStateBroken(t *testing.T) {
	m := model()
	learn(t, m, 0, 20)
	state, _ := m.Merge(nil)
	for n := range len(state) {
		if n%97 != 0 && n > 200 {
			continue
		}
		other := model()
		after, _ := other.Merge(state[:n])
		if _, err := model().Merge(after); err != nil {
			t.Fatalf("cut off at %d: what was made of it: %v", n, err)
		}
	}
	broken := []byte(strings.Replace(string(state), `"n":1`, `"n":9`, 1))
	other := model()
	if _, err := other.Merge(broken); err == nil {
		t.Error("a changed line was taken")
	}
	if got := next(t, other); got == 0 {
		t.Error("one broken line: nothing was read")
	}
	if _, err := model().Merge([]byte(strings.Replace(string(state), `{"v":2}`, `{"v":1}`, 1))); err == nil {
		t.Error("another version was taken")
	}
}

func TestStateHoldsNoSecrets(t *testing.T) {
	m := model()
	for i := range 6 {
		p := begin(t, m)
		p.call("login", `{"password":"hunter22","user":"ann"}`, `{"token":"value-of-a-result","id":"id-1"}`)
		p.call("get", `{"id":"id-1","key":"ghp_abcdefghijklmnopqrstuvwxyz0123456789"}`, "x")
		p.call("once", fmt.Sprintf(`{"name":"private-%d"}`, i), "y")
		p.s.End()
	}
	state, _ := m.Merge(nil)
	for _, s := range []string{"hunter22", "ghp_", "value-of-a-result", "private-"} {
		if strings.Contains(string(state), s) {
			t.Errorf("the state holds %q", s)
		}
	}
}

func FuzzState(f *testing.F) {
	m := model()
	learn(f, m, 0, 3)
	state, _ := m.Merge(nil)
	for _, line := range strings.SplitAfter(string(state), "\n") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		_, body, _ := strings.Cut(strings.TrimSpace(line), " ")
		m := model()
		m.Merge(predict.Line(`{"v":2}`, body))
		learn(t, m, 0, 2)
		m.Merge(nil)
	})
}
