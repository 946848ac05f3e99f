package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/record"
)

func statsCommand() *cobra.Command {
	f := new(statsFlags)
	c := &cobra.Command{
		Use:   "stats [FILE...]",
		Short: "Show what was saved today, and the state of the servers",
		Long: `Shows what the proxy saved today, in one sentence, and the state of each server of your
running processes: how many of its tools are cacheable and prefetchable and, if none is,
the configuration line that would change that.

FILE is an event log to read instead, plain or gzip; a directory stands for the files in
it, - for standard input.`,
		Example: `  mcpschedd stats
  mcpschedd stats ~/.local/state/mcpschedd/events --csv`,
		RunE: func(c *cobra.Command, words []string) error {
			f.files = words
			return runStats(c.Context(), f, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &f.config)
	c.Flags().StringVar(&f.http, "http", "", "show the figures of the mcpschedd that serves HTTP at `URL`,\nsuch as 127.0.0.1:7777; the token is $MCPSCHEDD_TOKEN or, on\nthis machine, the one in the state directory")
	c.Flags().BoolVar(&f.watch, "watch", false, "print again when something has changed, until interrupted")
	as := func(name, short, help string) { choice(c, &f.as, name, short, help) }
	as("verbose", "v", "also print all figures")
	as("json", "", "print the figures as JSON; with --watch, one object per line")
	as("csv", "", "print one line per tool")
	as("line", "", "print only the report line")
	c.MarkFlagsMutuallyExclusive("verbose", "json", "csv", "line")
	return c
}

// statsFlags are the flags and arguments of stats.
type statsFlags struct {
	http, config string
	files        []string
	watch        bool
	as           string // "", verbose, json, csv or line
}

// runStats prints the figures once, or repeatedly with --watch.
func runStats(ctx context.Context, f *statsFlags, stdout, stderr io.Writer) error {
	switch {
	case len(f.files) > 0 && (f.http != "" || f.watch || f.config != ""):
		return usage("files are recorded events: leave out --http, --watch and --config")
	case f.as == "csv" && f.watch:
		return usage("--csv prints a whole table: leave out --watch")
	}
	read, err := f.source()
	if err != nil {
		return err
	}
	if f.watch {
		return f.watchFigures(ctx, read, stdout, stderr)
	}
	v, err := read(ctx)
	if err != nil {
		warnOfProblems(&v, stderr)
		return err
	}
	return f.print(&v, stdout, stderr)
}

// source returns a function that reads the figures: from files, from a process over HTTP, or from
// today's events and the running processes of this user.
func (f *statsFlags) source() (func(context.Context) (record.View, error), error) {
	switch {
	case len(f.files) > 0:
		return func(ctx context.Context) (record.View, error) { return record.ReadView(ctx, f.files) }, nil
	case f.http != "":
		d, err := httpClientAt(f.http, f.config)
		if err != nil {
			return nil, err
		}
		return d.view, nil
	}
	view, err := viewOfToday(f.config, !f.watch)
	return func(context.Context) (record.View, error) { return view() }, err
}

// print prints a view in the chosen format. Only the text has the problems of the record.
func (f *statsFlags) print(v *record.View, stdout, stderr io.Writer) error {
	if f.as == "" || f.as == "verbose" {
		_, err := io.WriteString(stdout, v.Text(f.as == "verbose"))
		return err
	}
	warnOfProblems(v, stderr)
	switch f.as {
	case "csv":
		return v.Stats.WriteCSV(stdout)
	case "line":
		line := v.Stats.ReportLine()
		if line == "" {
			say(stderr, "note: no report line, as nothing was prefetched, answered from the cache or planned. %s", v.Saved())
			return nil
		}
		_, err := fmt.Fprintln(stdout, line)
		return err
	}
	if !f.watch {
		return printJSON(stdout, &v.Stats)
	}
	out := json.NewEncoder(stdout)
	out.SetEscapeHTML(false)
	return out.Encode(&v.Stats)
}

// warnOfProblems prints what could not be read.
func warnOfProblems(v *record.View, stderr io.Writer) {
	for _, problem := range v.Problems {
		say(stderr, "warning: %s", problem)
	}
}

// watchEvery is the interval of --watch.
const watchEvery = time.Second

// watchFigures prints the figures whenever they have changed until ctx ends, on a terminal in place
// of the previous ones. The first read must succeed. Later errors are printed, and reading continues.
func (f *statsFlags) watchFigures(ctx context.Context, read func(context.Context) (record.View, error), stdout, stderr io.Writer) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last, gone := "", ""
	for began := false; ; began = true {
		v, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !began:
			return err
		case err != nil && err.Error() != gone:
			gone = err.Error()
			say(stderr, "warning: %s", gone)
		case err == nil:
			gone = ""
			now := fmt.Sprintf("%d %+v %s", v.Stats.Open, v.Stats.Totals, v.Text(false))
			if now == last {
				break
			}
			last = now
			if isTerminal(stdout) {
				io.WriteString(stdout, "\x1b[H\x1b[J") // clears the screen; print returns the error, if any
			}
			if err := f.print(&v, stdout, stderr); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
