package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"

	"mcpschedd/tools/launch"
)

// Targets of mode connect, all in front of the same kind of server.
const (
	served      = "serve"       // mcpschedd serve
	relayServed = "relay+serve" // serve, with a bare relay before it
	connected   = "connect"     // mcpschedd-small connect, and the daemon behind it
)

// brief is a configuration with which the daemon ends soon after the run.
var brief = launch.Table{"telemetry": nothing["telemetry"], "enrichment": off, "daemon": launch.Table{"idle": "1s"}}

// connect measures calls of 1 KB through connect, through serve, and through serve with a bare
// relay before it: connect may add as much as that relay.
func connect(ctx context.Context, l *lab) error {
	serve, err := l.proxy("connect", brief, l.command(sdkUpstream))
	if err != nil {
		return err
	}
	var targets []*target
	defer func() { stopAll(targets) }()
	for _, way := range []struct {
		name    string
		command []string
	}{
		{served, serve},
		{relayServed, l.command("relay", serve...)},
		{connected, append([]string{l.bin + "-small", "connect"}, serve[2:]...)},
	} {
		t, err := l.startStdio(ctx, way.name, way.command)
		if err != nil {
			return err
		}
		targets = append(targets, t)
	}
	row, err := l.measureCell(ctx, cell{sdkUpstream, stdio, sizes[0], 1}, targets)
	if err != nil {
		return err
	}
	l.report.Cells = append(l.report.Cells, row)
	l.report.atMost("1 KB p50, connect / serve with a relay before it", row.Latency.Median, 1, "")
	return nil
}

// edit is the input that Claude Code gives to its hook before it edits a file.
const edit = `{"hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{},"tool_use_id":"1","session_id":"bench"}`

// hook measures the time of a hook's process, without a daemon and with one, and also of the small
// program when it does nothing.
func hook(ctx context.Context, l *lab) error {
	serve, err := l.proxy("hook", brief, l.command(sdkUpstream))
	if err != nil {
		return err
	}
	idle := []string{l.bin + "-small"}
	report := append([]string{idle[0], "hook"}, serve[2:]...)
	if err := l.timeHook(ctx, "without a daemon", idle, report, 5); err != nil {
		return err
	}
	t, err := l.startStdio(ctx, connected, append([]string{idle[0], "connect"}, serve[2:]...)) // starts a daemon
	if err != nil {
		return err
	}
	defer t.stop()
	return l.timeHook(ctx, "with a daemon", idle, report, 20)
}

// timeHook runs two commands alternately, and compares the second one with its target, in ms.
func (l *lab) timeHook(ctx context.Context, where string, idle, report []string, most float64) error {
	took := make(map[string][]float64)
	for range pick(l, 1000, 100) {
		for name, command := range map[string][]string{"nothing": idle, "hook": report} {
			cmd := exec.CommandContext(ctx, command[0], command[1:]...)
			cmd.Stdin = bytes.NewReader([]byte(edit))
			began := time.Now()
			err := cmd.Run() // exits with a usage error, as it has no arguments
			took[name] = append(took[name], float64(time.Since(began))/float64(time.Millisecond))
			if name == "hook" && err != nil {
				return fmt.Errorf("%q: %w", command, err)
			}
		}
	}
	l.report.addFact("a process that does nothing, "+where+", p50", percentile(took["nothing"], 50), "ms")
	l.report.addFact("a process that does nothing, "+where+", p99", percentile(took["nothing"], 99), "ms")
	l.report.addFact("hook "+where+", p50", percentile(took["hook"], 50), "ms")
	l.report.atMost("hook "+where+", p99", percentile(took["hook"], 99), most, "ms")
	return nil
}
