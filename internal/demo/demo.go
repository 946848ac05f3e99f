// Package demo plays one agent session twice at the same time, straight to the MCP servers
// and through mcpschedd, and puts the waits side by side. A piece of reading is then done
// call by call, and as one plan.
//
// The one idea: nothing is pretended but time. The servers are real MCP servers in processes
// of their own, spoken to over stdio; the proxy is this same binary with a configuration
// file like any user's, [Config]; the agent takes every argument from an answer it was
// given. Only think times and tool latencies are made up, and both are shortened by one
// factor, [Options.Speed], with the times that the configuration names.
//
//	err := demo.Run(ctx, demo.Options{Stdout: os.Stdout, Terminal: os.Stderr})
//
// The two runs must agree on every answer to the byte, else Run fails: a fast wrong answer
// is no result. Waits are measured where the agent waits. What mcpschedd does with a call is
// read from the answer's _meta, and what it prefetched from its own record.
//
// It leaves out everything a benchmark needs: repetition, load, percentiles.
package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/record"
)

const (
	// defaultSpeed brings the minute that the session takes in life down to 15 s.
	defaultSpeed = 4
	// afterwards is the think time after the last turn, in life.
	afterwards = 3 * time.Second
)

// Options say where the demo writes and how fast it plays.
type Options struct {
	Stdout     io.Writer // what came of it; default: nowhere
	Terminal   io.Writer // one line that is written over and over while it plays; nil: none
	JSON       bool      // the same figures as one JSON object
	Speed      float64   // think and tool times, and those of Config, are divided by it; default 4, life is 1
	Executable string    // the mcpschedd to run as proxy and as servers; default: this one
	Keep       string    // a new or empty folder, in which the state of mcpschedd's run stays, its record too; "": nothing does
}

// Run plays the session directly and through mcpschedd and reports both. It returns after
// every process it started has ended, with ctx's error if ctx ended first.
func Run(ctx context.Context, o Options) (err error) {
	o.Stdout = cmp.Or(o.Stdout, io.Discard)
	o.Speed = cmp.Or(o.Speed, defaultSpeed)
	if err := checkSpeed(o.Speed); err != nil {
		return err
	}
	if o.Executable == "" {
		if o.Executable, err = os.Executable(); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "mcpschedd-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	state := filepath.Join(dir, "state")
	if o.Keep != "" {
		if state, err = emptyFolder(o.Keep); err != nil {
			return fmt.Errorf("keep: %w", err)
		}
	}
	r, err := o.session(ctx, dir, state)
	if err == nil {
		r.Plan, err = o.plan(ctx, dir)
	}
	if err != nil {
		return cmp.Or(ctx.Err(), err) // the end of ctx rather than what broke because of it
	}
	if o.JSON {
		return r.writeJSON(o.Stdout)
	}
	return r.writeText(o.Stdout, o.Keep)
}

// session plays the script on both arms at the same time: it halves the waiting, and what
// else this machine does is in both figures.
func (o Options) session(ctx context.Context, dir, state string) (*report, error) {
	line := &progress{w: o.Terminal}
	defer line.clear()
	var direct, through played
	var stats *record.Stats
	err := o.both(ctx, dir, state, func(ctx context.Context, a arm, start time.Duration) error {
		direct.Start = start
		return direct.play(ctx, script, o.Speed, a.call, func(turn int) { line.show(&line.direct, turn, direct.Waited) })
	}, func(ctx context.Context, a arm, start time.Duration) error {
		through.Start = start
		err := through.play(ctx, script, o.Speed, a.call, func(turn int) { line.show(&line.through, turn, through.Waited) })
		if err != nil {
			return err
		}
		// What was fetched for the agent's next call was fetched in vain, and shall count.
		if err := sleep(ctx, shorten(afterwards, o.Speed)); err != nil {
			return err
		}
		stats, err = a.stats(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newReport(direct, through, stats, o.Speed)
}

// planned is a piece of reading done twice: a call a turn, as most agents do it, and all of
// it as one plan. What an agent thinks in between is not in it.
type planned struct {
	Calls    int     `json:"calls"`
	DirectMS float64 `json:"direct_ms"` // waiting, a call after the other
	PlanMS   float64 `json:"plan_ms"`   // waiting for the plan
}

// plan does it both ways, each at new servers that were not asked anything before. What the
// plan brings must hold every answer of the single calls.
func (o Options) plan(ctx context.Context, dir string) (*planned, error) {
	var one, all played
	err := o.both(ctx, dir, filepath.Join(dir, "plan"), func(ctx context.Context, a arm, _ time.Duration) error {
		return one.play(ctx, survey(), o.Speed, a.call, func(int) {})
	}, func(ctx context.Context, a arm, _ time.Duration) error {
		return all.play(ctx, surveyPlan(), o.Speed, a.call, func(int) {})
	})
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := json.Compact(&text, []byte(all.Answers[0].Text)); err != nil {
		return nil, err
	}
	for _, a := range one.Answers[1:] { // the list is not among the plan's outputs
		if !strings.Contains(text.String(), a.Text) {
			return nil, fmt.Errorf("%s: the plan brought another answer", a.short(70))
		}
	}
	return &planned{len(one.Answers), milliseconds(one.Waited), milliseconds(all.Waited)}, nil
}

// both runs what is done directly and what is done through mcpschedd at the same time, each
// on an arm of its own; start is how long that took to be there. mcpschedd's configuration is
// in dir. The first error ends the other one.
func (o Options) both(ctx context.Context, dir, state string, direct, through func(_ context.Context, _ arm, start time.Duration) error) error {
	file := filepath.Join(dir, "pipeline_config.toml")
	if err := os.WriteFile(file, o.configuration(state), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	run := func(name string, commands map[string][]string, do func(context.Context, arm, time.Duration) error) {
		begin := time.Now()
		a, err := o.open(ctx, commands)
		if err == nil {
			err = do(ctx, a, time.Since(begin))
			a.close()
		}
		if err != nil {
			cancel(fmt.Errorf("%s: %w", name, err))
		}
	}
	wg.Go(func() {
		run("direct", map[string][]string{tracker: {UpstreamCommand, tracker}, files: {UpstreamCommand, files}}, direct)
	})
	wg.Go(func() { run("mcpschedd", map[string][]string{"": {"serve", "--config", file}}, through) })
	wg.Wait()
	return context.Cause(ctx)
}

// progress is a line on a terminal that says how far both arms are.
type progress struct {
	w io.Writer // nil: there is no terminal

	mu              sync.Mutex
	turn            int
	direct, through time.Duration // waited
}

// show takes note of what one of the two has waited.
func (p *progress) show(arm *time.Duration, turn int, waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*arm, p.turn = waited, max(p.turn, turn)
	if p.w != nil {
		fmt.Fprintf(p.w, "\r\x1b[KTurn %d of %d. Waited so far: %.2f s directly, %.2f s through mcpschedd", p.turn, len(script), p.direct.Seconds(), p.through.Seconds())
	}
}

func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// emptyFolder makes the folder of [Options.Keep], and refuses one that holds something: what
// an earlier run has learned there would make this one another session, and the record would
// be of both.
func emptyFolder(path string) (string, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", err
	}
	if entries, err := os.ReadDir(path); err != nil {
		return "", err
	} else if len(entries) > 0 {
		return "", errors.New(path + " is not empty: want a new folder")
	}
	return filepath.Abs(path)
}

func checkSpeed(speed float64) error {
	if !(speed > 0) || math.IsInf(speed, 0) {
		return fmt.Errorf("speed %v: want a number above 0", speed)
	}
	return nil
}
