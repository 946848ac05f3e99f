package main

import (
	"bytes"
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
	as("csv", "", "print one line per session")
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
	silent bool // no figures; the notes explain why
	stats  record.Stats
	rows   func() []record.SessionRow // one per session; nil if unknown
}

// runStats prints the figures once, or repeatedly with --watch.
func runStats(ctx context.Context, f *statsFlags, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
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
	return f.print(stdout, s)
}

// check validates the combination of flags and arguments.
func (f *statsFlags) check() error {
	switch recorded := len(f.files) > 0; {
	case recorded && f.http != "":
		return usage("want either --http or files")
	case recorded && f.watch:
		return usage("--watch: recorded events do not change; leave the files out to watch the running processes")
	case recorded && f.config != "":
		return usage("--config: it locates the events of running processes; leave out either it or the files")
	case f.as == "csv" && f.watch:
		return usage("--watch: --csv prints whole sessions; to follow the figures use --watch --json")
	case f.as == "csv" && f.http != "":
		return usage("--csv: only sums are available over HTTP; run it without --http on that machine")
	}
	return nil
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
	if _, _, ok := terminal(stdout); ok && f.watch {
		stderr = io.Discard // messages would disturb the frame
	}
	r := newReading(today(), stderr)
	return func(context.Context) (*snapshot, error) {
		if day := today(); !r.since.Equal(day) {
			r = newReading(day, stderr)
		}
		return r.follow(d)
	}, nil
}

// today returns the start of the day.
func today() time.Time {
	now := time.Now()
	return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
}

// print prints a snapshot in the chosen format.
func (f *statsFlags) print(w io.Writer, s *snapshot) error {
	switch f.as {
	case "json":
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		if !f.watch {
			out.SetIndent("", "  ")
		}
		return out.Encode(&s.stats)
	case "csv":
		return record.WriteCSV(w, s.rows())
	case "line":
		_, err := fmt.Fprintln(w, s.stats.ReportLine())
		return err
	}
	_, err := io.WriteString(w, f.text(s))
	return err
}

// text formats a snapshot for people.
func (f *statsFlags) text(s *snapshot) string {
	var b strings.Builder
	if !s.silent {
		b.WriteString(s.stats.Saved(s.period) + "\n")
	}
	b.WriteString(s.stats.StatusText())
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
// ones; elsewhere only after a change. The first read must succeed. Later errors are printed, and
// reading continues.
func (f *statsFlags) watchFigures(ctx context.Context, read func(context.Context) (*snapshot, error), stdout, stderr io.Writer) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last, gone string
	for began := false; ; began = true {
		s, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !began:
			return err
		case err != nil:
			if text := err.Error(); text != gone {
				gone = text
				say(stderr, "warning: %s", text)
			}
		default:
			gone = ""
			if last, err = f.show(stdout, s, last); err != nil {
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

// show prints a snapshot unless it is equal to last, and returns the value to compare the next one
// with, which leaves out times and the current state of limits.
func (f *statsFlags) show(w io.Writer, s *snapshot, last string) (now string, err error) {
	if width, height, ok := terminal(w); ok && f.as != "json" {
		_, err := w.Write(frame(f.text(s), width, height))
		return "", err
	}
	figures, _ := json.Marshal(s.stats.Totals) // figures always marshal
	if now = fmt.Sprint(s.stats.Open, f.text(s), string(figures)); now == last {
		return now, nil
	}
	var text bytes.Buffer
	if f.as != "json" && last != "" {
		text.WriteString("\n")
	}
	if err := f.print(&text, s); err != nil {
		return now, err
	}
	_, err = w.Write(text.Bytes())
	return now, err
}

// frame returns the bytes that replace the content of a terminal of that size with a text. The
// last line stays empty, for the cursor.
func frame(text string, width, height int) []byte {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	out := []byte("\x1b[H")
	for _, line := range lines[:min(len(lines), max(height-1, 1))] {
		letters := []rune(line)
		out = append(out, string(letters[:min(len(letters), max(width, 1))])+"\x1b[K\n"...)
	}
	return append(out, "\x1b[J"...)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminal reports whether w is a terminal, and its size.
func terminal(w io.Writer) (width, height int, ok bool) {
	if !isTerminal(w) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || width == 0 || height == 0 { // size unknown
		return 80, 24, true
	}
	return width, height, true
}

// formatTime formats a time for people.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
