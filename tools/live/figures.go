package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// figures are the sums over the plays of an arm.
type figures struct {
	Sessions  int
	Calls     int
	Reads     int // that may be prefetched and are not repeats
	Covered   int
	Coverage  float64
	Upstream  int // as counted by the server
	PerCall   float64
	Different int
}

func figuresOf(plays []*play) figures {
	f := figures{Sessions: len(plays)}
	for _, p := range plays {
		f.Upstream += len(p.arrived)
		for i := range p.calls {
			m := &p.calls[i]
			f.Calls++
			if m.different {
				f.Different++
			}
			if p.session.Calls[i].Counts {
				f.Reads++
				if m.covered {
					f.Covered++
				}
			}
		}
	}
	f.Coverage, f.PerCall = ratio(f.Covered, f.Reads), ratio(f.Upstream, f.Calls)
	return f
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// replayed is the result of replay for the same sessions.
type replayed struct {
	Reads    int
	Covered  int
	Coverage float64
}

// replay has mcpschedd replay play each session with the times that it has live without
// prefetches, after the sessions that had ended before it began. Replay takes the recorded server
// for an exclusive one, where max_age is five minutes unless --set sets it.
func (a *arm) replay(ctx context.Context) (replayed, error) {
	var sum replayed
	var training []string
	if a.name == trained {
		name := filepath.Join(a.dir, "train.jsonl")
		if err := a.record(name, a.lab.learned...); err != nil {
			return sum, err
		}
		training = []string{"--train", name}
	}
	file := func(i int) string { return filepath.Join(a.dir, fmt.Sprintf("%s-%03d.jsonl", a.name, i)) }
	for i, s := range a.lab.played {
		if err := a.record(file(i), s); err != nil {
			return sum, err
		}
	}
	for i, p := range a.plays {
		args := append([]string{"replay", "--json", "--set", "enrichment.max_age=" + maxAge.String(), "--config", a.lab.classes, file(i)}, training...)
		for _, k := range p.knew {
			args = append(args, "--train", file(k))
		}
		var stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, a.lab.bin, args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return sum, fmt.Errorf("replay: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		var r struct {
			Reads, Repeats, Used int
			UsedByRepeats        int `json:"used_by_repeats"`
		}
		if err := json.Unmarshal(out, &r); err != nil {
			return sum, fmt.Errorf("replay: %w", err)
		}
		sum.Reads += r.Reads - r.Repeats
		sum.Covered += r.Used - r.UsedByRepeats
	}
	sum.Coverage = ratio(sum.Covered, sum.Reads)
	return sum, nil
}

// record writes sessions as a trace with the times of the cell.
func (a *arm) record(name string, all ...*session) error {
	var b bytes.Buffer
	for _, s := range all {
		for _, c := range s.trace(s.timetable(a.cell.Pauses), a.cell) {
			line, err := json.Marshal(c)
			if err != nil {
				return err
			}
			b.Write(append(line, '\n'))
		}
	}
	return os.WriteFile(name, b.Bytes(), 0o600)
}
