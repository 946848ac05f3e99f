package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"mcpschedd/internal/replay"
	"mcpschedd/tools/classes"
)

const (
	upstreamName = "recorded"
	toolsFile    = "tools.json" // name → does it only read
	trainingLane = 8            // sessions of arms at once whose order hardly matters
)

// lab is what all cells of a run have in common.
type lab struct {
	options
	self     string // this program, which is the server too
	dir      string
	played   []*session
	learned  []*session
	places   chan struct{} // one for each session that is played
	starts   chan struct{} // one for each whose processes are starting
	progress io.Writer
}

func newLab(o options, progress io.Writer) (*lab, error) {
	l := &lab{options: o, progress: progress, places: make(chan struct{}, o.atOnce), starts: make(chan struct{}, 2*runtime.NumCPU())}
	var err error
	if l.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if l.bin, err = filepath.Abs(o.bin); err == nil {
		_, err = os.Stat(l.bin)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (build it first)", err)
	}
	if l.classes, err = filepath.Abs(o.classes); err != nil {
		return nil, err
	}
	if l.played, err = l.read(o.trace); err != nil {
		return nil, err
	}
	if o.train != "" && l.wants(trained) {
		if l.learned, err = l.read(o.train); err != nil {
			return nil, err
		}
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

func (o options) wants(arm string) bool { return slices.Contains(strings.Split(o.arms, ","), arm) }

// read reads a trace.
func (l *lab) read(name string) ([]*session, error) {
	model, err := classes.Read(l.classes)
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
	return sessionsOf(calls, l.sessions, model), nil
}

// measure plays all cells at once, as far as there are places.
func (l *lab) measure(ctx context.Context) ([]*row, error) {
	cells := l.wanted()
	rows, errs := make([][]*row, len(cells)), make([]error, len(cells))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for i, c := range cells {
		all.Go(func() {
			if rows[i], errs[i] = l.cell(ctx, c); errs[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	return slices.Concat(rows...), firstOf(errs)
}

// firstOf is the first error that is not the end of the others.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// cell measures one cell: its arms at once.
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
	names := slices.DeleteFunc(armNames(), func(name string) bool { return !l.wants(name) })
	arms, errs := make([]*arm, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		arms[i] = &arm{lab: l, cell: c, name: name, dir: dir, server: server}
		all.Go(func() { errs[i] = arms[i].run(ctx) })
	}
	all.Wait()
	if err := firstOf(errs); err != nil {
		return nil, err
	}
	var without []*play
	if arms[0].name == off {
		without = arms[0].plays
	}
	var rows []*row
	for _, a := range arms {
		r, err := a.row(ctx, without)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
		fmt.Fprintf(l.progress, "%s %s: coverage %.3f, replay %.3f\n", r.Cell, r.Arm, r.Coverage, r.Replay.Coverage)
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

// server says how the proxy reaches the server of a cell, as lines of its configuration. One
// over HTTP runs until stop.
func (l *lab) server(ctx context.Context, c cell, dir string) (config string, stop func(), err error) {
	args := []string{serverRole, "-dir", dir, "-takes", c.Takes.String()}
	if c.Serial {
		args = append(args, "-serial")
	}
	if !c.HTTP {
		var quoted []string
		for _, a := range args {
			quoted = append(quoted, fmt.Sprintf("%q", a))
		}
		return fmt.Sprintf("command = %q\nargs = [%s]\n", l.self, strings.Join(quoted, ", ")), func() {}, nil
	}
	address, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, l.self, append(args, "-http", address)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Kill() // its work is done
		cmd.Wait()
	}
	return fmt.Sprintf("url = \"http://%s/mcp\"\n", address), stop, nil
}

// freeAddress is a loopback address that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
