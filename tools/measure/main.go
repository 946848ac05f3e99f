// Command measure plays recorded sessions. It prints how many calls would have been answered by
// prefetches, beside the floor that a prefetcher must exceed, and whether each target is met.
//
//	go run -C tools ./measure -data DIR [-frozen|-cold] [-policy NAME] [-only SET]
//	go run -C tools ./measure -data DIR -learning
//	go run -C tools ./measure -data DIR -heldout
//	go run -C tools ./measure -invented
//
// DIR has floor/SET.json, traces/SET.{train,bench}.jsonl.gz and
// traces/{classes-floor,classes}.toml. The learner learns from SET.train, and continues to learn
// while SET.bench is measured. There are two settings:
//
//   - the floor's rules: classes-floor.toml, with tools classified as a whole, prefetched answers
//     kept for ten turns, no prefetches of earlier calls, no economic gate, no token budget, no
//     slots, no throttles; a point of the curve is all candidates above one probability;
//   - the defaults: classes.toml, and the default configuration, except that each point of the
//     curve has its own min_probability.
//
// The exit code is 1 if a target is missed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mcpschedd/tools/launch"
)

var errMissed = errors.New("a target is missed")

func main() { launch.Main("measure", command) }

func command(_ context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	f := flag.NewFlagSet("measure", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dir, "data", "", "folder of traces and floors")
	f.StringVar(&o.policy, "policy", "all", "learned, static, off, oracle, or all of them")
	f.StringVar(&o.only, "only", "", "this set alone")
	f.BoolVar(&o.frozen, "frozen", false, "each session is a process of its own, which knows what was learned from the training part and no more")
	f.BoolVar(&o.cold, "cold", false, "nothing is learned before: both parts are played and measured")
	f.BoolVar(&o.learning, "learning", false, "coverage by sessions seen")
	f.BoolVar(&o.heldOut, "heldout", false, "the defaults on workloads made of all traces, whose like the learner has not seen")
	f.BoolVar(&o.invented, "invented", false, "the defaults on invented workloads, in which agents go through lists; needs no -data")
	if err := f.Parse(args); err != nil {
		return err
	}
	return run(o, stdout)
}

// options are the command line.
type options struct {
	dir, policy, only               string
	frozen, cold, learning, heldOut bool
	invented                        bool
}

// wants reports whether a policy must be measured.
func (o *options) wants(policy string) bool { return o.policy == "all" || o.policy == policy }

// run measures all sets concurrently, and prints them in order.
func run(o options, w io.Writer) error {
	if !slices.Contains([]string{"all", "learned", "static", "off", "oracle"}, o.policy) {
		return fmt.Errorf("-policy: want learned, static, off, oracle or all, have %q", o.policy)
	}
	names, err := filepath.Glob(filepath.Join(o.dir, "floor", "*.json"))
	if err != nil {
		return err
	}
	var sets []string
	for _, name := range names {
		if set := strings.TrimSuffix(filepath.Base(name), ".json"); o.only == "" || o.only == set {
			sets = append(sets, set)
		}
	}
	if o.invented {
		invented(w)
		return nil
	}
	if o.dir == "" || len(sets) == 0 {
		return errors.New("-data: want a folder with floor/SET.json")
	}
	if o.heldOut {
		return heldOut(w, o)
	}
	play := measure
	if o.learning {
		play = learning
	}
	out, failed := make([]bytes.Buffer, len(sets)), make([]error, len(sets))
	var all sync.WaitGroup
	for i, set := range sets {
		all.Go(func() { failed[i] = play(&out[i], o, set) })
	}
	all.Wait()
	for i := range out {
		if _, err := out[i].WriteTo(w); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// measure plays one set under both settings.
func measure(w io.Writer, o options, set string) error {
	f, err := readFloor(o.dir, set)
	if err != nil {
		return err
	}
	train, bench, err := traces(o.dir, set)
	if err != nil {
		return err
	}
	var v verdicts
	for _, s := range []setting{underFloor(), asConfigured()} {
		if err := s.measure(w, &v, o, set, f, train, bench); err != nil {
			return err
		}
	}
	v.print(w, set)
	if v.missed > 0 {
		return fmt.Errorf("%s: %w", set, errMissed)
	}
	return nil
}
