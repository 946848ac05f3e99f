// Command bench measures a built mcpschedd from outside, as a process, in the way that a client
// uses it.
//
// A time alone says little on a shared machine. So each figure of the proxy is compared with two
// others that are measured in the same run with the same upstream, in turns of a fraction of a
// second: for the upstream reached directly, and for a bare relay that only copies bytes. Targets
// apply to the ratio to the relay, round by round.
//
//	go run -C tools ./bench -quick
//	go run -C tools ./bench -only stdio/1KB
//	go run -C tools ./bench -mode stall -check
//
// It does not measure what the proxy saves, only what passing through it costs, with all features
// off or on. Upstream, relay and HTTP relay are roles of this program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"mcpschedd/tools/launch"
)

const usage = `usage: bench [flags]

  -mode speed    p50, p99, calls per second, CPU per call: direct, relay, proxy
  -mode enrich   the same of the proxy with everything on beside everything off
  -mode record   the same of the proxy with the event log on beside it off
  -mode versions the same of the proxy of -bin beside an earlier build of it
  -mode stall    20,000 calls of 100 KB, none may take over 5 s
  -mode memory   resident memory with the guard's, idle and after 10,000 calls of 100 KB
  -mode hook     a client's hook, from its start to its end, without a daemon and with one
  -mode connect  calls of 1 KB through connect beside serve, and beside serve with
                 a relay before it
  -mode plan     a plan of 100 steps beside a client that makes the same calls in
                 the same order

`

// options are the flags of one run.
type options struct {
	mode  string // one of modes
	bin   string // file of the proxy
	old   string // file of an earlier build, for mode versions
	only  string // part of the names of the cells to measure; "" means all
	kind  string // of the upstream: raw, sdk or both
	plain bool   // the stdio relay is plainRelay
	quick bool   // shorter, and less precise
	check bool   // exit code 1 if a target is missed
}

var errMissed = errors.New("a target is missed")

func main() { launch.Main("bench", run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		if role, ok := roles[args[0]]; ok {
			if err := role(args[1:]); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		}
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	r, err := measure(ctx, o, stderr)
	if err != nil {
		return err
	}
	if err := r.write(stdout); err != nil {
		return err
	}
	if o.check && !r.passed() {
		return errMissed
	}
	return nil
}

// roles are the processes that a run starts from this program.
var roles = map[string]func(args []string) error{
	rawUpstream: upstreamMain,
	sdkUpstream: sdkMain,
	relayed:     relayMain,
	plainRelay:  plainRelayMain,
	"httprelay": httpRelayMain,
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, usage)
		fs.PrintDefaults()
	}
	fs.StringVar(&o.mode, "mode", "speed", "one of the above")
	fs.StringVar(&o.bin, "bin", filepath.Join("..", "bin", "mcpschedd"), "the mcpschedd `FILE` to measure")
	fs.StringVar(&o.old, "old", "", "versions: `FILE` of the earlier build")
	fs.StringVar(&o.only, "only", "", "speed: only cells whose name contains `TEXT`, as in stdio/1KB/32")
	fs.StringVar(&o.kind, "upstream", "both", "speed, plan: `KIND` sdk, a server built with mcp-go, which the targets were stated with; raw, one that answers from memory, "+
		"whose rows show the proxy at its worst and are not judged; or both")
	fs.BoolVar(&o.plain, "plain", false, "the relay on stdio reads its input as most Go programs do: each read blocks a thread")
	fs.BoolVar(&o.quick, "quick", false, "about a minute and a half instead of six (speed), fewer calls elsewhere")
	fs.BoolVar(&o.check, "check", false, "exit 1 if a target is missed")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	_, known := modes[o.mode]
	if !known || o.upstreams() == nil || fs.NArg() > 0 || (o.old != "") != (o.mode == "versions") {
		fs.Usage()
		return o, errors.New("want a -mode, -upstream sdk, raw or both, and -old with -mode versions alone")
	}
	return o, nil
}

// upstreams returns the kinds to measure; nil if the flag names none.
func (o options) upstreams() []string {
	switch o.kind {
	case "both":
		return []string{sdkUpstream, rawUpstream}
	case sdkUpstream, rawUpstream:
		return []string{o.kind}
	}
	return nil
}

var modes = map[string]func(context.Context, *lab) error{
	"speed":    speed,
	"enrich":   speed,
	"record":   speed,
	"versions": speed,
	"stall":    stall,
	"memory":   memory,
	"hook":     hook,
	"connect":  connect,
	"plan":     plan,
}

// measure runs one mode in a folder of its own, and returns its report.
func measure(ctx context.Context, o options, progress io.Writer) (*report, error) {
	dir, err := os.MkdirTemp("", "mcpschedd-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	l, err := newLab(o, dir, progress)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := modes[o.mode](ctx, l); err != nil {
		return nil, err
	}
	l.report.Seconds = time.Since(began).Seconds()
	return l.report, nil
}
