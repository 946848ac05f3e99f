package plan

import (
	"fmt"
	"strconv"
	"time"
)

// progress reports the progress of a plan. Reported values never decrease, also when several
// steps process items.
type progress struct {
	report   func(done float64, of int, what string) // may be nil
	steps    int
	ended    int       // steps that have ended
	last     float64   // last reported value, in steps
	lastItem time.Time // time of the last report about items
}

// stepEnded reports that a step has ended.
func (p *progress) stepEnded(st *Status) {
	p.ended++
	if p.report == nil {
		return
	}
	what := st.Step.ID + ": " + string(st.State)
	if st.Calls > 0 {
		what += " (" + strconv.FormatInt(st.Took.Milliseconds(), 10) + " ms)"
	}
	p.advance(float64(p.ended), what)
}

// itemEnded reports the progress of a step with items, at most once per second.
func (p *progress) itemEnded(s *Step, done, of int) {
	if p.report == nil || time.Since(p.lastItem) < time.Second {
		return
	}
	p.lastItem = time.Now()
	p.advance(float64(p.ended)+float64(done)/float64(of+1), fmt.Sprintf("%s: %d of %d items", s.ID, done, of))
}

func (p *progress) advance(to float64, what string) {
	if to > p.last {
		p.last = to
		p.report(to, p.steps, what)
	}
}
