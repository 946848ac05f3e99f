package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// arm is the sessions of a cell under one configuration and one learned state.
type arm struct {
	lab    *lab
	cell   cell
	name   string
	dir    string // of the cell
	server string // lines of the proxy's configuration that say how it is reached

	plays []*play // as the trace has them
}

func (a *arm) String() string { return a.cell.String() + " " + a.name }

// run plays the sessions, those of the training before.
func (a *arm) run(ctx context.Context) error {
	var learned []*session
	lanes := trainingLane
	switch a.name {
	case cold:
		lanes = a.lab.lanes
	case trained:
		learned = a.lab.learned
	}
	if _, err := a.inLanes(ctx, "train", learned, trainingLane); err != nil {
		return err
	}
	var err error
	a.plays, err = a.inLanes(ctx, "play", a.lab.played, lanes)
	return err
}

// inLanes plays sessions in their order, so many at once. What one has learned those know that
// begin after it has ended.
func (a *arm) inLanes(ctx context.Context, what string, all []*session, lanes int) ([]*play, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	order := make(chan int, len(all))
	for i := range all {
		order <- i
	}
	close(order)
	plays, errs := make([]*play, len(all)), make([]error, len(all))
	var mu sync.Mutex // guards ended
	var ended []int
	one := func(i int) error {
		select {
		case a.lab.places <- struct{}{}:
			defer func() { <-a.lab.places }()
		case <-ctx.Done():
			return ctx.Err()
		}
		mu.Lock()
		knew := slices.Clone(ended)
		mu.Unlock()
		p, err := a.play(ctx, all[i], fmt.Sprintf("%s-%s-%03d", a.name, what, i))
		if err != nil {
			return err
		}
		p.knew, plays[i] = knew, p
		mu.Lock()
		ended = append(ended, i)
		mu.Unlock()
		return nil
	}
	var open sync.WaitGroup
	for range lanes {
		open.Go(func() {
			for i := range order {
				if errs[i] = one(i); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	open.Wait()
	return plays, firstOf(errs)
}

func (a *arm) state() string              { return filepath.Join(a.dir, a.name+"-state") }
func (a *arm) config(label string) string { return filepath.Join(a.dir, label+".toml") }

// furnish writes what the processes of a session read: its recording, and the configuration.
func (a *arm) furnish(s *session, label string) error {
	data, err := json.Marshal(s.Calls)
	if err != nil {
		return err
	}
	if err := os.WriteFile(recordedFile(a.dir, label), data, 0o600); err != nil {
		return err
	}
	return os.WriteFile(a.config(label), []byte(a.configuration(label)), 0o600)
}

// configuration is that of a session's proxy: what a user says who trusts a service, and no
// more.
func (a *arm) configuration(label string) string {
	mode, telling := "on", fmt.Sprintf("env = { %s = %q }\n", sessionVariable, label)
	if a.cell.HTTP {
		telling = fmt.Sprintf("headers = { %s = %q }\n", sessionHeader, label)
	}
	if a.name == off {
		mode = "off"
	}
	return fmt.Sprintf("[server]\nstate_dir = %q\n[enrichment]\nmode = %q\n[upstreams.%s]\ntrust = true\nremote = true\n%s%s",
		a.state(), mode, upstreamName, a.server, telling)
}

// row is what the arm came to.
func (a *arm) row(ctx context.Context, without []*play) (*row, error) {
	r := &row{cell: a.cell, Cell: a.cell.String(), Arm: a.name, figures: figuresOf(a.plays), Declined: make(map[string]int)}
	var err error
	most := 0
	for _, s := range a.lab.played {
		most += s.ceiling(s.timetable(a.cell.Pauses, a.lab.think, a.lab.longest), a.cell)
	}
	r.Ceiling = ratio(most, r.Reads)
	if a.name != off {
		r.compare(a.plays, without)
		if r.Replay, err = a.replay(ctx); err != nil {
			return nil, err
		}
		if err := a.declined(r.Declined); err != nil {
			return nil, err
		}
	}
	r.Missed = r.missed()
	return r, nil
}

// declined adds up why candidates were not prefetched, by what the proxies recorded. The
// sessions of the training count too.
func (a *arm) declined(reasons map[string]int) error {
	files, err := filepath.Glob(filepath.Join(a.state(), "events", "*.jsonl"))
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var e struct{ Declined map[string]int }
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				continue // a line of a process that was killed
			}
			for why, n := range e.Declined {
				reasons[why] += n
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
