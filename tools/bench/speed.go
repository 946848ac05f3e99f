package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// cell is a kind of call to measure.
type cell struct {
	upstream string
	front    string
	size     int // bytes of text in the answer
	window   int // calls in flight
}

func (c cell) String() string {
	return fmt.Sprintf("%s/%s/%s/%d", c.upstream, c.front, sizeName(c.size), c.window)
}

func sizeName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%dMB", n>>20)
	}
	return fmt.Sprintf("%dKB", n>>10)
}

var (
	sizes   = []int{1 << 10, 100 << 10, 1 << 20}
	windows = []int{1, 32}
)

// speed measures every cell in rounds. In each round all targets take turns, so that other load on
// the machine affects all of them equally.
func speed(ctx context.Context, l *lab) error {
	measured := false
	for _, upstream := range l.upstreams() {
		for _, front := range []string{stdio, overHTTP} {
			cells := l.cells(upstream, front)
			if len(cells) == 0 {
				continue
			}
			measured = true
			targets, err := l.startAll(ctx, front, upstream)
			if err != nil {
				return err
			}
			err = l.measureFront(ctx, cells, targets)
			stopAll(targets)
			if err != nil {
				return err
			}
		}
	}
	if !measured {
		return fmt.Errorf("-only %q: no such cell", l.only)
	}
	return nil
}

func (l *lab) cells(upstream, front string) []cell {
	var cells []cell
	for _, size := range sizes {
		for _, window := range windows {
			c := cell{upstream, front, size, window}
			if strings.Contains(c.String(), l.only) {
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// measureFront measures cells with the upstream and front of the targets.
func (l *lab) measureFront(ctx context.Context, cells []cell, targets []*target) error {
	for _, c := range cells {
		row, err := l.measureCell(ctx, c, targets)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		l.report.addCell(row)
		l.say("%-19s %s", c, row.brief())
	}
	return nil
}

// runner has the measurements of one target in a cell.
type runner struct {
	*target
	load      load
	warm      time.Duration   // median of the warm-up
	latencies []time.Duration // of all rounds
	medians   []float64       // per round, in seconds
	rates     []float64       // per round, calls per second
	cpu       time.Duration   // of the process in the middle
	cpuKnown  bool            // cpu includes every round
}

func (l *lab) measureCell(ctx context.Context, c cell, targets []*target) (row, error) {
	var runners []*runner
	warm := pick(l, 600*time.Millisecond, 200*time.Millisecond)
	for _, t := range targets {
		r, err := newRunner(c, t, warm)
		if err != nil {
			return row{}, t.fail(err)
		}
		runners = append(runners, r)
	}
	slice, rounds := turns(pick(l, 175*time.Millisecond, 110*time.Millisecond), pick(l, 26, 10), runners)
	for round := range rounds {
		for i := range runners {
			if err := ctx.Err(); err != nil {
				return row{}, err
			}
			// A different one is first in each round, as the state of the machine may depend on
			// which target was measured before.
			r := runners[(round+i)%len(runners)]
			if err := r.turn(slice); err != nil {
				return row{}, r.fail(err)
			}
		}
	}
	return newRow(c, runners), nil
}

// fewestRounds is the minimum number of rounds of a cell.
const fewestRounds = 8

// turns returns the length of a target's turn, and the number of rounds. Many short rounds are
// better than few long ones, as the kernel's placement of processes changes within a second and
// affects a median by half. But a turn must be long enough for several sequential calls; otherwise
// its rate depends on the first and the last ones.
func turns(usual time.Duration, rounds int, runners []*runner) (time.Duration, int) {
	slice := usual
	for _, r := range runners {
		slice = max(slice, 3*r.warm)
	}
	return slice, max(int(time.Duration(rounds)*usual/slice), min(rounds, fewestRounds))
}

// newRunner checks one answer, and warms t up.
func newRunner(c cell, t *target, warm time.Duration) (*runner, error) {
	call := blobCall(t.tools.blob, c.size)
	length, err := prove(t.client, call)
	if err != nil {
		return nil, err
	}
	r := &runner{target: t, load: load{call: call, window: c.window, span: warm, length: length}, cpuKnown: true}
	s, err := t.client.drive(r.load)
	if err != nil {
		return nil, err
	}
	r.warm = percentile(s.latencies, 50)
	return r, nil
}

// turn drives the target for one turn.
func (r *runner) turn(slice time.Duration) error {
	r.load.span = slice
	before, ok1 := cpuTime(r.cmd.Process.Pid)
	s, err := r.client.drive(r.load)
	if err != nil {
		return err
	}
	after, ok2 := cpuTime(r.cmd.Process.Pid)
	r.cpu += after - before
	r.cpuKnown = r.cpuKnown && ok1 && ok2
	r.latencies = append(r.latencies, s.latencies...)
	r.medians = append(r.medians, percentile(s.latencies, 50).Seconds())
	r.rates = append(r.rates, s.rate())
	return nil
}
