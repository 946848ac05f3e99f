package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

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
	c.Flags().Func("http", "show the figures of the mcpschedd that serves HTTP at `URL`,\nsuch as 127.0.0.1:7777; the token is $MCPSCHEDD_TOKEN or, on\nthis machine, the one in the state directory", func(s string) error {
		if f.http = s; s == "" {
			return errors.New("want a URL")
		}
		return nil
	})
	c.Flags().BoolVar(&f.watch, "watch", false, "print again every second, until interrupted; if the output is\nnot a terminal, only when something has changed")
	as := func(name, short, help string) {
		c.Flags().BoolFuncP(name, short, help, func(string) error { f.as = name; return nil })
	}
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

// snapshot is the data to print at one moment.
type snapshot struct {
	period string // period of the figures
	notes  []string
	stats  record.Stats
}

// runStats prints the figures once, or repeatedly with --watch.
func runStats(ctx context.Context, f *statsFlags, stdout, stderr io.Writer) error {
	switch {
	case len(f.files) > 0 && (f.http != "" || f.watch || f.config != ""):
		return usage("files are recorded events: leave out --http, --watch and --config")
	case f.as == "csv" && f.watch:
		return usage("--csv prints a whole table: leave out --watch")
	}
	read, err := f.source(stdout, stderr)
	if err != nil {
		return err
	}
	if f.watch {
		return f.watchFigures(ctx, read, stdout, stderr)
	}
	s, err := read(ctx)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, f.text(s))
	return err
}

// source returns a function that reads the figures: from files, from a process over HTTP, or from
// today's events and the running processes of this user.
func (f *statsFlags) source(stdout, stderr io.Writer) (func(context.Context) (*snapshot, error), error) {
	if len(f.files) > 0 {
		r := newReading(time.Time{}, stderr)
		return func(ctx context.Context) (*snapshot, error) { return r.files(ctx, f.files) }, nil
	}
	if f.http != "" {
		d, err := httpProxyAt(f.http, f.config)
		if err != nil {
			return nil, err
		}
		return d.read, nil
	}
	d, err := eventsDirOf(f.config)
	if err != nil {
		return nil, err
	}
	if f.watch && isTerminal(stdout) {
		stderr = io.Discard // messages would disturb the display
	}
	r := newReading(today(), stderr)
	return func(context.Context) (*snapshot, error) { return r.follow(d) }, nil
}

// today returns the start of the day.
func today() time.Time {
	now := time.Now()
	return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
}

// text formats a snapshot in the chosen format.
func (f *statsFlags) text(s *snapshot) string {
	var b strings.Builder
	switch f.as {
	case "json":
		out := json.NewEncoder(&b)
		out.SetEscapeHTML(false)
		if !f.watch {
			out.SetIndent("", "  ")
		}
		_ = out.Encode(&s.stats) // figures always marshal
		return b.String()
	case "csv":
		_ = s.stats.WriteCSV(&b) // a Builder returns no errors
		return b.String()
	case "line":
		return s.stats.ReportLine() + "\n"
	}
	b.WriteString(s.stats.Saved(s.period) + "\n" + s.stats.StatusText())
	for _, note := range s.notes {
		b.WriteString(record.Printable(note) + "\n")
	}
	if f.as == "verbose" {
		if line := s.stats.ReportLine(); line != "" {
			b.WriteString("\n" + line + "\n")
		}
		b.WriteString("\n" + s.stats.Figures())
	}
	return b.String()
}

// watchEvery is the interval of --watch.
const watchEvery = time.Second

// watchFigures prints the figures until ctx ends: on a terminal each time, replacing the previous
// ones; elsewhere only after a change of totals. The first read must succeed. Later errors are
// printed, and reading continues.
func (f *statsFlags) watchFigures(ctx context.Context, read func(context.Context) (*snapshot, error), stdout, stderr io.Writer) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last, gone := "", ""
	for began := false; ; began = true {
		s, err := read(ctx)
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
			totals, _ := json.Marshal(s.stats.Totals) // figures always marshal
			now := fmt.Sprint(s.stats.Open, string(totals), s.stats.StatusText(), s.notes)
			if isTerminal(stdout) {
				_, err = io.WriteString(stdout, "\x1b[H\x1b[J"+f.text(s)) // clears the screen first
			} else if now != last {
				_, err = io.WriteString(stdout, f.text(s))
			}
			if last = now; err != nil {
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

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
