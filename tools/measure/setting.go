package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
	"mcpschedd/tools/dataset"
)

// traces reads a set.
func traces(dir, set string) (train, bench []replay.Call, err error) {
	if train, err = replay.ReadFile(filepath.Join(dir, "traces", set+".train.jsonl.gz")); err != nil {
		return nil, nil, err
	}
	bench, err = replay.ReadFile(filepath.Join(dir, "traces", set+".bench.jsonl.gz"))
	return train, bench, err
}

// setting is a set of rules under which sessions are played.
type setting struct {
	name    string
	classes string // file
	whole   bool   // a tool is classified as a whole
	keep    int    // turns for which a prefetched answer is kept
	gates   []float64
	arm     replay.Arm // the arm for every gate, except the gate itself
}

// store returns the options of the store in the default configuration.
func store() dedup.Options {
	return dedup.Options{MaxBytes: 256 << 20, WriteSettle: time.Minute, Settle: 2 * time.Second}
}

const manyTokens = 1 << 40

func underFloor() setting {
	return setting{
		name: "the floor's rule", classes: "classes-floor.toml", whole: true, keep: 10, gates: fine(),
		arm: replay.Arm{Rules: speculate.Rules{Delivery: "inline", Budget: manyTokens}, Store: store()},
	}
}

// The values are those of the default configuration.
func asConfigured() setting {
	return setting{
		name: "the defaults", classes: "classes.toml", gates: []float64{0.9, 0.7, 0.5, usualGate, 0.2, 0.1, 0.05, 0.01},
		arm: replay.Arm{
			Rules: speculate.Rules{Budget: 8000, Waste: 50 * time.Millisecond, SecondWorth: 0.01},
			Store: store(),
		},
	}
}

const (
	usualGate = 0.30
	usualAge  = 30 * time.Second
)

// fine returns gates with small steps, as the curve is steep.
func fine() []float64 {
	var all []float64
	for g := 0.99; g > 0.0005; g *= 0.96 {
		all = append(all, g)
	}
	return append(all, 0.0005)
}

// measure plays a set, prints the results, and judges them.
func (s setting) measure(w io.Writer, v *verdicts, o options, set string, f *floor, train, bench []replay.Call) error {
	model, err := dataset.Classes(filepath.Join(o.dir, "traces", s.classes))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s, %s\n", set, s.name)
	if o.wants("learned") || o.wants("off") || o.wants("oracle") {
		p := s.play(o, model, true, s.arms(o), train, bench)
		reports := p.Reports()
		if o.wants("learned") {
			s.show(w, v, reports[:len(s.gates)], f)
			reports = reports[len(s.gates):]
		}
		for _, r := range reports {
			line(w, r)
			v.stale(s.name, r)
		}
	}
	if o.wants("static") {
		arm := s.arm
		arm.Name, arm.Rules.MinProbability = "static", usualGate
		if s.keep > 0 {
			arm.Rules.MinProbability = 0
		}
		r := s.play(o, model, false, []replay.Arm{arm}, train, bench).Reports()[0]
		line(w, r)
		v.stale(s.name, r)
	}
	return nil
}

// arms returns the arms of a learner: one for each gate, then off and the oracle.
func (s setting) arms(o options) []replay.Arm {
	var all []replay.Arm
	if o.wants("learned") {
		for _, g := range s.gates {
			arm := s.arm
			arm.Name, arm.Rules.MinProbability = fmt.Sprintf("%.4f", g), g
			all = append(all, arm)
		}
	}
	for _, other := range []replay.Arm{{Name: "off", Source: replay.Nothing}, {Name: "oracle", Source: replay.Oracle}} {
		if o.wants(other.Name) {
			arm := s.arm
			arm.Name, arm.Source, arm.Rules.MinProbability = other.Name, other.Source, usualGate
			all = append(all, arm)
		}
	}
	return all
}

// play plays a set: it learns from one part, and measures on the other, from which it learns too.
func (s setting) play(o options, model func(string) *valuemodel.Model, learn bool, arms []replay.Arm, train, bench []replay.Call) *replay.Player {
	options := s.options(model)
	options.Learn = learn
	var p *replay.Player
	if o.cold {
		train, bench = nil, slices.Concat(train, bench)
	}
	if o.frozen {
		trained := s.trained(model, train)
		options.Learner = func(int) *predict.Model {
			process := p.NewLearner()
			process.Merge(trained) // the state was just written, so it can be read
			return process
		}
		train = nil
	}
	p = replay.New(options, arms...)
	p.Train(replay.Sessions(train))
	p.Play(replay.Sessions(bench))
	return p
}

// trained returns the state after the training part.
func (s setting) trained(model func(string) *valuemodel.Model, train []replay.Call) predict.State {
	o := s.options(model)
	var p *replay.Player
	var learner *predict.Model
	o.Learner = func(int) *predict.Model {
		if learner == nil {
			learner = p.NewLearner()
		}
		return learner
	}
	p = replay.New(o)
	p.Train(replay.Sessions(train))
	if learner == nil { // there are no sessions
		return predict.State{}
	}
	state, _ := learner.Merge(predict.State{})
	return state
}

func (s setting) options(model func(string) *valuemodel.Model) replay.Options {
	if s.whole {
		model = asFloor(model)
	}
	return replay.Options{Model: model, Learn: true, MaxAge: usualAge, KeepTurns: s.keep}
}

// asFloor changes models to the assumptions of the floor. It classifies a tool as a whole, so that
// every shell command is a write. And it assumes that a call makes nothing stale even if the value
// model is less sure: it ignores invalidates_only without edges, which does not revoke what the
// built-in model says.
func asFloor(model func(string) *valuemodel.Model) func(string) *valuemodel.Model {
	return func(tool string) *valuemodel.Model {
		m := *model(tool)
		m.Classify = ""
		switch tool {
		case "Task", "Skill", "AskUserQuestion", "TaskOutput", "EnterPlanMode", "ExitPlanMode", "transfer_to_human_agents":
			m.Class, m.Speculate = valuemodel.Pure, new(false)
		}
		return &m
	}
}
