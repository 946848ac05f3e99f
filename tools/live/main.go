// Command live plays recorded sessions through a built mcpschedd with a real server process. It
// prints how many calls were answered by prefetches, beside the result of `mcpschedd replay` for
// the same sessions with the same times.
//
//	go run -C tools ./live -trace FILE -train FILE -classes FILE
//	go run -C tools ./live -trace FILE -train FILE -classes FILE -cell stdio/serial/3s
//
// A cell is a kind of server and of client: TRANSPORT/SERVER/TIME/PAUSES, as in
// stdio/parallel/600ms/recorded. An arm is the learned state of the proxy: none at first (cold),
// that of the sessions of -train (trained), or with prefetching off (off), which shows how long
// calls wait without prefetches. The configuration is trust = true and remote = true, and nothing
// else: the server's annotations say which tools are read-only.
//
// The figures are measured outside the proxy. The server records when each call arrived, and the
// client when it made a call and got the answer. A call is covered if the server got it before the
// client made it, and not again. Each session has its own proxy process and server, and runs in
// real time: pauses and latencies could be made shorter, but not the time for which the proxy keeps
// an answer. Sessions wait most of the time, so many are played concurrently.
//
// The ceiling of a cell is what an oracle would cover: it knows which reads come, makes no others,
// keeps the default bounds of the configuration, and delays no call at a serial server. A target
// above the ceiling cannot be met.
//
// Servers that fail, and clients with several servers, are not simulated. A call that is not in the
// recording gets an answer that says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpschedd/tools/launch"
)

// serverRole is the first argument that makes this program the server.
const serverRole = "server"

var errMissed = errors.New("a target is missed")

func main() { launch.Main("live", run) }

// options are the command line.
type options struct {
	trace, train, classes string
	bin                   string // the mcpschedd to measure
	cells                 string // parts of their names, separated by commas
	keep                  string // folder that is kept
}

const (
	sessions = 40               // first sessions of the trace; of -train all are used
	coldLane = 4                // concurrent sessions of a cold arm, as they learn from each other
	places   = 80               // concurrent sessions in total
	think    = 3 * time.Second  // pause where none was recorded
	longest  = 20 * time.Second // maximum of a recorded pause
)

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("live", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.trace, "trace", "", "`FILE` of the recorded sessions to play, plain or gzip")
	f.StringVar(&o.train, "train", "", "`FILE` of those that the trained arm has seen before, all of them")
	f.StringVar(&o.classes, "classes", "", "`FILE` that says of the recorded tools which only read")
	f.StringVar(&o.bin, "bin", filepath.Join("..", "bin", "mcpschedd"), "the mcpschedd `PROGRAM`")
	f.StringVar(&o.cells, "cell", "", "only cells with one of these `WORDS` in their names, as in serial/3s,http/")
	f.StringVar(&o.keep, "keep", "", "leave configurations, journals and what the proxy recorded in `DIR`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q: want no arguments", f.Arg(0))
	case o.trace == "" || o.train == "" || o.classes == "":
		return o, errors.New("-trace, -train, -classes: want a file each")
	case len(o.wanted()) == 0:
		return o, fmt.Errorf("-cell: no cell has one of %q in its name", o.cells)
	}
	return o, nil
}

// wanted returns the cells to measure.
func (o *options) wanted() []cell {
	return slices.DeleteFunc(allCells(), func(c cell) bool {
		return !slices.ContainsFunc(strings.Split(o.cells, ","), func(word string) bool { return strings.Contains(c.String(), word) })
	})
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == serverRole {
		return serve(ctx, args[1:])
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	l, err := newLab(o, stderr)
	if err != nil {
		return err
	}
	defer l.close()
	rows, err := l.measure(ctx)
	if err != nil {
		return err
	}
	if err := printTable(stdout, rows); err != nil {
		return err
	}
	if slices.ContainsFunc(rows, func(r *row) bool { return len(r.Missed) > 0 }) {
		return errMissed
	}
	return nil
}
