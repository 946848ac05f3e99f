package plan

import "fmt"

// results say how long what the steps of a plan gave stays in their report, which is as long
// as a step or the client needs it, and the bytes that it holds. They belong to the
// goroutine of Run.
type results struct {
	report *Report
	most   int // bytes that all of them may hold; 0: any number
	held   int // bytes that they do
	of     []result
}

// result is that of one step, by its index.
type result struct {
	bytes  int  // that it holds
	output bool // the client will get it
	users  int  // steps that refer to it and have not ended
	spent  bool // the step itself needs no results of others any longer
}

func newResults(p *Plan, report *Report, most int) *results {
	r := &results{report: report, most: most, of: make([]result, len(p.Steps))}
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

// needed reports whether a step or the client will read the result of a step.
func (r *results) needed(s *Step) bool { return r.of[s.Index].needed() }

func (one *result) needed() bool { return one.output || one.users > 0 }

// hold counts bytes of a step's result. What is on its way to us is not counted,
// nor are arguments, of which there is one for each call at most.
func (r *results) hold(s *Step, size int, blocks [][]byte) error {
	one := &r.of[s.Index]
	if one.output {
		for _, b := range blocks {
			size += len(b)
		}
	}
	if r.most > 0 && size > r.most-r.held {
		return fmt.Errorf("answer of %d bytes: all results of a plan may have %d (max_result_bytes)", size, r.most)
	}
	one.bytes += size
	r.held += size
	return nil
}

// spend notes that a step no longer needs what it refers to.
func (r *results) spend(s *Step) {
	if r.of[s.Index].spent {
		return
	}
	r.of[s.Index].spent = true
	for _, i := range s.Needs {
		one := &r.of[i]
		if one.users--; !one.needed() {
			r.release(i)
		}
	}
}

// release forgets a result.
func (r *results) release(i int) {
	r.held -= r.of[i].bytes
	r.of[i].bytes, r.report.Steps[i].Result = 0, Result{}
}
