package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mcpschedd/tools/dataset"
)

// experiment does every task in every arm, except those already done.
type experiment struct {
	tasks    []Task
	arms     []Arm
	slots    int
	turns    int
	patience time.Duration // maximum duration of a call
	atOnce   int           // concurrent arms
	train    bool
	work     string // working folder
	servers  servers
	bin      string
	purse    *purse
	models   func(arm Arm, t Task) (model, judge Model, price, judgePrice Price)

	progress io.Writer
	began    time.Time

	mu   sync.Mutex // guards the fields below
	runs *os.File
	done map[string]Run // key → last run
	left int
	bad  int // consecutive failed runs
}

// mostBad consecutive failed runs end an experiment, as the endpoint does not work.
const mostBad = 8

var errBad = fmt.Errorf("%d runs in a row failed", mostBad)

func (r *Run) key() string { return r.Arm.name() + " " + r.Task }

// resume reads the runs in a file, cuts off an incomplete last line, and opens it for appending.
func resume(name string) (*os.File, map[string]Run, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	runs, whole, err := dataset.Lines[Run](f, name)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	done := make(map[string]Run)
	for _, r := range runs {
		done[r.key()] = r
	}
	return f, done, nil
}

// all returns the runs, the last one of each key.
func (e *experiment) all() (out []Run) {
	for _, arm := range e.arms {
		for _, t := range e.tasks {
			if r, ok := e.done[(&Run{Arm: arm, Task: t.ID}).key()]; ok {
				out = append(out, r)
			}
		}
	}
	return out
}

// todo returns the tasks that an arm has still to do: those not done, and those that failed.
func (e *experiment) todo(arm Arm) (out []Task) {
	for _, t := range e.tasks {
		if r, ok := e.done[(&Run{Arm: arm, Task: t.ID}).key()]; !ok || r.Error != "" {
			out = append(out, t)
		}
	}
	return out
}

// run does the experiment. It ends when the budget is spent or if a proxy does not start; any
// other error is recorded in the run that it ended.
func (e *experiment) run(ctx context.Context) error {
	e.began = time.Now()
	for _, arm := range e.arms {
		e.left += len(e.todo(arm))
	}
	open, ctx := errgroup.WithContext(ctx)
	open.SetLimit(e.atOnce)
	for _, arm := range e.arms {
		open.Go(func() error {
			if err := e.arm(ctx, arm); err != nil {
				return fmt.Errorf("%s: %w", arm.name(), err)
			}
			return nil
		})
	}
	return open.Wait()
}

func (e *experiment) arm(ctx context.Context, arm Arm) error {
	e.mu.Lock()
	todo := e.todo(arm)
	e.mu.Unlock()
	if len(todo) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	dir := filepath.Join(e.work, strings.ReplaceAll(strings.ReplaceAll(arm.name(), "/", "-"), ":", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	c, err := openCell(ctx, e.bin, e.servers, arm, dir)
	if err != nil {
		return err
	}
	defer c.close()
	return e.in(ctx, c, arm, todo)
}

// in does tasks of an arm in its cell.
func (e *experiment) in(ctx context.Context, c *cell, arm Arm, todo []Task) error {
	for _, t := range todo {
		t = t.in(c.dir)
		model, judge, price, judgePrice := e.models(arm, t)
		a := agent{Arm: arm, tools: c.tools, call: c.call, price: price, judgePrice: judgePrice, turns: e.turns, patience: e.patience, slots: e.slots, keepTools: e.train}
		a.model, a.judge = model, judge
		before, err := c.stats(ctx)
		if err != nil {
			return err
		}
		r := a.do(ctx, t)
		if ctx.Err() != nil {
			return ctx.Err() // the run was interrupted, and is not a result
		}
		after, err := c.stats(ctx)
		if err != nil {
			return err
		}
		r.Proxy = after.minus(before)
		if err := e.write(r); err != nil {
			return err
		}
		if strings.HasPrefix(r.Error, errBudget.Error()) {
			return errBudget
		}
	}
	return nil
}

func (e *experiment) write(r Run) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.runs.Write(append(line, '\n')); err != nil {
		return err
	}
	e.done[r.key()] = r
	e.left--
	made := 0
	for _, r := range e.done {
		if r.Error == "" {
			made++
		}
	}
	note := ""
	if e.bad++; r.Error == "" {
		e.bad = 0
	} else {
		note = ": " + r.Error
	}
	fmt.Fprintf(e.progress, "%d done, %d to do, %s, $%.4f: %s%s\n", made, e.left, time.Since(e.began).Round(time.Second), e.purse.total(), r.key(), note)
	if e.bad >= mostBad {
		return errBad
	}
	return nil
}

// trajectory is a run in the format of trainers: a line of a conversational data set with prompt,
// completion and tools (TRL), and the additional fields of veRL's data sets. The runs of one task
// are a group, within which the advantage is the difference of a reward from the mean, in standard
// deviations.
type trajectory struct {
	Prompt     []Message          `json:"prompt"`
	Completion []Message          `json:"completion"`
	Tools      []fields           `json:"tools"`
	Reward     float64            `json:"reward"`
	Rewards    map[string]float64 `json:"rewards"`
	Advantage  float64            `json:"advantage"`
	Source     string             `json:"data_source"`
	Ability    string             `json:"ability"`
	Model      fields             `json:"reward_model"`
	Extra      fields             `json:"extra_info"`
}

var errNoRuns = errors.New("no runs that ended well")

func writeTrajectories(out io.Writer, runs []Run) error {
	var all []trajectory
	groups := make(map[string][]float64)                                   // task → rewards
	group := func(t trajectory) string { return t.Extra["task"].(string) } // the text of the task differs between arms, as it has the name of the folder
	for i, r := range runs {
		if r.Error != "" || len(r.Messages) < 3 {
			continue
		}
		t := trajectory{
			Prompt: r.Messages[:2], Completion: r.Messages[2:], Reward: r.reward(),
			Rewards: map[string]float64{"completion": r.Rate, "parallelism": r.Parallel},
			Source:  "tpsbench/" + r.Level, Ability: "tool planning and scheduling",
			Model: fields{"style": "model", "ground_truth": r.Task},
			Extra: fields{"index": i, "task": r.Task, "arm": r.Arm, "turns": r.Turns, "in": r.In, "out": r.Out, "seconds": r.Total},
		}
		t.Tools = openAITools(r.Tools)
		groups[group(t)] = append(groups[group(t)], t.Reward)
		all = append(all, t)
	}
	if len(all) == 0 {
		return errNoRuns
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for _, t := range all {
		mean, deviation := spread(groups[group(t)])
		t.Advantage = (t.Reward - mean) / (deviation + 1e-4)
		if err := e.Encode(t); err != nil {
			return err
		}
	}
	return nil
}
