package main

import (
	"context"
	"fmt"
	"time"

	"mcpschedd/tools/launch"
)

// planSlots is the number of concurrent calls: the default of the proxy's [plan].max_parallel, and
// the limit of the client.
const planSlots = 8

// planning is a configuration that allows plans and nothing else. The tools only read, so that no
// step waits because of another step's write.
var planning = launch.Table{
	"telemetry":  launch.Table{"events": "off"},
	"enrichment": off,
	"plan":       launch.Table{"enabled": true},
	"tools":      launch.Table{"bench/*": launch.Table{"side_effect_class": "read_only"}},
}

var shapes = []shape{{chains: 10, length: 10, ms: 20}, {chains: 100, length: 1, ms: 20}}

// plan measures the cost of a plan: its time compared with that of a client that makes the same
// calls in the best order.
func plan(ctx context.Context, l *lab) error {
	for _, upstream := range l.upstreams() {
		if err := l.makespans(ctx, upstream); err != nil {
			return err
		}
	}
	return nil
}

// scheduled is one way to make the calls of a shape.
type scheduled struct {
	name string
	on   *target
	run  func(*stdioClient, tools, shape) (time.Duration, error)
	took []float64 // milliseconds per round
}

// makespans measures every shape in rounds. In each round all ways take turns.
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
	// The first plan of a process loads the vocabulary of the tokenizer.
	took, err := proxy.client.(*stdioClient).runPlan(proxy.tools, shape{chains: 1, length: 1})
	if err != nil {
		return proxy.fail(err)
	}
	l.report.addFact(upstream+", first plan of a process, one call of 0 ms", took.Seconds()*1e3, "ms")
	for _, s := range shapes {
		ways := []*scheduled{
			{name: "client, direct", on: bare, run: (*stdioClient).follow},
			{name: "client, proxy", on: proxy, run: (*stdioClient).follow},
			{name: "plan", on: proxy, run: (*stdioClient).runPlan},
		}
		if err := l.timeWays(ctx, s, ways); err != nil {
			return fmt.Errorf("%s, %s: %w", upstream, s, err)
		}
		l.addMakespans(upstream, s, ways)
	}
	return nil
}

func (l *lab) timeWays(ctx context.Context, s shape, ways []*scheduled) error {
	for round := range pick(l, 25, 5) {
		for i := range ways {
			if err := ctx.Err(); err != nil {
				return err
			}
			w := ways[(round+i)%len(ways)] // a different one is first in each round
			c := w.on.client.(*stdioClient)
			took, err := w.run(c, w.on.tools, s)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, w.on.fail(err))
			}
			w.took = append(w.took, took.Seconds()*1e3)
		}
	}
	return nil
}

// addMakespans reports the makespans, and compares the plan with the client that uses the same
// proxy, so that the cost of the proxy itself does not count.
func (l *lab) addMakespans(upstream string, s shape, ways []*scheduled) {
	name := fmt.Sprintf("%s, %s over %d slots", upstream, s, planSlots)
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
}

// differences subtracts round by round, like ratios divides.
func differences(from, less []float64) []float64 {
	var d []float64
	for i := range min(len(from), len(less)) {
		d = append(d, from[i]-less[i])
	}
	return d
}
