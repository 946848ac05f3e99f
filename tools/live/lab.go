package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"mcpschedd/internal/replay"
	"mcpschedd/tools/dataset"
	"mcpschedd/tools/launch"
)

const (
	upstreamName = "recorded"
	toolsFile    = "tools.json" // tool → whether it is read-only
	trainingLane = 8            // concurrent sessions of arms in which their order hardly matters
)

// lab has what all cells of a run share.
type lab struct {
	options
	self     string // this program, which is also the server
	dir      string
	played   []*session
	learned  []*session
	places   *semaphore.Weighted // one for each session that is being played
	starts   *semaphore.Weighted // one for each session with processes that are starting
	progress io.Writer
}

func newLab(o options, progress io.Writer) (*lab, error) {
	l := &lab{options: o, progress: progress,
		places: semaphore.NewWeighted(places), starts: semaphore.NewWeighted(int64(2 * runtime.NumCPU()))}
	var err error
	if l.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if l.bin, err = launch.Program(o.bin); err != nil {
		return nil, err
	}
	if l.classes, err = filepath.Abs(o.classes); err != nil {
		return nil, err
	}
	if l.played, err = l.read(o.trace, sessions); err != nil {
		return nil, err
	}
	if l.learned, err = l.read(o.train, math.MaxInt); err != nil {
		return nil, err
	}
	if o.keep != "" {
		l.dir, err = filepath.Abs(o.keep)
		return l, errors.Join(err, os.MkdirAll(l.dir, 0o700))
	}
	l.dir, err = os.MkdirTemp("", "mcpschedd-live-")
	return l, err
}

func (l *lab) close() {
	if l.keep == "" {
		os.RemoveAll(l.dir)
	}
}

// read reads the first most sessions of a trace.
func (l *lab) read(name string, most int) ([]*session, error) {
	model, err := dataset.Classes(l.classes)
	if err != nil {
		return nil, err
	}
	calls, err := replay.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(calls) == 0 {
		return nil, errors.New(name + ": no calls in it")
	}
	return sessionsOf(calls, most, model), nil
}

// measure plays all cells concurrently, as far as there are places.
func (l *lab) measure(ctx context.Context) ([]*row, error) {
	cells := l.wanted()
	rows := make([][]*row, len(cells))
	all, ctx := errgroup.WithContext(ctx)
	for i, c := range cells {
		all.Go(func() (err error) {
			rows[i], err = l.cell(ctx, c)
			return err
		})
	}
	err := all.Wait()
	return slices.Concat(rows...), err
}

// cell measures one cell, with its arms in parallel.
func (l *lab) cell(ctx context.Context, c cell) ([]*row, error) {
	dir := filepath.Join(l.dir, strings.ReplaceAll(c.String(), "/", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := l.writeTools(dir); err != nil {
		return nil, err
	}
	server, stop, err := l.server(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	var played []*arm
	all, playing := errgroup.WithContext(ctx)
	for _, name := range arms {
		a := &arm{lab: l, cell: c, name: name, dir: dir, server: server}
		played = append(played, a)
		all.Go(func() error { return a.run(playing) })
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	var rows []*row
	for _, a := range played {
		r, err := a.row(ctx, played[0].plays)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
		fmt.Fprintf(l.progress, "%s %s: coverage %.3f, replay %.3f\n", r.cell, r.Arm, r.Coverage, r.Replay.Coverage)
	}
	return rows, nil
}

func (l *lab) writeTools(dir string) error {
	tools := make(map[string]bool)
	for _, s := range slices.Concat(l.played, l.learned) {
		for _, c := range s.Calls {
			tools[c.Tool] = c.Reads
		}
	}
	data, err := json.Marshal(tools)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, toolsFile), data, 0o600)
}

// server returns the configuration by which the proxy reaches the server of a cell. A server over
// HTTP runs until stop is called.
func (l *lab) server(ctx context.Context, c cell, dir string) (reached launch.Table, stop func(), err error) {
	args := []string{serverRole, "-dir", dir, "-takes", c.Takes.String()}
	if c.Serial {
		args = append(args, "-serial")
	}
	if !c.HTTP {
		return launch.Table{"command": l.self, "args": args}, func() {}, nil
	}
	address, err := launch.FreeAddress()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, l.self, append(args, "-http", address)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		cmd.Process.Kill() // it is not needed any more
		cmd.Wait()
	}
	return launch.Table{"url": "http://" + address + "/mcp"}, stop, nil
}
