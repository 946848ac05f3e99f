package predict_test

import (
	"bytes"
	"fmt"
	"os"
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
	state, err := m.Merge(predict.State{})
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

// Each process has one session, as with clients that start a process per session.
func TestLearnsAcrossProcesses(t *testing.T) {
	var state predict.State
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

// The counts of processes that loaded the same state add up.
func TestMergeLosesNoCounts(t *testing.T) {
	start := model()
	learn(t, start, 0, 5)
	state, _ := start.Merge(predict.State{})
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

// stride is the step between the tested positions in a state, as testing all of them takes long.
func stride() int {
	if os.Getenv("MCPSCHEDD_SOAK") != "" {
		return 1
	}
	return 17
}

// held returns the whole state as a text.
func held(s predict.State) string { return string(s.Server) + string(s.Values) }

// A merge with a state of another version returns an error for each part that names the versions,
// and starts anew.
func TestOtherVersion(t *testing.T) {
	old := predict.State{Server: []byte("learned 6\n12345678"), Values: []byte(`00000000 {"v":6}` + "\n")}
	m := model()
	next, err := m.Merge(old)
	if err == nil || strings.Count(err.Error(), fmt.Sprint("want version ", predict.StateVersion)) != 2 {
		t.Errorf("got error %v, want one of each part that names the version", err)
	}
	learn(t, m, 0, 15)
	if next, err = m.Merge(next); err != nil {
		t.Errorf("the new state: %v", err)
	}
	m = model()
	m.Merge(next)
	if got := nextP(t, m); got < 0.5 {
		t.Errorf("got P %.2f, want it learned", got)
	}
}

// damage merges a damaged state, and checks that the result can be loaded.
func damage(t *testing.T, what string, s predict.State) *predict.Model {
	t.Helper()
	m := model()
	after, err := m.Merge(s)
	if err == nil {
		t.Fatalf("%s: not noticed", what)
	}
	if _, err := model().Merge(after); err != nil {
		t.Fatalf("%s: the new state: %v", what, err)
	}
	return m
}

// A damaged part of a state is started anew, and the other part is loaded.
func TestDamagedState(t *testing.T) {
	m := model()
	learn(t, m, 0, 4)
	m.Bar("put", "because")
	whole := state(t, m)
	change := func(part []byte, n int) []byte {
		part = bytes.Clone(part)
		part[n] ^= byte(1 + n%255)
		return part
	}
	for n := 1; n < len(whole.Server); n += stride() {
		for how, server := range map[string][]byte{"cut off": whole.Server[:n], "changed": change(whole.Server, n)} {
			damage(t, fmt.Sprintf("server's part %s at %d", how, n), predict.State{Server: server, Values: whole.Values})
		}
	}
	for n := 1; n < len(whole.Values); n += stride() {
		for how, values := range map[string][]byte{"cut off": whole.Values[:n], "changed": change(whole.Values, n)} {
			what := fmt.Sprintf("values %s at %d", how, n)
			if damage(t, what, predict.State{Server: whole.Server, Values: values}).Barred("put") == "" {
				t.Fatalf("%s: the bar is lost", what)
			}
		}
	}
}

func TestStateHoldsNoSecrets(t *testing.T) {
	m := model()
	const key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	for i := range 6 {
		p := begin(t, m)
		p.call("login", `{"password":"hunter22","user":"ann"}`, `{"token":"value-of-a-result","id":"id-1"}`)
		p.s.Candidates(p.now)
		p.call("get", `{"id":"id-1","key":"`+key+`"}`, "x")
		p.call("once", fmt.Sprintf(`{"name":"private-%d"}`, i), "y")
		p.s.End()
	}
	state, _ := m.Merge(predict.State{})
	for _, s := range []string{"hunter22", "ghp_", "value-of-a-result", "private-"} {
		if strings.Contains(held(state), s) {
			t.Errorf("the state holds %q", s)
		}
	}
}

// FuzzState loads arbitrary bytes with a valid checksum.
func FuzzState(f *testing.F) {
	m := model()
	learn(f, m, 0, 3)
	m.Bar("put", "because")
	whole := state(f, m)
	f.Add(predict.Unsealed(whole.Server), predict.Unsealed(whole.Values))
	f.Fuzz(func(t *testing.T, server, values []byte) {
		m := model()
		m.Merge(predict.State{Server: predict.Sealed(server), Values: predict.Sealed(values)})
		learn(t, m, 0, 2)
		m.Merge(predict.State{})
	})
}
