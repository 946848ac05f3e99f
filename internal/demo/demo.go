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
)

// defaultSpeed brings the minute that the session takes in life down to 15 s.
const defaultSpeed = 4

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

// session plays the script.
func (o Options) session(ctx context.Context, dir, state string) (*report, error) {
	line := &progress{w: o.Terminal}
	defer line.clear()
	direct, through, err := o.both(ctx, dir, state, script, script, line)
	if err != nil {
		return nil, err
	}
	return newReport(direct, through, o.Speed)
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
	one, all, err := o.both(ctx, dir, filepath.Join(dir, "plan"), survey(), surveyPlan(), &progress{})
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

// both plays turns directly, and turns through mcpschedd, at the same time: that halves the
// waiting, and what else this machine does is in both figures. mcpschedd's configuration is
// in dir. The first error ends both.
func (o Options) both(ctx context.Context, dir, state string, direct, through []turn, line *progress) (d, t played, err error) {
	file := filepath.Join(dir, "pipeline_config.toml")
	if err := os.WriteFile(file, o.configuration(state), 0o600); err != nil {
		return d, t, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := func(name string, commands map[string][]string, turns []turn, p *played) {
		if err := o.run(ctx, commands, turns, p, func(turn int) { line.show(name, turn, p.Waited) }); err != nil {
			cancel(fmt.Errorf("%s: %w", name, err))
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		run("direct", map[string][]string{tracker: {UpstreamCommand, tracker}, files: {UpstreamCommand, files}}, direct, &d)
	})
	wg.Go(func() { run("mcpschedd", map[string][]string{"": {"serve", "--config", file}}, through, &t) })
	wg.Wait()
	return d, t, context.Cause(ctx)
}

// run plays turns on an arm of its own, and asks mcpschedd, if it has a part in it, what it
// has recorded.
func (o Options) run(ctx context.Context, commands map[string][]string, turns []turn, p *played, after func(turn int)) error {
	begin := time.Now()
	a, err := o.open(ctx, commands)
	if err != nil {
		return err
	}
	defer a.close()
	p.Start = time.Since(begin)
	if err := p.play(ctx, turns, o.Speed, a.call, after); err != nil || a[""] == nil {
		return err
	}
	p.Stats, err = a.stats(ctx)
	return err
}

// progress is a line on a terminal that says how far both arms are.
type progress struct {
	w io.Writer // nil: there is no terminal

	mu     sync.Mutex
	turn   int
	waited map[string]time.Duration // arm → so far
}

// show takes note of what one of the two has waited.
func (p *progress) show(arm string, turn int, waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil {
		return
	}
	if p.waited == nil {
		p.waited = make(map[string]time.Duration)
	}
	p.turn, p.waited[arm] = max(p.turn, turn), waited
	fmt.Fprintf(p.w, "\r\x1b[KTurn %d of %d. Waited so far: %.2f s directly, %.2f s through mcpschedd", p.turn, len(script), p.waited["direct"].Seconds(), p.waited["mcpschedd"].Seconds())
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
