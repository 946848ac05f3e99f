package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A server that answers nothing until the maximum number of calls is in flight gets that many
// calls, and never more.
func TestFollowKeepsTheOrderAndTheSlots(t *testing.T) {
	for _, tc := range []struct {
		s    shape
		most int // maximum number of calls in flight
	}{
		{shape{chains: 10, length: 10}, 8},
		{shape{chains: 3, length: 5}, 3},
		{shape{chains: 100, length: 1}, 8},
		{shape{chains: 1, length: 4}, 1},
	} {
		t.Run(tc.s.String(), func(t *testing.T) {
			calls, most := 0, 0
			c := pipeClient(t, func(in io.Reader, out io.Writer) error {
				lines := make(chan string)
				go func() {
					defer close(lines)
					for r := bufio.NewScanner(in); r.Scan(); {
						lines <- r.Text()
					}
				}()
				var open []string
				for {
					var ready <-chan time.Time
					if len(open) > 0 && calls >= tc.most {
						ready = time.After(time.Millisecond) // more may come
					}
					select {
					case line, ok := <-lines:
						if !ok {
							return nil
						}
						open = append(open, line)
						calls++
						most = max(most, len(open))
					case <-ready:
						answer(out, open[0], `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"slept"}]}}`)
						open = open[1:]
					}
				}
			})
			if _, err := c.follow(tools{sleep: "sleep"}, tc.s); err != nil {
				t.Fatal(err)
			}
			if calls != tc.s.calls() || most != tc.most {
				t.Errorf("got %d calls, at most %d in flight, want %d and %d", calls, most, tc.s.calls(), tc.most)
			}
		})
	}
}

func TestChainsBeginWithTheLongest(t *testing.T) {
	for _, tc := range []struct {
		left []int
		busy []bool
		want int // -1: no call begins
	}{
		{[]int{2, 3, 3}, []bool{false, false, false}, 1},
		{[]int{2, 3, 3}, []bool{false, true, true}, 0},
		{[]int{0, 1}, []bool{false, false}, 1},
		{[]int{0, 4}, []bool{false, true}, -1},
		{nil, nil, -1},
	} {
		c := &chains{left: tc.left, busy: tc.busy, running: make(map[int64]int)}
		began := c.begin(7)
		if chain, ok := c.running[7]; began != (tc.want >= 0) || ok != began || ok && chain != tc.want {
			t.Errorf("%v, busy %v: got %t and in flight %v, want chain %d", tc.left, tc.busy, began, c.running, tc.want)
		}
		if c.end(8) || c.end(7) != began || c.end(7) {
			t.Errorf("%v, busy %v: got the end of a call that was not in flight, want only the end of call 7, once", tc.left, tc.busy)
		}
	}
}

// The plan has the order that the client keeps: each step uses the result of the previous one in
// its chain. No two steps have the same arguments.
func TestShapeAsAPlan(t *testing.T) {
	s := shape{chains: 3, length: 4, ms: 20}
	call, err := s.plan("sleep", 7000)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		ID     int64
		Method string
		Params struct {
			Name      string
			Arguments struct {
				Steps []struct {
					ID, Tool  string
					Arguments struct {
						MS, N int
						After map[string]string
					}
				}
			}
		}
	}
	if err := json.Unmarshal(call.append(nil, 42), &m); err != nil {
		t.Fatal(err)
	}
	a := m.Params.Arguments
	if m.ID != 42 || m.Method != "tools/call" || m.Params.Name != "execute_tool_plan" {
		t.Errorf("got %+v, want a call of execute_tool_plan", m)
	}
	if len(a.Steps) != 12 {
		t.Fatalf("got %d steps, want 12", len(a.Steps))
	}
	seen := make(map[int]bool)
	for _, st := range a.Steps {
		var chain, at int
		if _, err := fmt.Sscanf(st.ID, "c%d-%d", &chain, &at); err != nil {
			t.Fatal(err)
		}
		var want map[string]string
		if at > 0 {
			want = map[string]string{"$ref": fmt.Sprintf("c%d-%d#", chain, at-1)}
		}
		if d := cmp.Diff(want, st.Arguments.After); d != "" {
			t.Errorf("%s waits for (-want +got):\n%s", st.ID, d)
		}
		if st.Tool != "sleep" || st.Arguments.MS != 20 || seen[st.Arguments.N] {
			t.Errorf("%s: got %+v, want sleep for 20 ms with a number of its own", st.ID, st)
		}
		seen[st.Arguments.N] = true
	}
}

// A plan counts only if every step ran.
func TestPlansThatDidNotRun(t *testing.T) {
	result := func(structured string) string {
		return `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":` + structured + `}}`
	}
	const steps = `"steps":[{"id":"c0-0","status":"ok","source":"fetched"},{"id":"c1-0","status":"ok","source":"fetched"}]`
	for _, tc := range []struct{ name, answer, want string }{
		{"as it should be", result(`{` + steps + `,"outputs":{"c0-0":"slept","c1-0":"slept"}}`), `^<nil>$`},
		{"an error", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such tool"}}`, `no such tool`},
		{"a refusal", `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"steps: a cycle"}],"isError":true}}`, `a cycle`},
		{"a step is missing", result(`{"steps":[{"id":"c0-0","status":"ok","source":"fetched"}],"outputs":{}}`), `plan of 1 steps, want 2`},
		{"a step failed", result(`{` + strings.Replace(steps, "ok", "failed", 1) + `,"outputs":{}}`), `c0-0: failed`},
		{"a step came from the store", result(`{` + strings.Replace(steps, "fetched", "hit", 1) + `,"outputs":{}}`), `by "hit"`},
		{"an output is missing", result(`{` + steps + `,"outputs":{"c0-0":"slept"}}`), `outputs are missing`},
		{"an output is cut", result(`{` + steps + `,"outputs":{"c0-0":"slept","c1-0":"sl"}}`), `output c1-0`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := pipeClient(t, func(in io.Reader, out io.Writer) error {
				r := bufio.NewScanner(in)
				for r.Scan() {
					answer(out, r.Text(), tc.answer)
				}
				return r.Err()
			})
			_, err := c.runPlan(tools{sleep: "sleep"}, shape{chains: 2, length: 1})
			if !regexp.MustCompile(tc.want).MatchString(fmt.Sprint(err)) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
