package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcpschedd/tools/launch"
)

// soakSize is the size of an answer in long runs, that of a large file.
const soakSize = 100 << 10

// stall makes many sequential calls, and reports the slowest. A Go server that reads blocking
// pipes may stop for one or two minutes, about once in 25,000 calls.
func stall(ctx context.Context, l *lab) error {
	t, err := l.startOne(ctx, stdio, rawUpstream, proxied)
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

// Targets of the memory (MiB) of the proxy and its guard together.
const (
	mostIdle = 22
	mostUsed = 34
)

// memory measures the resident memory of the proxy and of its guard, without forcing a garbage
// collection.
func memory(ctx context.Context, l *lab) error {
	t, err := l.startOne(ctx, stdio, rawUpstream, proxied)
	if err != nil {
		return err
	}
	defer t.stop()
	pid := t.cmd.Process.Pid
	// Memory that was only needed for the start may be returned to the system first.
	if err := launch.Pause(ctx, 2*time.Second); err != nil {
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

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

// soak makes calls of soakSize in ten parts, and passes the sample of each part to each.
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
