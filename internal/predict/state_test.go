package predict_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
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

func nextP(t testing.TB, m *predict.Model) float64 {
	p := begin(t, m)
	p.call("list", `{"n":5}`, `{"items":[{"id":"id-77777"}]}`)
	return p.find("get", `{"id":"id-77777"}`).P
}

func model() *predict.Model { return learner(learning{Target: reads}) }

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
	if got, want := nextP(t, other), nextP(t, m); got != want || got < 0.5 {
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
	if got := nextP(t, m); got < 0.5 {
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

// stride is how many bytes of a state to go on: all of them take a while.
func stride() int {
	if os.Getenv("MCPSCHEDD_SOAK") != "" {
		return 1
	}
	return 17
}

// withoutSessions is a state without its second line, which counts the sessions.
func withoutSessions(state []byte) string {
	lines := slices.Collect(strings.Lines(string(state)))
	return strings.Join(slices.Delete(lines, 1, 2), "")
}

// The same calls make the same state to the byte: nothing depends on the order of
// maps.
func TestStateIsReproducible(t *testing.T) {
	play := func() []byte {
		m := model()
		learn(t, m, 0, 30)
		first, _ := m.Merge(nil)
		learn(t, m, 100, 30)
		second, _ := m.Merge(first)
		return second
	}
	if !bytes.Equal(play(), play()) {
		t.Error("got two states")
	}
}

// A state of another version is named with the one that is wanted, and learning
// begins anew.
func TestOtherVersion(t *testing.T) {
	old := predict.Line(`{"v":2}`, `{"sessions":9}`, `{"constants":{"h":1,"total":2,"values":[{"h":1,"n":2,"sessions":2,"last":1}]}}`)
	m := model()
	next, err := m.Merge(old)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("version 2, want ", predict.StateVersion)) {
		t.Errorf("got error %v, want one that names both versions", err)
	}
	learn(t, m, 0, 15)
	if next, err = m.Merge(next); err != nil {
		t.Errorf("what was begun anew: %v", err)
	}
	m = model()
	m.Merge(next)
	if got := nextP(t, m); got < 0.5 {
		t.Errorf("got P %.2f, want it learned", got)
	}
}

// Whatever is cut off, the whole lines before it are read, and the result is sound.
func TestStateCutOff(t *testing.T) {
	m := model()
	learn(t, m, 0, 4)
	m.Bar("put", "because")
	state, _ := m.Merge(nil)
	whole := bytes.IndexByte(state, '\n') + 1
	whole += bytes.IndexByte(state[whole:], '\n') // the bar's line
	for n := 0; n < len(state); n += stride() {
		m := model()
		after, err := m.Merge(state[:n])
		if atLine := n == 0 || state[n-1] == '\n' || state[n] == '\n'; (err != nil) == atLine {
			t.Fatalf("cut off at %d: got error %v", n, err)
		}
		if n >= whole && m.Barred("put") == "" {
			t.Fatalf("cut off at %d: the bar is lost", n)
		}
		if n%(16*stride()) == 0 {
			if _, err := model().Merge(after); err != nil {
				t.Fatalf("cut off at %d: what was made of it: %v", n, err)
			}
		}
	}
}

// One changed byte costs the line it is in, or two if it made one of them, and
// never goes unnoticed.
func TestStateByteChanged(t *testing.T) {
	m := model()
	learn(t, m, 0, 4)
	state, _ := m.Merge(nil)
	first := bytes.IndexByte(state, '\n')
	for n := 0; n < len(state); n += stride() {
		broken := bytes.Clone(state)
		broken[n] ^= byte(1 + n%255)
		m := model()
		if _, err := m.Merge(broken); err == nil {
			t.Fatalf("byte %d: %q for %q was not noticed", n, broken[n], state[n])
		}
		if n > first && m.Stats().Weights+m.Stats().Templates == 0 {
			t.Fatalf("byte %d: nothing was read", n)
		}
	}
}

func TestStateHoldsNoSecrets(t *testing.T) {
	m := model()
	const key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	for i := range 6 {
		p := begin(t, m)
		p.call("login", `{"password":"hunter22","user":"ann"}`, `{"token":"value-of-a-result","id":"id-1"}`)
		p.s.Guesses(p.now)
		suppose(p, "get", `{"name":"supposed"}`, `{"v":"supposed-value"}`)
		p.call("get", `{"id":"id-1","key":"`+key+`"}`, "x")
		p.call("once", fmt.Sprintf(`{"name":"private-%d"}`, i), "y")
		p.s.End()
	}
	state, _ := m.Merge(nil)
	for _, s := range []string{"hunter22", "ghp_", "value-of-a-result", "private-", "supposed"} {
		if strings.Contains(string(state), s) {
			t.Errorf("the state holds %q", s)
		}
	}
}

func FuzzState(f *testing.F) {
	m := model()
	learn(f, m, 0, 3)
	m.Bar("put", "because")
	state, _ := m.Merge(nil)
	for line := range strings.Lines(string(state)) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		_, body, _ := strings.Cut(strings.TrimSpace(line), " ")
		m := model()
		m.Merge(predict.Line(fmt.Sprintf(`{"v":%d}`, predict.StateVersion), body))
		learn(t, m, 0, 2)
		m.Merge(nil)
	})
}

// Any bytes in the place of a state.
func FuzzStateBytes(f *testing.F) {
	m := model()
	learn(f, m, 0, 2)
	state, _ := m.Merge(nil)
	f.Add(state, 0, byte(0))
	f.Add(state[:len(state)/2], 100, byte(7))
	f.Fuzz(func(t *testing.T, state []byte, at int, flip byte) {
		state = bytes.Clone(state)
		if len(state) > 0 {
			state[uint(at)%uint(len(state))] ^= flip
		}
		m := model()
		after, _ := m.Merge(state)
		learn(t, m, 0, 2)
		if _, err := model().Merge(after); err != nil {
			t.Errorf("what was made of it: %v", err)
		}
	})
}
