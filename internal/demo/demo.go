// Package demo plays one agent session twice at the same time, directly to two MCP servers and
// through mcpschedd, and compares the waits. It then makes a series of reads call by call and
// as one plan.
//
// Only the times are simulated. The servers are real MCP servers in processes of their own,
// connected over stdio. The proxy is this binary with an ordinary configuration file, [Config].
// The agent takes every argument from an earlier answer. Think times and tool latencies are
// invented; [Options.Speed] shortens them, together with the times of the configuration.
//
//	err := demo.Run(ctx, demo.Options{Stdout: os.Stdout, Terminal: os.Stderr})
//
// Run fails if the answers of the two runs differ in a single byte. Waits are measured at the
// agent. The disposition of a call comes from its result's _meta, and the number of prefetches
// from mcpschedd's statistics.
//
// The demo is not a benchmark: it has no repetition, load or percentiles.
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

// defaultSpeed shortens the session from about a minute to 15 s.
const defaultSpeed = 4

// Options configure the demo.
type Options struct {
	Stdout     io.Writer // receives the report; default: discarded
	Terminal   io.Writer // receives a progress line that overwrites itself; nil for none
	JSON       bool      // write the report as one JSON object
	Speed      float64   // divides think and tool times and those of Config; default 4, real time is 1
	Executable string    // mcpschedd binary to run as proxy and servers; default: this binary
	Keep       string    // new or empty folder for the state and record of mcpschedd's run; empty: removed at the end
}

// Run plays the session directly and through mcpschedd and reports both. It returns after all
// processes that it started have ended. If ctx is done it returns the error of ctx.
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
		return cmp.Or(ctx.Err(), err) // err may only be a consequence of ctx
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
	direct, through, err := o.runBoth(ctx, dir, state, script, script, line)
	if err != nil {
		return nil, err
	}
	return newReport(direct, through, o.Speed)
}

// planComparison compares a series of reads, one call per turn as most agents do it, with one
// plan. It does not include think times.
type planComparison struct {
	Calls    int     `json:"calls"`
	DirectMS float64 `json:"direct_ms"` // total wait of the calls
	PlanMS   float64 `json:"plan_ms"`   // wait for the plan
}

// plan runs the comparison with new servers. The result of the plan must contain the answers of
// all single calls.
func (o Options) plan(ctx context.Context, dir string) (*planComparison, error) {
	one, all, err := o.runBoth(ctx, dir, filepath.Join(dir, "plan"), survey(), surveyPlan(), &progress{})
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := json.Compact(&text, []byte(all.Answers[0].Text)); err != nil {
		return nil, err
	}
	for _, a := range one.Answers[1:] { // the list is not an output of the plan
		if !strings.Contains(text.String(), a.Text) {
			return nil, fmt.Errorf("%s: the plan returned a different answer", a.short(70))
		}
	}
	return &planComparison{len(one.Answers), milliseconds(one.Waited), milliseconds(all.Waited)}, nil
}

// runBoth plays the turns of direct without mcpschedd and those of through with it, at the same
// time. This halves the duration, and other load on the machine affects both runs. It writes
// mcpschedd's configuration to dir. The first error ends both runs.
func (o Options) runBoth(ctx context.Context, dir, state string, direct, through []turn, line *progress) (d, t runResult, err error) {
	file := filepath.Join(dir, "pipeline_config.toml")
	if err := os.WriteFile(file, o.configuration(state), 0o600); err != nil {
		return d, t, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := func(name string, commands map[string][]string, turns []turn, p *runResult) {
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

// run plays turns on a new arm, and reads mcpschedd's statistics if the arm uses mcpschedd.
func (o Options) run(ctx context.Context, commands map[string][]string, turns []turn, p *runResult, after func(turn int)) error {
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

// progress is a line on a terminal that shows the progress of both runs.
type progress struct {
	w io.Writer // nil for no output

	mu     sync.Mutex
	turn   int
	waited map[string]time.Duration // arm → total wait so far
}

// show updates the line with the progress of one run.
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

// emptyFolder creates the folder of [Options.Keep]. It refuses a folder that is not empty, since
// the state of an earlier run would change this run.
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
