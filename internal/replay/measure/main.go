// Command measure prints how many calls of recorded sessions package predict would
// have made ahead, beside the floor that any such learner must beat.
//
// It learns from SET.train and goes on learning while it measures on SET.bench,
// under the floor's rules: the same calls flush, and a guess is kept as long.
//
//	go run ./internal/replay/measure -data DIR [-restart]
//
// DIR holds floor/SET.json and traces/SET.{train,bench}.jsonl.gz. It leaves out the
// gate and the knapsack: a point of the curve is all candidates above a probability.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/replay"
)

// class judges the tools of the recorded sets as the floor does: these read, these
// change nothing, anything else writes.
func class(tool string) replay.Class {
	switch tool {
	case "Read", "Grep", "Glob", "LS", "LSP", "NotebookRead", "WebFetch", "WebSearch", "TaskList", "TaskGet", "ToolSearch",
		"get_user_details", "get_reservation_details", "search_direct_flight", "search_onestop_flight", "list_all_airports":
		return replay.Read
	case "TodoWrite", "TaskCreate", "TaskUpdate", "TaskOutput", "TaskStop", "Task", "Skill", "AskUserQuestion",
		"EnterPlanMode", "ExitPlanMode", "think", "calculate", "transfer_to_human_agents":
		return replay.Neutral
	}
	if strings.HasPrefix(tool, "mcp__") {
		name := tool[strings.LastIndex(tool, "__")+2:]
		for _, verb := range []string{"get", "list", "search", "query", "extract"} {
			if strings.HasPrefix(name, verb) {
				return replay.Read
			}
		}
	}
	return replay.Write
}

func options() predict.Options {
	return predict.Options{Target: func(tool string) bool { return class(tool) == replay.Read }}
}

// floor is the curve that any prefetcher must beat.
type floor struct {
	Curve []struct {
		Issued   float64 `json:"issued_per_call"`
		Coverage float64 `json:"coverage"`
	} `json:"curve"`
}

// at is the running maximum of the curve.
func (f *floor) at(issued float64) float64 {
	best := 0.0
	for _, p := range f.Curve {
		if p.Issued <= issued {
			best = max(best, p.Coverage)
		}
	}
	return best
}

// coverage reads a curve between its points.
func coverage(points []replay.Point, issued float64) float64 {
	x, y := 0.0, 0.0
	for _, p := range points {
		if p.PerCall >= issued && p.PerCall > x {
			return y + (p.Coverage-y)*(issued-x)/(p.PerCall-x)
		}
		x, y = p.PerCall, p.Coverage
	}
	return y
}

func main() {
	dir := flag.String("data", "", "folder of traces and floors")
	restart := flag.Bool("restart", false, "each session is a process of its own, which knows only what the state holds")
	flag.Parse()
	if err := run(*dir, *restart); err != nil {
		fmt.Fprintln(os.Stderr, "measure: error:", err)
		os.Exit(1)
	}
}

func run(dir string, restart bool) error {
	names, err := filepath.Glob(filepath.Join(dir, "floor", "*.json"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("-data: want a folder with floor/SET.json")
	}
	for _, name := range names {
		if err := measure(dir, strings.TrimSuffix(filepath.Base(name), ".json"), restart); err != nil {
			return err
		}
	}
	return nil
}

func measure(dir, set string, restart bool) error {
	raw, err := os.ReadFile(filepath.Join(dir, "floor", set+".json"))
	if err != nil {
		return err
	}
	var f floor
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("floor/%s.json: %w", set, err)
	}
	m := predict.New(options())
	rules := replay.Rules{Class: class, KeepTurns: 10, Gates: gates()}
	if restart {
		var state []byte
		rules.AfterSession = func() {
			state, _ = m.Merge(state) // an error: it cannot be read, and is begun anew
			*m = *predict.New(options())
			state, _ = m.Merge(state)
		}
	}
	var rep replay.Report
	for _, part := range []string{"train", "bench"} {
		calls, err := replay.ReadFile(filepath.Join(dir, "traces", set+"."+part+".jsonl.gz"))
		if err != nil {
			return err
		}
		rep = replay.Run(m, calls, rules)
	}
	show(set, &f, rep)
	return nil
}

// gates are close together, as the curve is steep.
func gates() []float64 {
	out := []float64{0.5, 0.3, 0.1, 0.01}
	for g := 0.99; g > 0.0004; g *= 0.97 {
		out = append(out, g)
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

func show(set string, f *floor, rep replay.Report) {
	fmt.Printf("%s: %d sessions, %d calls, %d reads, %d repeats\n", set, rep.Sessions, rep.Calls, rep.Reads, rep.Repeats)
	at := []float64{0.4, 0.5, 0.6, 0.8, 1, 1.4, 1.8}
	for _, p := range f.Curve {
		if p.Issued > 0 && p.Issued < 1.8 {
			at = append(at, p.Issued)
		}
	}
	slices.Sort(at)
	for _, x := range slices.Compact(at) {
		if low, got := f.at(x), coverage(rep.Points, x); low > 0 {
			fmt.Printf("issued %.4f: floor %.4f, ours %.4f, %.2f times\n", x, low, got, got/low)
		}
	}
	for _, p := range rep.Points {
		if slices.Contains([]float64{0.5, 0.3, 0.1, 0.01}, p.Gate) {
			fmt.Printf("gate %.2f: issued %.4f, coverage %.4f, accuracy %.3f\n", p.Gate, p.PerCall, p.Coverage, p.Accuracy())
		}
	}
	for i, d := range rep.Deciles {
		if d.N > 0 {
			fmt.Printf("P from 0.%d: %6d candidates, expected %.3f, observed %.3f\n", i, d.N, d.Expected/float64(d.N), float64(d.Hits)/float64(d.N))
		}
	}
}
