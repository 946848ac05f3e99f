// Command live plays recorded sessions against a real server process through a built
// mcpschedd, and prints what was answered before it was asked for, beside what
// `mcpschedd replay` says of the same sessions with the same times.
//
//	go run -C tools ./live -trace FILE -train FILE -classes FILE
//	go run -C tools ./live -trace FILE -cell stdio/serial/3s -arms off,cold
//
// A cell is a kind of server and of client: TRANSPORT/SERVER/TIME/PAUSES, as in
// stdio/parallel/600ms/recorded. An arm is what the proxy knows: nothing at first (cold), what
// the sessions of -train taught it (trained), or that it must not prefetch (off), which says
// how long calls wait without prefetches. The configuration is trust = true and remote = true,
// and nothing else: what only reads the server says itself.
//
// The one idea: what counts is seen from outside the proxy. The server writes down when each
// call came, and the client when it asked and was answered: a call is covered if its server had
// been asked for it before, and not again. Each session has a proxy process and a server of its
// own, and time is real: pauses and the time a tool takes could be made shorter, but not how long
// the proxy keeps an answer. Sessions wait nearly all the time, so many are played at once.
//
// The ceiling of a cell is what an oracle would cover there: it knows which reads come, makes
// no others, keeps the bounds that the configuration has by default, and at a serial server has
// no call wait. A target above the ceiling cannot be met.
//
// It leaves out servers that fail, and clients with several servers. The answer to a call
// that no recording holds is a line that says so.
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
	cells                 string // parts of their names, with commas between
	arms                  string
	sessions              int           // of the trace, the first; from -train all are learned
	lanes                 int           // sessions at once of a cold arm, as far as they learn from each other
	atOnce                int           // sessions in all
	think                 time.Duration // a pause that was not recorded
	longest               time.Duration // of a recorded pause
	keep                  string        // folder
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("live", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.trace, "trace", "", "`FILE` of the recorded sessions to play, plain or gzip")
	f.StringVar(&o.train, "train", "", "`FILE` of those that the trained arm has seen before, all of them")
	f.StringVar(&o.classes, "classes", "", "`FILE` that says of the recorded tools which only read")
	f.StringVar(&o.bin, "bin", filepath.Join("..", "bin", "mcpschedd"), "the mcpschedd `PROGRAM`")
	f.StringVar(&o.cells, "cell", "", "only cells with one of these `WORDS` in their names, as in serial/3s,http/")
	f.StringVar(&o.arms, "arms", "off,cold,trained", "which of them")
	f.IntVar(&o.sessions, "sessions", 40, "play the first `N` of -trace")
	f.IntVar(&o.lanes, "lanes", 4, "`N` sessions of a cold arm at once: what one learns, those know that begin later")
	f.IntVar(&o.atOnce, "at-once", 80, "`N` sessions at once of all cells")
	f.DurationVar(&o.think, "think", 3*time.Second, "`TIME` between an answer and the next call, where that was not recorded")
	f.DurationVar(&o.longest, "longest", 20*time.Second, "longest `TIME` of a recorded pause that is waited out")
	f.StringVar(&o.keep, "keep", "", "leave configurations, journals and what the proxy recorded in `DIR`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	wanted := strings.Split(o.arms, ",")
	switch unknown := slices.IndexFunc(wanted, func(a string) bool { return !slices.Contains(armNames(), a) }); {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q: want no arguments", f.Arg(0))
	case o.trace == "" || o.classes == "":
		return o, errors.New("-trace and -classes: want a file each")
	case unknown >= 0:
		return o, fmt.Errorf("-arms: want %s, have %q", strings.Join(armNames(), ", "), wanted[unknown])
	case slices.Contains(wanted, trained) && o.train == "":
		return o, errors.New("-train: want a file, or -arms without trained")
	case o.sessions < 1 || o.lanes < 1 || o.atOnce < 1:
		return o, errors.New("-sessions, -lanes, -at-once: want 1 or more")
	case len(o.wanted()) == 0:
		return o, fmt.Errorf("-cell: no cell has one of %q in its name", o.cells)
	}
	return o, nil
}

// wanted are the cells to measure.
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
