package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"mcpschedd/internal/replay"
)

const usageReplay = `usage: mcpschedd replay --trace FILE... [--train FILE...] [--config FILE...] [--set KEY=VALUE...]
                        [--policy learned|static|off|oracle] [--think DURATION] [--keep-turns N] [--json|--csv]

Plays recorded calls through what decides and stores live, in recorded time, and
says which answers would have been there before they were asked for.

  --trace FILE...    recorded calls, plain or gzip: one JSON object a line, of
                     session, batch, ts_ms, res_ts_ms, tool, arguments,
                     result_text, result_bytes and is_error
  --train FILE...    played first, to learn from; not counted
  --config FILE...   configurations, the later wins (default: see mcpschedd help).
                     The recorded tools are those of one upstream, "trace"
  --set KEY=VALUE    one key of the configuration, over the files; repeatable
  --policy NAME      learned (default): as configured, what was learned included
                     static: configured follow-ups alone; off: no guesses
                     oracle: guesses at the reads of the next turn, and no others
  --think DURATION   between an answer and the next call, where that is not
                     recorded (default 3s)
  --keep-turns N     tell time in turns: a guess may be used for N of them, at
                     what was asked before there is no guess, the calls of a turn
                     come in one instant, reads first; no slots, no throttles
  --json, --csv      print figures as JSON, or a line for each session and a total

A call takes as long as was recorded, else as its model says.
`

// replayFlags are its command line.
type replayFlags struct {
	traces, train, configs, sets []string
	policy                       string
	think                        time.Duration
	keepTurns                    int
	json, csv                    bool
}

// runReplay plays recorded calls.
func runReplay(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parseReplay(args, stdout)
	if err != nil {
		return err
	}
	t, err := settle(f)
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
	p := replay.New(t.options, t.arm)
	show := progress{w: stderr, all: len(train) + len(trace), next: time.Now().Add(progressEvery)}
	for _, s := range train {
		p.Train([]*replay.Session{s})
		if err := show.played(ctx); err != nil {
			return err
		}
	}
	for _, s := range trace {
		p.Play([]*replay.Session{s})
		if err := show.played(ctx); err != nil {
			return err
		}
	}
	return f.print(stdout, p.Reports()[0])
}

func (f *replayFlags) print(w io.Writer, r *replay.Report) error {
	switch {
	case f.csv:
		return r.WriteCSV(w)
	case f.json:
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	_, err := r.WriteTo(w)
	return err
}

// parseReplay reads the command line. A flag that takes files takes all that
// stand behind it.
func parseReplay(args []string, stdout io.Writer) (*replayFlags, error) {
	f := &replayFlags{policy: "learned", think: 3 * time.Second}
	fs := flag.NewFlagSet("replay", flag.ContinueOnError)
	var files *[]string // of the last flag that takes some
	many := func(name string, list *[]string) {
		fs.Func(name, "", func(s string) error {
			*list, files = append(*list, s), list
			return nil
		})
	}
	many("trace", &f.traces)
	many("train", &f.train)
	many("config", &f.configs)
	one := func(name string, set func(string) error) {
		fs.Func(name, "", func(s string) error {
			files = nil
			return set(s)
		})
	}
	one("set", func(s string) error { f.sets = append(f.sets, s); return nil })
	one("policy", func(s string) error { f.policy = s; return nil })
	one("think", func(s string) (err error) { f.think, err = time.ParseDuration(s); return err })
	one("keep-turns", func(s string) (err error) { f.keepTurns, err = strconv.Atoi(s); return err })
	fs.BoolFunc("json", "", func(string) error { files, f.json = nil, true; return nil })
	fs.BoolFunc("csv", "", func(string) error { files, f.csv = nil, true; return nil })
	for rest := args; ; rest = fs.Args()[1:] {
		if err := parse(fs, rest, usageReplay, stdout); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			return f, f.check()
		}
		if files == nil {
			return nil, noArguments(fs, usageReplay)
		}
		*files = append(*files, fs.Arg(0))
	}
}

// check finds what makes no sense.
func (f *replayFlags) check() error {
	wrong := ""
	switch policies := []string{"learned", "static", "off", "oracle"}; {
	case len(f.traces) == 0:
		wrong = "--trace: want a file of recorded calls"
	case !slices.Contains(policies, f.policy):
		wrong = fmt.Sprintf("--policy: want learned, static, off or oracle, have %q", f.policy)
	case f.think <= 0:
		wrong = fmt.Sprintf("--think: want more than 0, have %v", f.think)
	case f.keepTurns < 0 || f.keepTurns > mostTurns:
		wrong = fmt.Sprintf("--keep-turns: want 0 to %d, have %d", mostTurns, f.keepTurns)
	case f.json && f.csv:
		wrong = "--json and --csv: want one of them"
	default:
		return nil
	}
	return &usageError{text: wrong, usage: usageReplay}
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

// progressEvery is how often a long run says how far it is.
const progressEvery = 2 * time.Second

// progress says so.
type progress struct {
	w         io.Writer
	done, all int
	next      time.Time
}

// played counts a session, and ends the run when ctx has ended.
func (p *progress) played(ctx context.Context) error {
	p.done++
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(progressEvery)
		fmt.Fprintf(p.w, "mcpschedd: %d of %d sessions\n", p.done, p.all)
	}
	return ctx.Err()
}
