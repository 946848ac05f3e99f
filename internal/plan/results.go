package plan

import "fmt"

// results stores the results of steps in the report while a step or the client needs them, and
// counts their bytes. It is used on the goroutine of Run only.
type results struct {
	report *Report
	limit  int // maximum bytes of all results; zero means no limit
	held   int // bytes of all stored results
	of     []result
}

// result has the counts of one step's result.
type result struct {
	bytes          int  // bytes stored
	output         bool // the client needs it
	users          int  // steps that refer to it and may still read it
	inputsReleased bool // the step has released its own inputs
}

func newResults(p *Plan, report *Report, limit int) *results {
	r := &results{report: report, limit: limit, of: make([]result, len(p.Steps))}
	for _, id := range p.Outputs {
		r.of[p.index(id)].output = true
	}
	for _, s := range p.Steps {
		for _, i := range s.Needs {
			r.of[i].users++
		}
	}
	return r
}

// needed reports whether a step or the client needs the result of a step.
func (r *results) needed(s *Step) bool { return r.of[s.Index].needed() }

func (one *result) needed() bool { return one.output || one.users > 0 }

// hold adds to the bytes of a step's result, and returns an error above the limit. Responses in
// flight and arguments, at most one per call, are not counted.
func (r *results) hold(s *Step, size int, blocks [][]byte) error {
	one := &r.of[s.Index]
	if one.output {
		for _, b := range blocks {
			size += len(b)
		}
	}
	if r.limit > 0 && size > r.limit-r.held {
		return fmt.Errorf("answer of %d bytes: all results of a plan may have %d (max_result_bytes)", size, r.limit)
	}
	one.bytes += size
	r.held += size
	return nil
}

// releaseInputs releases the results that a step refers to.
func (r *results) releaseInputs(s *Step) {
	if r.of[s.Index].inputsReleased {
		return
	}
	r.of[s.Index].inputsReleased = true
	for _, i := range s.Needs {
		one := &r.of[i]
		if one.users--; !one.needed() {
			r.release(i)
		}
	}
}

// release drops a result.
func (r *results) release(i int) {
	r.held -= r.of[i].bytes
	r.of[i].bytes, r.report.Steps[i].Result = 0, Result{}
}
