package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/replay"
	"mcpschedd/internal/speculate"
)

func replayCommand() *cobra.Command {
	f := new(replayFlags)
	c := &cobra.Command{
		Use:    "replay FILE...",
		Short:  "Replay recorded calls, and report what would have been prefetched",
		Hidden: true,
		Long: `Replays recorded calls through the live prediction and cache, in recorded time, and
reports which results would have been there before they were requested.

FILE holds recorded calls, plain or gzip, one JSON object per line: session, batch, ts_ms,
res_ts_ms, tool, arguments, result_text, result_bytes and is_error. They are treated as
calls of one server, "trace", with exclusive = true, so max_age is 5m unless it is set.
A call takes as long as recorded or, if that is missing, as long as its model says.`,
		Example: `  mcpschedd replay calls.jsonl.gz
  mcpschedd replay calls.jsonl --train earlier.jsonl --set enrichment.max_age=2s --json`,
		Args: takes(1, -1, "a file of recorded calls"),
		RunE: func(c *cobra.Command, words []string) error {
			f.traces = words
			return runReplay(c.Context(), f, c.OutOrStdout())
		},
	}
	c.Flags().StringArrayVar(&f.train, "train", nil, "replay `FILE` first, for learning; not counted; repeatable")
	c.Flags().StringArrayVar(&f.configs, "config", nil, "read the configuration from `FILE`; repeatable, later files\nwin")
	c.Flags().StringArrayVar(&f.sets, "set", nil, "set `KEY=VALUE` of the configuration, over the files;\nrepeatable")
	c.Flags().StringVar(&f.policy, "policy", "learned", "`NAME` is learned: as configured, with learned follow-ups;\nstatic: only configured follow-ups; off: no prefetches;\noracle: exactly the reads of the next turn")
	c.Flags().DurationVar(&f.think, "think", speculate.DefaultThink, "`TIME` between a result and the next call, if it is not\nrecorded")
	c.Flags().IntVar(&f.keepTurns, "keep-turns", 0, "measure time in turns: a prefetch can be used for `N` turns,\nearlier calls are not prefetched, the calls of a turn come\nat one instant, reads first; no slots, no throttling")
	c.Flags().BoolVar(&f.json, "json", false, "print the figures as JSON")
	c.Flags().BoolVar(&f.csv, "csv", false, "print one line per session, and a total")
	c.MarkFlagsMutuallyExclusive("json", "csv")
	return c
}

// replayFlags are the flags and arguments of replay.
type replayFlags struct {
	traces, train, configs, sets []string
	policy                       string
	think                        time.Duration
	keepTurns                    int
	json, csv                    bool
}

// runReplay replays recorded calls, and prints the report.
func runReplay(ctx context.Context, f *replayFlags, stdout io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	options, arm, err := settingsOf(f)
	if err != nil {
		return err
	}
	train, err := recorded(f.train)
	if err != nil {
		return err
	}
	trace, err := recorded(f.traces)
	if err != nil {
		return err
	}
	p := replay.New(options, arm)
	for i, s := range append(slices.Clip(train), trace...) {
		if i < len(train) {
			p.Train([]*replay.Session{s})
		} else {
			p.Play([]*replay.Session{s})
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	report := p.Reports()[0]
	switch {
	case f.csv:
		return report.WriteCSV(stdout)
	case f.json:
		return printJSON(stdout, report)
	}
	_, err = report.WriteTo(stdout)
	return err
}

// check validates the flags.
func (f *replayFlags) check() error {
	switch {
	case !slices.Contains([]string{"learned", "static", "off", "oracle"}, f.policy):
		return usage("--policy: want learned, static, off or oracle, have %q", f.policy)
	case f.think <= 0:
		return usage("--think: want more than 0, have %v", f.think)
	case f.keepTurns < 0 || f.keepTurns > 1_000_000:
		return usage("--keep-turns: want 0 to 1000000, have %d", f.keepTurns)
	}
	return nil
}

// recorded reads all traces.
func recorded(files []string) ([]*replay.Session, error) {
	var all []*replay.Session
	for _, name := range files {
		calls, err := replay.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(calls) == 0 {
			return nil, errors.New(name + ": no calls")
		}
		all = append(all, replay.Sessions(calls)...)
	}
	return all, nil
}
