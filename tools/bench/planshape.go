package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// shape is the work of both plan and client: chains of calls, in each of which a call waits for
// the previous one.
type shape struct {
	chains int
	length int // number of calls of a chain
	ms     int // latency of a call in milliseconds
}

func (s shape) String() string {
	if s.length == 1 {
		return fmt.Sprintf("%d calls of %d ms that wait for nothing", s.chains, s.ms)
	}
	return fmt.Sprintf("%d chains of %d calls of %d ms", s.chains, s.length, s.ms)
}

func (s shape) calls() int { return s.chains * s.length }

// follow makes the calls of a shape over planSlots slots, always the next call of the chain with
// the most remaining ones. That is the best order for chains of equal calls, which a plan has to
// find from its steps. It returns the time from the first request to the last answer.
func (c *stdioClient) follow(names tools, s shape) (time.Duration, error) {
	call := sleepCall(names.sleep, s.ms)
	open := newChains(s)
	start := time.Now()
	c.from.SetReadDeadline(start.Add(patience))
	for {
		for len(open.running) < planSlots {
			id := c.next
			if !open.begin(id) {
				break
			}
			c.next++
			if err := c.send(call.append(c.buf[:0], id)); err != nil {
				return 0, err
			}
		}
		if len(open.running) == 0 {
			return time.Since(start), nil
		}
		line, err := c.lines.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if id, ok := idOf(line); ok && id >= firstID && !open.end(id) {
			return 0, fmt.Errorf("an answer to %d, which is not in flight", id)
		}
	}
}

// chains is the progress of the chains of a shape.
type chains struct {
	left    []int         // chain → calls that have not begun
	busy    []bool        // chain → whether one of its calls is in flight
	running map[int64]int // id of a call in flight → chain
}

func newChains(s shape) *chains {
	return &chains{left: slices.Repeat([]int{s.length}, s.chains), busy: make([]bool, s.chains), running: make(map[int64]int)}
}

// begin assigns the id to the next call of a chain that has no call in flight: the first chain
// with the most remaining calls. It returns false if there is none.
func (c *chains) begin(id int64) bool {
	longest := -1
	for i, n := range c.left {
		if n > 0 && !c.busy[i] && (longest < 0 || n > c.left[longest]) {
			longest = i
		}
	}
	if longest < 0 {
		return false
	}
	c.left[longest]--
	c.busy[longest] = true
	c.running[id] = longest
	return true
}

// end records that a call was answered; false if it was not in flight.
func (c *chains) end(id int64) bool {
	chain, known := c.running[id]
	if known {
		delete(c.running, id)
		c.busy[chain] = false
	}
	return known
}

// step is a step in the arguments of execute_tool_plan.
type step struct {
	ID        string         `json:"id"`
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// plan returns the request that runs the shape as a plan of a tool that sleeps. Each call has a
// number of its own, starting with from, and gets the result of the call that it waits for, as in
// a real plan.
func (s shape) plan(tool string, from int64) (template, error) {
	var all []step
	for i := range s.calls() {
		chain, at := i%s.chains, i/s.chains
		st := step{
			ID: fmt.Sprintf("c%d-%d", chain, at), Tool: tool,
			Arguments: map[string]any{"ms": s.ms, "n": from + int64(i)},
		}
		if at > 0 {
			st.Arguments["after"] = map[string]string{"$ref": fmt.Sprintf("c%d-%d#", chain, at-1)}
		}
		all = append(all, st)
	}
	params, err := json.Marshal(map[string]any{"name": "execute_tool_plan", "arguments": map[string]any{"steps": all}})
	return ask("tools/call", string(params)), err
}

// planned is the result of a plan.
type planned struct {
	Steps []struct {
		ID, Status, Reason, Source string
	}
	Outputs map[string]json.RawMessage
}

// readPlanned decodes the result of a plan. A result without the structure of one, such as for a
// plan with defects, is returned as an error.
func readPlanned(answer []byte) (*planned, error) {
	raw, err := resultOf(answer)
	if err != nil {
		return nil, err
	}
	var result struct {
		StructuredContent *planned
		Content           []struct{ Text string }
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("execute_tool_plan: %w", err)
	}
	if result.StructuredContent == nil {
		return nil, fmt.Errorf("execute_tool_plan: %.500s", raw)
	}
	return result.StructuredContent, nil
}

// ran returns an error unless that many steps ran and were answered by the upstream. The source of
// a step may be missing if there are many steps.
func (p *planned) ran(steps int) error {
	if len(p.Steps) != steps {
		return fmt.Errorf("a plan of %d steps, want %d", len(p.Steps), steps)
	}
	for _, st := range p.Steps {
		if st.Status != "ok" || st.Source != "fetched" && st.Source != "" {
			return fmt.Errorf("step %s: %s, %q, by %q; want it ok and fetched", st.ID, st.Status, st.Reason, st.Source)
		}
	}
	return nil
}

// runPlan runs the shape as one plan, and returns the time from the request to the response.
func (c *stdioClient) runPlan(names tools, s shape) (time.Duration, error) {
	first := c.next // numbers that no other call has
	c.next += int64(s.calls())
	call, err := s.plan(names.sleep, first)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	answer, err := c.ask(call)
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("execute_tool_plan: %w", err)
	}
	p, err := readPlanned(answer)
	if err != nil {
		return 0, err
	}
	if err := p.ran(s.calls()); err != nil {
		return 0, err
	}
	for id, value := range p.Outputs {
		if text, err := strconv.Unquote(string(value)); err != nil || text != "slept" {
			return 0, fmt.Errorf("output %s: %s, want \"slept\"", id, value)
		}
	}
	if len(p.Outputs) != s.calls() {
		return 0, errors.New("outputs are missing")
	}
	return took, nil
}
