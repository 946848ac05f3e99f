package proxy

import (
	"fmt"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
)

// planProgress tells the client of a plan how far it is, if the client wants to know. It
// is of the runner's goroutine alone.
type planProgress struct {
	work  *work
	steps int // of the plan

	over    int       // steps that have ended
	reached float64   // of the steps, as last told
	told    time.Time // when something was last told of items
}

// request is the one that progress is told of; nil: there is none, or it wants none.
func (p *planProgress) request() *request {
	if x, _ := p.work.attended(); x != nil && x.token != nil {
		return x
	}
	return nil
}

// ended tells that a step has ended.
func (p *planProgress) ended(st *plan.Status, ended, _ int) {
	p.over = ended
	x := p.request()
	if x == nil {
		return
	}
	text := fmt.Sprintf("%s: %s", st.Step.ID, st.State)
	if st.Calls > 0 {
		text += fmt.Sprintf(" (%d ms)", st.Took.Milliseconds())
	}
	p.tell(x, float64(ended), text)
}

// item tells how far a step with many items is, once a second at most.
func (p *planProgress) item(st *plan.Step, done, of int) {
	now := time.Now()
	x := p.request()
	if x == nil || now.Sub(p.told) < time.Second {
		return
	}
	p.told = now
	p.tell(x, float64(p.over)+float64(done)/float64(of+1), fmt.Sprintf("%s: %d of %d items", st.ID, done, of))
}

// tell tells that the plan has got further; never that it has got less far, as when
// another step begins its items.
func (p *planProgress) tell(x *request, to float64, what string) {
	if to <= p.reached {
		return
	}
	p.reached = to
	params := fmt.Appendf(nil, `{"progress":%s,"total":%d,"message":`, strconv.FormatFloat(to, 'f', -1, 64), p.steps)
	x.forward(nil, "notifications/progress", append(jsonrpc.AppendString(params, what), '}'))
}
