package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/replay"
)

func replayCommand() *cobra.Command {
	f := new(replayFlags)
	c := &cobra.Command{
		Use:    "replay FILE...",
		Short:  "Play recorded calls, and say what would have been prefetched",
		Hidden: true,
		Long: `Plays recorded calls through what decides and stores live, in recorded time, and says
which answers would have been there before they were asked for.

FILE holds recorded calls, plain or gzip: one JSON object a line, of session, batch,
ts_ms, res_ts_ms, tool, arguments, result_text, result_bytes and is_error. They are taken
for calls of one upstream, "trace". A call takes as long as was recorded, else as its
model says.`,
		Example: `  mcpschedd replay calls.jsonl.gz
  mcpschedd replay calls.jsonl --train earlier.jsonl --set enrichment.max_age=2s --json`,
		Args: takes(1, -1, "a file of recorded calls"),
		RunE: func(c *cobra.Command, words []string) error {
			f.traces = words
			return runReplay(c.Context(), f, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringArrayVar(&f.train, "train", nil, "play `FILE` first, to learn from; it is not counted; repeatable")
	c.Flags().StringArrayVar(&f.configs, "config", nil, "read the configuration from `FILE`; repeatable, the later\nwins")
	c.Flags().StringArrayVar(&f.sets, "set", nil, "`KEY=VALUE` of the configuration, over the files; repeatable")
	c.Flags().StringVar(&f.policy, "policy", "learned", "`NAME` is learned: as configured, what was learned included;\nstatic: configured follow-ups alone; off: no prefetches;\noracle: of the reads of the next turn alone")
	c.Flags().DurationVar(&f.think, "think", 3*time.Second, "`TIME` between an answer and the next call, where that is\nnot recorded")
	c.Flags().IntVar(&f.keepTurns, "keep-turns", 0, "tell time in turns: a prefetch may be used for `N` of them,\nnone is made of what was asked before, the calls of a turn\ncome in one instant, reads first; no slots, no throttles")
	c.Flags().BoolVar(&f.json, "json", false, "print figures as JSON")
	c.Flags().BoolVar(&f.csv, "csv", false, "print a line for each session and a total")
	c.MarkFlagsMutuallyExclusive("json", "csv")
	_ = c.RegisterFlagCompletionFunc("policy", oneOf(replayPolicies()...)) // the flag is there
	return c
}

func replayPolicies() []string { return []string{"learned", "static", "off", "oracle"} }

// replayFlags are its command line.
type replayFlags struct {
	traces, train, configs, sets []string
	policy                       string
	think                        time.Duration
	keepTurns                    int
	json, csv                    bool
}

// runReplay plays recorded calls.
func runReplay(ctx context.Context, f *replayFlags, stdout, stderr io.Writer) error {
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
	tell := newTeller(stderr)
	for i, s := range append(slices.Clip(train), trace...) {
		if i < len(train) {
			p.Train([]*replay.Session{s})
		} else {
			p.Play([]*replay.Session{s})
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		tell.progress("%d of %d sessions", i+1, len(train)+len(trace))
	}
	return f.print(stdout, p.Reports()[0])
}

func (f *replayFlags) print(w io.Writer, r *replay.Report) error {
	switch {
	case f.csv:
		return r.WriteCSV(w)
	case f.json:
		return printJSON(w, r)
	}
	_, err := r.WriteTo(w)
	return err
}

// check finds what makes no sense.
func (f *replayFlags) check() error {
	switch {
	case !slices.Contains(replayPolicies(), f.policy):
		return usage("--policy: want learned, static, off or oracle, have %q", f.policy)
	case f.think <= 0:
		return usage("--think: want more than 0, have %v", f.think)
	case f.keepTurns < 0 || f.keepTurns > mostTurns:
		return usage("--keep-turns: want 0 to %d, have %d", mostTurns, f.keepTurns)
	}
	return nil
}

const mostTurns = 1_000_000

// recorded reads traces, all of them before anything is played.
func recorded(files []string) ([]*replay.Session, error) {
	var all []*replay.Session
	for _, name := range files {
		calls, err := replay.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(calls) == 0 {
			return nil, errors.New(name + ": no calls in it")
		}
		all = append(all, replay.Sessions(calls)...)
	}
	return all, nil
}
