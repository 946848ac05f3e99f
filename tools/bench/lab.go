package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"mcpschedd/tools/launch"
)

// Targets of measurements, in the order of the report.
const (
	direct  = "direct"
	relayed = "relay"
	proxied = "proxy"

	switchedOff = "off" // the proxy with all features off
	switchedOn  = "on"  // the proxy with its defaults, and with known tools

	older = "old" // the proxy of -old
	newer = "new" // the proxy of -bin, for comparison with it
)

// The upstreams, which are also roles of this program.
const (
	rawUpstream = "raw" // answers from memory, faster than any real server
	sdkUpstream = "sdk" // a server with mcp-go, for which the targets are defined
)

// Transports of the client.
const (
	stdio    = "stdio"
	overHTTP = "http"
)

// lab has the folder, the programs and the report of a run.
type lab struct {
	options
	self     string    // this program, which is also upstream and relay
	dir      string    // configurations, state and logs; removed at the end
	progress io.Writer // gets a line from time to time, as a run takes minutes
	report   *report
}

func newLab(o options, dir string, progress io.Writer) (*lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, program := range []*string{&o.bin, &o.old} {
		if *program != "" {
			if *program, err = launch.Program(*program); err != nil {
				return nil, err
			}
		}
	}
	return &lab{options: o, self: self, dir: dir, progress: progress, report: newReport(o)}, nil
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.progress, format+"\n", args...)
}

// pick returns full, or quick with -quick.
func pick[T any](l *lab, full, quick T) T {
	if l.quick {
		return quick
	}
	return full
}

// command returns the command line of one of this program's roles.
func (l *lab) command(role string, args ...string) []string {
	return append([]string{l.self, role}, args...)
}

// relay returns the command line of the stdio relay in front of an upstream.
func (l *lab) relay(upstream string) []string {
	role := relayed
	if l.plain {
		role = plainRelay
	}
	return l.command(role, l.command(upstream)...)
}

var off = launch.Table{"mode": "off"}

// nothing is a configuration in which everything but passing messages through is off.
var nothing = launch.Table{"telemetry": launch.Table{"events": "off"}, "enrichment": off}

// recording is like nothing, but with the event log on.
var recording = launch.Table{"enrichment": off}

// everything is a configuration in which each call is looked up, predicted and learned from.
var everything = launch.Table{
	"telemetry":  launch.Table{"events": "off"},
	"enrichment": launch.Table{"mode": "on"},
	"upstreams":  launch.Table{"bench": launch.Table{"exclusive": true}},
	"tools": launch.Table{"bench/*": launch.Table{
		"side_effect_class": "read_only",
		"follow_up": []launch.Table{{
			"tool": "blob", "probability": 0.1, "args": launch.Table{"size": "$args.size", "n": "$result..n"},
		}},
	}},
}

// proxy returns the command line of the proxy in front of the upstream. name is the name of its
// state folder: a proxy that is started twice with the same name finds its earlier state.
func (l *lab) proxy(name string, what launch.Table, upstream []string, flags ...string) ([]string, error) {
	dir := filepath.Join(l.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	bench := launch.Table{"command": upstream[0], "args": upstream[1:]}
	if more, ok := what["upstreams"].(launch.Table); ok {
		maps.Copy(bench, more["bench"].(launch.Table))
	}
	config := maps.Clone(what)
	config["server"] = launch.Table{"state_dir": filepath.Join(dir, "state")}
	config["upstreams"] = launch.Table{"bench": bench}
	file := filepath.Join(dir, "config.toml")
	if err := launch.Configure(file, config); err != nil {
		return nil, err
	}
	bin := l.bin
	if strings.HasSuffix(name, older) {
		bin = l.old
	}
	return append([]string{bin, "serve", "--config", file}, flags...), nil
}

// compared returns the names of the targets behind a front. Over HTTP there is no direct one, as
// the upstream only speaks stdio.
func (l *lab) compared(front string) []string {
	names := []string{direct, relayed, proxied}
	if front == overHTTP {
		names = names[1:]
	}
	switch {
	case l.mode == "enrich" || l.mode == "record":
		return []string{switchedOff, switchedOn}
	case l.mode == "versions":
		return []string{older, newer}
	}
	return names
}

// startAll starts all targets for this front and upstream, and makes them ready for calls.
func (l *lab) startAll(ctx context.Context, front, upstream string) ([]*target, error) {
	var all []*target
	for _, name := range l.compared(front) {
		t, err := l.startOne(ctx, front, upstream, name)
		if err != nil {
			stopAll(all)
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (l *lab) startOne(ctx context.Context, front, upstream, name string) (*target, error) {
	server := l.command(upstream)
	what := nothing
	switch {
	case name == switchedOn && l.mode == "record":
		what = recording
	case name == switchedOn:
		what = everything
	}
	if front == overHTTP {
		addr, err := launch.FreeAddress()
		if err != nil {
			return nil, err
		}
		if name == relayed {
			command := l.command("httprelay", append([]string{addr}, server...)...)
			return l.startHTTP(ctx, name, command, addr, "/")
		}
		command, err := l.proxy(front+upstream+name, what, server, "--http", addr, "--auth", "none")
		if err != nil {
			return nil, err
		}
		return l.startHTTP(ctx, name, command, addr, "/mcp")
	}
	switch name {
	case direct:
		return l.startStdio(ctx, name, server)
	case relayed:
		return l.startStdio(ctx, name, l.relay(upstream))
	}
	command, err := l.proxy(front+upstream+name, what, server)
	if err != nil {
		return nil, err
	}
	return l.startStdio(ctx, name, command)
}
