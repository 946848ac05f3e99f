package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
	"mcpschedd/tools/dataset"
)

// workload is a set of sessions of a kind that the learner has not seen.
type workload struct {
	name         string
	train, bench []replay.Call
	frozen       bool // each session uses only what was learned from the training part
	fresh        int  // number of sessions after which learning starts again; 0 for never
}

// heldOut plays workloads made of all traces with the defaults: another repository, other tasks,
// two servers in one, few sessions, and a server of another kind.
func heldOut(w io.Writer, o options) error {
	airline, airlineBench, err := traces(o.dir, "taubench-airline")
	if err != nil {
		return err
	}
	coding, codingBench, err := traces(o.dir, "cc-entire-cli")
	if err != nil {
		return err
	}
	allAirline, allCoding := slices.Concat(airline, airlineBench), slices.Concat(coding, codingBench)
	odd, even := byTask(allAirline)
	all := dataset.BySession(allCoding)
	early, late := slices.Concat(all[:len(all)/2]...), slices.Concat(all[len(all)/2:]...)
	model, err := dataset.Classes(filepath.Join(o.dir, "traces", asConfigured().classes))
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "at the defaults                          issued  used  accuracy  coverage")
	for _, l := range []workload{
		{"airline, odd tasks after even ones", even, odd, true, 0},
		{"airline, even tasks after odd ones", odd, even, true, 0},
		{"airline, nothing learned before", nil, allAirline, false, 0},
		{"airline, 15 sessions at a time", nil, allAirline, false, 15},
		{"airline after coding", coding, allAirline, false, 0},
		{"coding, early sessions after late ones", late, early, true, 0},
		{"coding, another repository", coding, renamed(codingBench), true, 0},
		{"coding, another repository, going on", coding, renamed(codingBench), false, 0},
		{"coding, nothing learned before", nil, allCoding, false, 0},
		{"coding, 60 sessions at a time", nil, allCoding, false, 60},
		{"coding after airline", allAirline, codingBench, false, 0},
		{"both at once, nothing learned before", nil, mixed(allCoding, allAirline), false, 0},
		{"both at once after each alone", slices.Concat(coding, airline), mixed(codingBench, airlineBench), false, 0},
	} {
		l.play(model, w)
	}
	return nil
}

// play plays a workload, and prints the result.
func (l *workload) play(model func(tool string) *valuemodel.Model, w io.Writer) {
	s := asConfigured()
	trained := s.trained(model, l.train)
	options := s.options(model)
	var p *replay.Player
	var learner *predict.Model
	options.Learner = func(session int) *predict.Model {
		if session == 0 || l.frozen || l.fresh > 0 && session%l.fresh == 0 {
			learner = p.NewLearner()
			learner.Merge(trained) // the state was just written, so it can be read
		}
		return learner
	}
	arm := s.arm
	arm.Rules.MinProbability = usualGate
	p = replay.New(options, arm)
	p.Play(replay.Sessions(l.bench))
	r := p.Reports()[0]
	fmt.Fprintf(w, "%-40s %-7d %-5d %-9.3f %.4f\n", l.name, r.Issued, r.Used, r.Accuracy, r.Coverage)
}

// byTask divides airline sessions, which are named airline-MODEL-tTASK-TRIAL.
func byTask(calls []replay.Call) (odd, even []replay.Call) {
	for _, c := range calls {
		if task := strings.Split(c.Session, "-")[2]; strings.ContainsAny(task[len(task)-1:], "13579") {
			odd = append(odd, c)
		} else {
			even = append(even, c)
		}
	}
	return odd, even
}

// renamed replaces each letter in all values by another one, so that no name is known. Commands
// are unchanged, as they could not be classified otherwise.
func renamed(calls []replay.Call) []replay.Call {
	out := slices.Clone(calls)
	for i := range out {
		if c := &out[i]; c.Tool != "Bash" {
			c.Text = shift(c.Text)
			d := json.NewDecoder(bytes.NewReader(c.Arguments))
			d.UseNumber()
			var arguments any
			if d.Decode(&arguments) == nil { // the trace was parsed, so the arguments are valid
				c.Arguments, _ = json.Marshal(shiftValues(arguments))
			}
		}
	}
	return out
}

func shift(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+7)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+7)%26
		}
		return r
	}, s)
}

func shiftValues(v any) any {
	switch v := v.(type) {
	case string:
		return shift(v)
	case []any:
		for i := range v {
			v[i] = shiftValues(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = shiftValues(v[name])
		}
	}
	return v
}

// mixed makes one session of each two sessions: three turns of the first, then two of the second,
// and so on.
func mixed(a, b []replay.Call) (out []replay.Call) {
	firsts, seconds := dataset.BySession(a), dataset.BySession(b)
	for i := range min(len(firsts), len(seconds)) {
		parts, batch := [2][]replay.Call{firsts[i], seconds[i]}, 0
		for len(parts[0])+len(parts[1]) > 0 {
			for _, part := range [...]int{0, 0, 0, 1, 1} {
				rest := parts[part]
				batch++
				for len(rest) > 0 && rest[0].Batch == parts[part][0].Batch {
					c := rest[0]
					c.Session, c.Batch, c.Start, c.End = fmt.Sprint("both ", i), batch, nil, nil
					out, rest = append(out, c), rest[1:]
				}
				parts[part] = rest
			}
		}
	}
	return out
}
