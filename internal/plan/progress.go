package plan

import (
	"fmt"
	"strconv"
	"time"
)

// progress tells how far a plan is, never that it is less far than before, as when
// another step begins its items.
type progress struct {
	tell    func(done float64, of int, what string) // nil: it is not told
	steps   int
	ended   int       // steps
	reached float64   // of the steps, as last told
	items   time.Time // when something was last told of items
}

// stepEnded tells that a step has ended.
func (p *progress) stepEnded(st *Status) {
	p.ended++
	if p.tell == nil {
		return
	}
	what := st.Step.ID + ": " + string(st.State)
	if st.Calls > 0 {
		what += " (" + strconv.FormatInt(st.Took.Milliseconds(), 10) + " ms)"
	}
	p.further(float64(p.ended), what)
}

// itemEnded tells how far a step with many items is, once a second at most.
func (p *progress) itemEnded(s *Step, done, of int) {
	if p.tell == nil || time.Since(p.items) < time.Second {
		return
	}
	p.items = time.Now()
	p.further(float64(p.ended)+float64(done)/float64(of+1), fmt.Sprintf("%s: %d of %d items", s.ID, done, of))
}

func (p *progress) further(to float64, what string) {
	if to > p.reached {
		p.reached = to
		p.tell(to, p.steps, what)
	}
}
