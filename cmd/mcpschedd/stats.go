package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"mcpschedd/internal/record"
)

const usageStats = `usage: mcpschedd stats [--http URL | --events FILE...] [--watch]
                       [--json|--csv] [--config FILE]

Says what the proxy did and what it saved: of your running processes, or, if none
runs, of the last that ended.

  --http URL         of the mcpschedd that serves HTTP there, such as
                     127.0.0.1:7777; its token is $MCPSCHEDD_TOKEN, or for this
                     machine the one in the state folder
  --events FILE...   of recorded events, plain or gzip; a folder stands for what
                     is in it, - for standard input
  --watch            again each second, until interrupted; where the output is no
                     terminal, whenever something has changed
  --json             print the figures as JSON; with --watch an object a line
  --csv              print a line for each session
  --config FILE      whose state_dir counts (default: see mcpschedd help)

For example:

  mcpschedd stats --events ~/.local/state/mcpschedd/events --csv
`

// statsFlags are its command line.
type statsFlags struct {
	http, config     string
	events           []string
	watch, json, csv bool
}

// runStats prints what was done and saved.
func runStats(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parseStats(args, stdout)
	if err != nil {
		return err
	}
	switch {
	case len(f.events) > 0:
		return f.recorded(ctx, stdout, stderr)
	case f.http != "":
		d, err := f.daemon()
		if err != nil {
			return err
		}
		if f.watch {
			return f.keepLooking(ctx, d.look, stdout, stderr)
		}
		s, err := d.look(ctx)
		if err != nil {
			return err
		}
		return f.print(stdout, s)
	case f.watch:
		return f.watchRunning(ctx, stdout, stderr)
	}
	return f.running(ctx, stdout, stderr)
}

// parseStats reads the command line. As with replay, --events takes all files that
// stand behind it.
func parseStats(args []string, stdout io.Writer) (*statsFlags, error) {
	f := new(statsFlags)
	fs := flag.NewFlagSet("stats", flag.ContinueOnError)
	files := false // the last flag was --events
	fs.Func("events", "", func(s string) error { f.events, files = append(f.events, s), true; return nil })
	text := func(name string, to *string) {
		fs.Func(name, "", func(s string) error {
			if s == "" {
				return fmt.Errorf("want more than nothing")
			}
			*to, files = s, false
			return nil
		})
	}
	text("http", &f.http)
	text("config", &f.config)
	for name, to := range map[string]*bool{"watch": &f.watch, "json": &f.json, "csv": &f.csv} {
		fs.BoolFunc(name, "", func(string) error { *to, files = true, false; return nil })
	}
	for rest := args; ; rest = fs.Args()[1:] {
		if err := parse(fs, rest, usageStats, stdout); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			return f, f.check()
		}
		if !files {
			return nil, noArguments(fs, usageStats)
		}
		f.events = append(f.events, fs.Arg(0))
	}
}

// check finds what makes no sense together.
func (f *statsFlags) check() error {
	recorded, wrong := len(f.events) > 0, ""
	switch {
	case f.json && f.csv:
		wrong = "--json and --csv: want one of them"
	case recorded && f.http != "":
		wrong = "--http and --events: want one of them"
	case recorded && f.watch:
		wrong = "--watch: recorded events do not change; leave --events out to watch the running processes"
	case recorded && f.config != "":
		wrong = "--config: it says where running processes keep their events; leave it out, or --events"
	case f.csv && f.watch:
		wrong = "--watch: --csv is of whole sessions; to follow the figures use --watch --json"
	case f.csv && f.http != "":
		wrong = "--csv: over HTTP there are only sums; on that machine, leave --http out"
	default:
		return nil
	}
	return &usageError{text: wrong, usage: usageStats}
}

// seen is what there is to print at one moment.
type seen struct {
	of    []string // of what: lines for people
	stats record.Stats
}

// print prints it as figures or for people.
func (f *statsFlags) print(w io.Writer, s *seen) error {
	if f.json {
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		if !f.watch {
			out.SetIndent("", "  ")
		}
		return out.Encode(&s.stats)
	}
	columns, _, _ := terminal(w)
	_, err := io.WriteString(w, wrapped(s.of, columns)+"\n"+s.stats.Fit(columns, 0))
	return err
}

// wrapped are lines for people in so many columns; 0 is any number.
func wrapped(of []string, columns int) string {
	var b strings.Builder
	for _, line := range of {
		b.WriteString(strings.Join(record.Wrap(plain(line), columns, 2), "\n") + "\n")
	}
	return b.String()
}

// moment is how a time is shown to people.
func moment(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
