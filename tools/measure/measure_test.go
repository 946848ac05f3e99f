package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/replay"
	"mcpschedd/tools/dataset"
)

func made(t *testing.T) *floor {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "floor"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"reads": 100, "curve": [
		{"issued_per_call": 0, "coverage": 0}, {"issued_per_call": 0.1, "coverage": 0.2},
		{"issued_per_call": 0.5, "coverage": 0.1}, {"issued_per_call": 2, "coverage": 0.4}]}`
	if err := os.WriteFile(filepath.Join(dir, "floor", "set.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := readFloor(dir, "set")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFloor(t *testing.T) {
	f := made(t)
	for issued, want := range map[float64]float64{0.05: 0, 0.1: 0.2, 0.5: 0.2, 1.8: 0.2, 2: 0.4} {
		if got := f.at(issued); got != want {
			t.Errorf("at %v: got %v, want %v", issued, got, want)
		}
	}
	where := f.where()
	if where[0] != 0.1 || where[len(where)-1] != last || !slices.Contains(where, 0.5) {
		t.Errorf("got %v", where)
	}
}

// A curve is interpolated, and its reads are at least those of the floor.
func TestCurve(t *testing.T) {
	f := made(t)
	report := func(perCall float64, used, repeats int) *replay.Report {
		r := &replay.Report{}
		r.IssuedPerCall, r.Used, r.UsedByRepeats, r.Reads, r.Repeats = perCall, used, repeats, 95, 5
		return r
	}
	points := curve([]*replay.Report{report(0.4, 30, 10), report(0.2, 10, 0)}, f)
	for issued, want := range map[float64]float64{0.1: 0.05, 0.2: 0.1, 0.3: 0.15, 0.4: 0.2, 1: 0.2} {
		if got := coverage(points, issued); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("at %v: got %v, want %v", issued, got, want)
		}
	}
}

func TestTargets(t *testing.T) {
	judge := func(calls int, all ...place) string {
		var v verdicts
		r := &replay.Report{}
		r.Calls = calls
		judgeCurve(&v, r, all)
		var b strings.Builder
		v.print(&b, "set")
		return b.String()
	}
	for _, c := range []struct {
		name   string
		calls  int
		all    []place
		passed int
	}{
		{"all over it", 100, []place{{0.1, 0.1, 0.1}, {0.5, 0.1, 0.2}}, 2},
		{"under it once", 100, []place{{0.1, 0.1, 0.09}, {0.5, 0.1, 0.2}}, 1},
		{"not by enough", 100, []place{{0.1, 0.1, 0.1}, {0.5, 0.1, 0.12}}, 1},
		{"not by enough, out of the range", 100, []place{{0.1, 0.1, 0.1}, {0.5, 0.1, 0.2}, {1.2, 0.1, 0.12}}, 2},
		{"not by enough, anywhere", 5000, []place{{0.1, 0.1, 0.12}, {0.5, 0.1, 0.2}}, 1},
		{"nothing", 5000, []place{{0.1, 0.1, 0}}, 0},
	} {
		if out := judge(c.calls, c.all...); strings.Count(out, "PASS") != c.passed || strings.Count(out, "MISS") != 2-c.passed {
			t.Errorf("%s: want %d of 2 passed, got %s", c.name, c.passed, out)
		}
	}
}

func TestClasses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "classes.toml")
	text := "[tools.get]\nside_effect_class = \"read_only\"\n[tools.set]\ninvalidates = [{ tool = \"get\", match = [\"id\"] }]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	model, err := dataset.Classes(name)
	if err != nil {
		t.Fatal(err)
	}
	if !model("get").Class.Reads() || model("set").Class.Reads() || len(model("set").Invalidates) != 1 {
		t.Errorf("got %v and %v", model("get"), model("set"))
	}
	if model("Bash").Classify == "" || asFloor(model)("Bash").Classify != "" {
		t.Error("a shell is classified by its command, except for the floor")
	}
}

func TestNext(t *testing.T) {
	if got := next(112); got != 200 { // at the end of a trace
		t.Errorf("after 112: got %d, want 200", got)
	}
	var got []int
	for n := 1; n < 300; n = next(n) {
		got = append(got, n)
	}
	if want := []int{1, 2, 5, 10, 20, 50, 100, 200}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Held-out workloads have all calls of the traces that they are made of, and are valid traces.
func TestHeldOut(t *testing.T) {
	call := func(session string, batch int, tool, arguments string) replay.Call {
		return replay.Call{Session: session, Batch: batch, Tool: tool, Arguments: []byte(arguments), Text: "Abz 1"}
	}
	a := []replay.Call{call("airline-m-t3-0", 0, "get", `{"n":1e2,"s":["ab"]}`), call("airline-m-t3-0", 0, "get", `{}`), call("airline-m-t12-0", 1, "get", `{}`)}
	b := []replay.Call{call("x", 4, "Bash", `{"command":"ls"}`), call("y", 5, "Read", `{}`), call("y", 7, "Read", `{}`)}
	var batches []int
	for _, c := range mixed(a, b) {
		batches = append(batches, c.Batch)
	}
	if want := []int{1, 1, 4, 1, 4, 5}; !slices.Equal(batches, want) {
		t.Errorf("mixed: got batches %v, want %v", batches, want)
	}
	if odd, even := byTask(a); len(odd) != 2 || len(even) != 1 {
		t.Errorf("by task: got %d and %d calls", len(odd), len(even))
	}
	if c := renamed(a)[0]; string(c.Arguments) != `{"n":1e2,"s":["hi"]}` || c.Text != "Hig 1" {
		t.Errorf("renamed: got %s, %s", c.Arguments, c.Text)
	}
	if c := renamed(b)[0]; string(c.Arguments) != `{"command":"ls"}` {
		t.Errorf("renamed: got %s", c.Arguments)
	}
}

// Of what invented agents read, two fifths or more are prefetched, and two fifths of all prefetches are
// used. The first agents read a list in order, from anywhere: of that, most is prefetched at once. It is 0.60
// if all samples of a call count the same.
func TestInvented(t *testing.T) {
	var out strings.Builder
	invented(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
	if len(lines) != 2*len(agents) {
		t.Fatalf("got %q", lines)
	}
	for i, line := range lines {
		least := 0.40
		if i == 0 {
			least = 0.63
		}
		var accuracy, coverage float64
		fields := strings.Fields(line)
		if _, err := fmt.Sscan(strings.Join(fields[len(fields)-2:], " "), &accuracy, &coverage); err != nil || accuracy < 0.4 || coverage < least {
			t.Errorf("got %s", line)
		}
	}
}
