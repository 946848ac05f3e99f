package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// planSlots is how many calls are under way at once: the default of the proxy's
// [plan].max_parallel, and what the client keeps to.
const planSlots = 8

// planning is a configuration under which plans may run, and nothing else than
// calls is under way. The tools only read, so that no step waits for another's sake.
const planning = `[telemetry]
events = "off"
[enrichment]
mode = "off"
[plan]
enabled = true
[tools."bench/*"]
side_effect_class = "read_only"
`

var shapes = []shape{{chains: 10, length: 10, ms: 20}, {chains: 100, length: 1, ms: 20}}

// plan measures what a plan costs: its time beside that of a client that makes the
// same calls in the best order, and the memory of one that goes over many items.
func plan(ctx context.Context, l *lab) error {
	if l.bin == "" {
		return errors.New("-mode plan: there is no plan without a proxy")
	}
	for _, upstream := range l.upstreams() {
		if err := l.makespans(ctx, upstream); err != nil {
			return err
		}
	}
	return l.planMemory(ctx)
}

// scheduled is one way to make the calls of a shape.
type scheduled struct {
	name string
	run  func(shape) (time.Duration, error)
	on   *target
	took []float64 // milliseconds, per round, as the client sees it
	span []float64 // as the server does
}

// makespans times every shape in rounds, in which all ways take their turn.
func (l *lab) makespans(ctx context.Context, upstream string) error {
	bare, err := l.startOne(ctx, stdio, upstream, direct)
	if err != nil {
		return err
	}
	defer bare.stop()
	command, err := l.proxy("plan"+upstream, planning, l.command(upstream))
	if err != nil {
		return err
	}
	proxy, err := l.startStdio(ctx, proxied, command)
	if err != nil {
		return err
	}
	defer proxy.stop()
	if err := l.firstPlan(upstream, proxy); err != nil {
		return err
	}
	for _, s := range shapes {
		ways := []*scheduled{
			{name: "client, direct", run: bare.follow, on: bare},
			{name: "client, proxy", run: proxy.follow, on: proxy},
			{name: "plan", run: proxy.runPlan, on: proxy},
		}
		if err := l.timeWays(ctx, s, ways); err != nil {
			return fmt.Errorf("%s, %s: %w", upstream, s, err)
		}
		l.addMakespans(upstream, s, ways)
	}
	return nil
}

// follow has t's client make the calls of the shape.
func (t *target) follow(s shape) (time.Duration, error) {
	took, err := t.client.(*stdioClient).follow(sleepCall(t.tools.sleep, s.ms), s, planSlots)
	if err != nil {
		return 0, t.fail(err)
	}
	return took, nil
}

// runPlan has t run the shape as a plan.
func (t *target) runPlan(s shape) (time.Duration, error) {
	took, err := t.client.(*stdioClient).runPlan(t.tools.sleep, s)
	if err != nil {
		return 0, t.fail(err)
	}
	return took, nil
}

// firstPlan tells what the first plan of a process takes, for which the tokenizer's
// vocabulary is loaded.
func (l *lab) firstPlan(upstream string, proxy *target) error {
	took, err := proxy.runPlan(shape{chains: 1, length: 1})
	if err != nil {
		return err
	}
	l.report.addFact(upstream+", first plan of a process, one call of 0 ms", took.Seconds()*1e3, "ms")
	return nil
}

func (l *lab) timeWays(ctx context.Context, s shape, ways []*scheduled) error {
	for round := range pick(l, 25, 5) {
		for i := range ways {
			if err := ctx.Err(); err != nil {
				return err
			}
			w := ways[(round+i)%len(ways)] // another one is first each time
			took, err := w.run(s)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			span, err := w.on.span()
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.took, w.span = append(w.took, took.Seconds()*1e3), append(w.span, span.Seconds()*1e3)
		}
	}
	return nil
}

// addMakespans reports the ways' makespans, and holds the plan to the client that
// goes through the same proxy: what standing in between costs is not the plan's.
func (l *lab) addMakespans(upstream string, s shape, ways []*scheduled) {
	name := fmt.Sprintf("%s, %s over %d slots", upstream, s, planSlots)
	l.report.addFact(name+", lower bound", s.bound(planSlots).Seconds()*1e3, "ms")
	bare, through, whole := ways[0], ways[1], ways[2]
	for _, w := range ways {
		took := spreadOf(w.took)
		l.report.addFact(fmt.Sprintf("%s, %s, median of %d", name, w.name, took.Rounds), took.Median, "ms")
		l.say("%s: %s %s ms", name, w.name, took)
	}
	added := spreadOf(differences(whole.took, through.took))
	l.report.addFact(name+", plan - client, direct, median", spreadOf(differences(whole.took, bare.took)).Median, "ms")
	l.report.addFact(name+", plan - client, proxy, first quartile", added.Low, "ms")
	l.report.addFact(name+", plan - client, proxy, third quartile", added.High, "ms")
	l.report.atMost(name+", plan - client, proxy, median", added.Median, 2, "ms")
	spans := spreadOf(differences(whole.span, through.span))
	l.report.atMost(name+", the same between the first call's arrival and the last one's end", spans.Median, 2, "ms")
}

// differences subtracts round by round, as ratios divides.
func differences(from, less []float64) []float64 {
	var d []float64
	for i := range min(len(from), len(less)) {
		d = append(d, from[i]-less[i])
	}
	return d
}
