package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// soakSize is the answer of the long runs, the size of a large file.
const soakSize = 100 << 10

// startMeasured starts the proxy over stdio, or the relay where there is no proxy to
// measure.
func (l *lab) startMeasured(ctx context.Context) (*target, error) {
	if l.bin == "" {
		return l.startOne(ctx, stdio, rawUpstream, relayed)
	}
	return l.startOne(ctx, stdio, rawUpstream, proxied)
}

// stall makes many calls, one after the other, and looks only at the worst. A
// Go server that reads blocking pipes may stop for one or two minutes, about
// once in 25,000 calls.
func stall(ctx context.Context, l *lab) error {
	t, err := l.startMeasured(ctx)
	if err != nil {
		return err
	}
	defer t.stop()
	calls := pick(l, 20_000, 4_000)
	var worst time.Duration
	slow := 0
	err = l.soak(ctx, t, 1, calls, func(s sample) {
		for _, d := range s.latencies {
			worst = max(worst, d)
			if d > 5*time.Second {
				slow++
			}
		}
		l.say("worst so far %s", worst)
	})
	if err != nil {
		return err
	}
	l.report.addFact(fmt.Sprintf("%s, calls of 100 KB", t.name), float64(calls), "calls")
	l.report.addFact(t.name+", calls over 5 s", float64(slow), "calls")
	l.report.atMost(t.name+", worst call", worst.Seconds(), 5, "s")
	return nil
}

// Targets of memory (MiB), of the proxy together with its guard.
const (
	mostIdle = 22
	mostUsed = 34
)

// memory measures the resident memory of the process in the middle, and of its
// guard if it has one, without asking for a collection.
func memory(ctx context.Context, l *lab) error {
	t, err := l.startMeasured(ctx)
	if err != nil {
		return err
	}
	defer t.stop()
	pid := t.cmd.Process.Pid
	// What starting took may be given back to the system first.
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	idle, _, ok := resident(pid)
	if !ok {
		return errors.New("resident memory: not told by this system")
	}
	guard, _, _ := resident(guardOf(pid))
	l.report.addFact(t.name+", resident, the guard alone", mib(guard), "MiB")
	l.report.atMost(t.name+" and guard, resident, idle", mib(idle+guard), mostIdle, "MiB")
	calls := pick(l, 10_000, 2_000)
	for _, window := range windows {
		if err := l.soak(ctx, t, window, calls, func(sample) {}); err != nil {
			return err
		}
		now, peak, _ := resident(pid)
		name := fmt.Sprintf("%s and guard, resident, after %d calls of 100 KB, %d at once", t.name, calls, window)
		if window == 1 {
			l.report.atMost(name, mib(now+guard), mostUsed, "MiB")
		} else {
			l.report.addFact(name, mib(now+guard), "MiB")
		}
		l.report.addFact(name+", peak", mib(peak+guard), "MiB")
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// soak makes calls of soakSize in ten parts and hands each part's sample on.
func (l *lab) soak(ctx context.Context, t *target, window, calls int, each func(sample)) error {
	call := blobCall(t.tools.blob, soakSize)
	length, err := prove(t.client, call)
	if err != nil {
		return t.fail(err)
	}
	for part := range 10 {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := t.client.drive(load{call: call, window: window, count: calls / 10, length: length})
		if err != nil {
			return t.fail(err)
		}
		l.say("%d of %d calls, %d at once, p50 %s", (part+1)*calls/10, calls, window, percentile(s.latencies, 50))
		each(s)
	}
	return nil
}

// upstreamDelay is how long the upstream of mode start takes to answer
// initialize, as one that is fetched or interpreted does. A proxy that waits
// for it instead of answering from its last-known copy cannot reach the target.
const upstreamDelay = 500 * time.Millisecond

// start measures the time from the start of the process to its answer to
// initialize, the proxy and the relay in turns. The relay has no copy to answer
// from, so its upstream answers at once.
func start(ctx context.Context, l *lab) error {
	commands := map[string][]string{relayed: l.relay(rawUpstream)}
	names := []string{relayed}
	if l.bin != "" {
		command, err := l.proxy("start", everything, l.command(rawUpstream, "-delay", upstreamDelay.String()))
		if err != nil {
			return err
		}
		commands[proxied] = command
		names = append(names, proxied)
		t, err := l.startStdio(ctx, proxied, command) // leaves the last-known copy behind
		if err != nil {
			return err
		}
		t.stop()
	}
	took := make(map[string][]float64)
	for range pick(l, 30, 10) {
		for _, name := range names {
			d, err := l.timeStart(ctx, name, commands[name])
			if err != nil {
				return err
			}
			took[name] = append(took[name], float64(d)/float64(time.Millisecond))
		}
	}
	for _, name := range names {
		s := spreadOf(took[name])
		what := fmt.Sprintf("%s, start to answered initialize, %d starts", name, s.Rounds)
		if name == proxied {
			l.report.atMost(what+", median", s.Median, 50, "ms")
		} else {
			l.report.addFact(what+", median", s.Median, "ms")
		}
		l.report.addFact(what+", max", s.Max, "ms")
	}
	return nil
}

func (l *lab) timeStart(ctx context.Context, name string, command []string) (time.Duration, error) {
	t, err := l.start(ctx, name, command)
	if err != nil {
		return 0, err
	}
	err = initialize(t.client)
	took := time.Since(t.began)
	if err != nil {
		return 0, t.fail(err)
	}
	t.stop()
	return took, nil
}
