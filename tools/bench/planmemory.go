package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	fewItems  = 100
	manyItems = 10_000
	// planBytes is the default of the proxy's [plan].max_result_bytes.
	planBytes = 16 << 20
	// heldBytes is what results of planBytes may come to: each is held by itself and in
	// the array that they become, and the collector lets the heap grow to twice that.
	heldBytes = 4 * planBytes
)

// loop is a plan that calls a tool for each item of a list.
type loop struct {
	name  string
	size  int   // bytes of each answer
	keeps bool  // the results come back, so they are held until the end
	fails bool  // with many items there is more of them than may be held
	want  int64 // bytes that the peak may grow by
}

var loops = []loop{
	{name: "results that are not asked for", size: 1 << 10, want: planBytes},
	{name: "results that come back", size: 1 << 10, keeps: true, want: heldBytes},
	{name: "results beyond max_result_bytes", size: 4 << 10, keeps: true, fails: true, want: heldBytes},
}

// planMemory runs each loop over few items again and again, without their results,
// then once over as many as that were in all, in one process: what its memory grows
// by then is what the plan holds, and not what any so many calls leave to be collected.
func (l *lab) planMemory(ctx context.Context) error {
	for i, p := range loops {
		if err := l.loopMemory(ctx, i, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (l *lab) loopMemory(ctx context.Context, i int, p loop) error {
	command, err := l.proxy(fmt.Sprintf("items%d", i), planning, l.command(rawUpstream))
	if err != nil {
		return err
	}
	t, err := l.startStdio(ctx, proxied, command)
	if err != nil {
		return err
	}
	defer t.stop()
	idle, _, ok := resident(t.cmd.Process.Pid)
	if !ok {
		return errors.New("resident memory: not told by this system")
	}
	through := loop{size: p.size}
	for range manyItems / fewItems {
		if _, err := t.runLoop(through, fewItems); err != nil {
			return err
		}
	}
	_, few, _ := resident(t.cmd.Process.Pid)
	took, err := t.runLoop(p, manyItems)
	if err != nil {
		return err
	}
	_, many, _ := resident(t.cmd.Process.Pid)
	l.addLoop(p, idle, few, many, took)
	return nil
}

func (l *lab) addLoop(p loop, idle, few, many int64, took time.Duration) {
	name := fmt.Sprintf("%s, for_each of %d items of %d KB", p.name, manyItems, p.size>>10)
	l.say("%s: %.1f s; resident %.1f MiB idle, peak %.1f MiB after plans of %d items, %.1f MiB after all at once",
		name, took.Seconds(), mib(idle), mib(few), fewItems, mib(many))
	l.report.addFact(name+", took", took.Seconds(), "s")
	l.report.addFact(fmt.Sprintf("%s, peak resident after as many in plans of %d", name, fewItems), mib(few), "MiB")
	l.report.addFact(name+", peak resident", mib(many), "MiB")
	l.report.atMost(name+", growth of the peak", mib(many-few), mib(p.want), "MiB")
}

// runLoop runs the plan over so many items.
func (t *target) runLoop(p loop, items int) (time.Duration, error) {
	c := t.client.(*stdioClient)
	first := c.next // numbers that no other call has
	c.next += int64(items)
	call, err := p.call(items, first)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	answer, err := c.ask(call)
	took := time.Since(start)
	if err != nil {
		return 0, t.fail(err)
	}
	done, err := readPlanned(answer)
	if err != nil {
		return 0, t.fail(err)
	}
	if p.fails {
		if len(done.Steps) != 3 || done.Steps[1].Status != "failed" {
			return 0, fmt.Errorf("steps %v, want the second failed: its results are more than max_result_bytes", done.Steps)
		}
		return took, nil
	}
	return took, done.ran(3)
}

// call is a list, a call for each of its items, and one call after those.
func (p loop) call(items int, first int64) (template, error) {
	output := "last"
	if p.keeps {
		output = "each"
	}
	return planCall([]step{
		{ID: "list", Tool: "list", Arguments: map[string]any{"count": items, "from": first}},
		{
			ID: "each", Tool: "blob", Arguments: map[string]any{"size": p.size, "n": ref("item#")},
			ForEach: ref("list#"), MaxItems: manyItems,
		},
		{ID: "last", Tool: "sleep", Arguments: map[string]any{"ms": 0, "n": first}, DependsOn: []string{"each"}},
	}, []string{output})
}
