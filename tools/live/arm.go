package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"mcpschedd/tools/launch"
)

// arm plays the sessions of a cell with one configuration and one learned state.
type arm struct {
	lab    *lab
	cell   cell
	name   string
	dir    string       // of the cell
	server launch.Table // configuration by which the proxy reaches it

	plays []*play // in the order of the trace
}

func (a *arm) String() string { return a.cell.String() + " " + a.name }

// run plays the sessions, after those of the training.
func (a *arm) run(ctx context.Context) error {
	var learned []*session
	lanes := trainingLane
	switch a.name {
	case cold:
		lanes = coldLane
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

// inLanes plays sessions in order, up to lanes of them concurrently. A session uses what earlier
// ones have learned if they ended before it began.
func (a *arm) inLanes(ctx context.Context, what string, all []*session, lanes int) ([]*play, error) {
	open, ctx := errgroup.WithContext(ctx)
	open.SetLimit(lanes)
	plays := make([]*play, len(all))
	var mu sync.Mutex // guards ended
	var ended []int
	for i, s := range all {
		open.Go(func() error {
			if err := a.lab.places.Acquire(ctx, 1); err != nil {
				return err
			}
			defer a.lab.places.Release(1)
			mu.Lock()
			knew := slices.Clone(ended)
			mu.Unlock()
			p, err := a.play(ctx, s, fmt.Sprintf("%s-%s-%03d", a.name, what, i))
			if err != nil {
				return err
			}
			p.knew, plays[i] = knew, p
			mu.Lock()
			ended = append(ended, i)
			mu.Unlock()
			return nil
		})
	}
	return plays, open.Wait()
}

func (a *arm) state() string              { return filepath.Join(a.dir, a.name+"-state") }
func (a *arm) config(label string) string { return filepath.Join(a.dir, label+".toml") }

// furnish writes the files that the processes of a session read: its recording, and the
// configuration.
func (a *arm) furnish(s *session, label string) error {
	data, err := json.Marshal(s.Calls)
	if err != nil {
		return err
	}
	if err := os.WriteFile(recordedFile(a.dir, label), data, 0o600); err != nil {
		return err
	}
	// Only the keys that a user sets to trust a service.
	upstream := launch.Table{"trust": true, "remote": true, "env": launch.Table{sessionVariable: label}}
	if a.cell.HTTP {
		upstream = launch.Table{"trust": true, "remote": true, "headers": launch.Table{sessionHeader: label}}
	}
	maps.Copy(upstream, a.server)
	mode := "on"
	if a.name == off {
		mode = "off"
	}
	return launch.Configure(a.config(label), launch.Table{
		"server":     launch.Table{"state_dir": a.state()},
		"enrichment": launch.Table{"mode": mode},
		"upstreams":  launch.Table{upstreamName: upstream},
	})
}

// row computes the results of the arm.
func (a *arm) row(ctx context.Context, without []*play) (*row, error) {
	r := &row{cell: a.cell, Arm: a.name, figures: figuresOf(a.plays)}
	var err error
	most := 0
	for _, s := range a.lab.played {
		most += s.ceiling(s.timetable(a.cell.Pauses), a.cell)
	}
	r.Ceiling = ratio(most, r.Reads)
	if a.name != off {
		r.compare(a.plays, without)
		if r.Replay, err = a.replay(ctx); err != nil {
			return nil, err
		}
	}
	r.Missed = r.missed()
	return r, nil
}
