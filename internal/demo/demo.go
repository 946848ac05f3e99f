// Package demo plays one agent session twice, straight to the MCP servers and
// through mcpschedd, and puts the waits side by side. A piece of reading is then
// done call by call, and as one plan.
//
// The one idea: nothing is pretended but time. The upstreams are real MCP
// servers in processes of their own, spoken to over stdio; the proxy is this
// same binary with a configuration file like any user's, [Config]; the agent
// takes every argument from an answer it was given. Only think times and tool
// latencies are made up, and both are shortened by one factor, [Options.Speed],
// with the times that the configuration names.
//
//	err := demo.Run(ctx, demo.Options{Stdout: os.Stdout, Stderr: os.Stderr})
//
// The two runs must agree on every answer to the byte, else Run fails: a fast
// wrong answer is no result. What mcpschedd does with a call is read from the
// answer's _meta, and what it guessed from its own stats, never assumed.
//
// It leaves out everything a benchmark needs: repetition, load, percentiles.
package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

const (
	// UpstreamCommand is the hidden first argument with which the binary
	// becomes one of the upstreams: mcpschedd demo-upstream tracker|files.
	UpstreamCommand = "demo-upstream"
	// speedVariable hands [Options.Speed] to the upstreams.
	speedVariable = "MCPSCHEDD_DEMO_SPEED"
	// afterwards is the think time after the last turn, in life.
	afterwards = 3 * time.Second
	// defaultSpeed brings the minute that the session takes in life down to
	// 15 s, twice.
	defaultSpeed = 4
)

// Options say where the demo writes and how fast it plays.
type Options struct {
	Stdout     io.Writer // the table; default: nowhere
	Stderr     io.Writer // a line per call while it runs; default: nowhere
	JSON       bool      // the same figures as one JSON object, instead of the table
	Speed      float64   // think and tool times, and those of Config, are divided by it; default 4, life is 1
	Executable string    // the mcpschedd to run as proxy and as upstreams; default: this one
	Keep       string    // a new or empty folder, in which the state of mcpschedd's run stays, its record too; "": nothing does
}

// Run plays the session directly and through mcpschedd and reports both. It
// returns after every process it started has ended, with ctx's error if ctx
// ended first.
func Run(ctx context.Context, o Options) error {
	o.Stdout = cmp.Or(o.Stdout, io.Discard)
	o.Stderr = cmp.Or(o.Stderr, io.Discard)
	o.Speed = cmp.Or(o.Speed, defaultSpeed)
	if err := checkSpeed(o.Speed); err != nil {
		return err
	}
	if err := o.keepable(); err != nil {
		return err
	}
	if o.Executable == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Executable = self
	}
	direct, err := o.play(ctx, "direct", openDirect)
	if err != nil {
		return err
	}
	through, err := o.play(ctx, "mcpschedd", openKept)
	if err != nil {
		return err
	}
	r := newReport(direct, through, o.Speed)
	if r.mismatch() == nil {
		if r.Survey, err = o.takeSurvey(ctx); err != nil {
			return interrupted(ctx, fmt.Errorf("as one plan: %w", err))
		}
	}
	if o.JSON {
		err = r.writeJSON(o.Stdout)
	} else {
		err = r.writeTable(o.Stdout, configFile(os.Getenv))
	}
	if err != nil {
		return err
	}
	o.sayKept()
	return r.mismatch()
}

// play runs one session on the connections that open makes, telling Stderr how
// far it is. Every run has its own processes, so both begin with the same data.
func (o Options) play(ctx context.Context, name string, open func(context.Context, Options) (*desk, error)) (session, error) {
	d, err := open(ctx, o)
	if err != nil {
		return session{}, interrupted(ctx, err)
	}
	defer d.close()
	turns := script(&memory{})
	s, err := play(ctx, turns, d.call, o.Speed, func(a answer) {
		fmt.Fprintf(o.Stderr, "%-9s  turn %2d/%d  %8.1f ms  %s\n",
			name, a.Turn, len(turns), milliseconds(a.Wait), a.short(70))
	})
	s.Start = d.start
	for i := range s.Answers {
		s.Answers[i].ReadOnly = d.readOnly(s.Answers[i].call)
	}
	if err == nil && d.proxy != nil {
		s.Account, err = o.settle(ctx, d.proxy)
	}
	if err != nil {
		return s, interrupted(ctx, fmt.Errorf("%s: %w", name, err))
	}
	return s, nil
}

// settle reads the account of mcpschedd as late as the agent would have made its
// next call: what was fetched for that was fetched in vain, and shall count.
func (o Options) settle(ctx context.Context, proxy *peer) (*account, error) {
	if err := sleep(ctx, shorten(afterwards, o.Speed)); err != nil {
		return nil, err
	}
	return proxy.account(ctx)
}

// interrupted prefers the end of ctx to what broke because of it.
func interrupted(ctx context.Context, err error) error {
	return cmp.Or(ctx.Err(), err)
}

// RunUpstream is the hidden command demo-upstream: it serves the named
// upstream until in ends or ctx does, as fast as the environment says. in
// should be read through the poller: a blocking read can hold up a stop of the
// world (Go 1.26), and a stalled upstream would show as a wait.
func RunUpstream(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	speed := 1.0
	if s := os.Getenv(speedVariable); s != "" {
		var err error
		if speed, err = strconv.ParseFloat(s, 64); err == nil {
			err = checkSpeed(speed)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", speedVariable, err)
		}
	}
	s, err := newUpstream(name, speed)
	if err != nil {
		return err
	}
	stdio := server.NewStdioServer(s)
	// The default of five workers would queue the calls of an eager client.
	server.WithWorkerPoolSize(64)(stdio)
	if err := stdio.Listen(ctx, in, out); ctx.Err() == nil {
		return err
	}
	return nil
}

func checkSpeed(speed float64) error {
	if !(speed > 0) || math.IsInf(speed, 0) {
		return fmt.Errorf("speed %v: want a number above 0", speed)
	}
	return nil
}

// configFile is where mcpschedd looks for its configuration, as a user would
// write it.
func configFile(env func(string) string) string {
	if file := env("MCPSCHEDD_CONFIG"); file != "" {
		return file
	}
	return filepath.Join(cmp.Or(env("XDG_CONFIG_HOME"), "~/.config"), "mcpschedd", "pipeline_config.toml")
}
