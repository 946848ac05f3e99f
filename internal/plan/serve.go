package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/excerpt"
)

// Settings are the operator's settings, as in [plan] of the configuration.
type Settings struct {
	Enabled   bool   `toml:"enabled"`                                               // false: no plan tool is listed
	Mutations string `toml:"mutations" default:"confirm" enum:"confirm|allow|deny"` // handling of plans that write
	Limits
	KeepFor time.Duration `toml:"handle_ttl" default:"30m"` // how long results can be read; 0: not at all
	Named   []Named       // offered as tools plan__NAME
}

// ReadOnly reports whether plans with a step that may write are refused.
func (s *Settings) ReadOnly() bool { return s.Mutations == "deny" }

// Read parses and checks a plan: the arguments of execute_tool_plan or, unless n is nil, those of
// the tool of a configured plan. An error about the plan is of type [Defects].
func Read(arguments []byte, n *Named, o Options) (p *Plan, err error) {
	if n != nil {
		if o.Params, err = n.fill(arguments); err != nil {
			return nil, err
		}
		arguments = n.body()
	}
	p, defects := Parse(arguments, o)
	if defects != nil {
		return nil, defects
	}
	return p, nil
}

// ErrUnread is returned by Runner.Ask if the client closed the question unanswered.
var ErrUnread = errors.New("the client closed the question without an answer")

// Serve confirms and runs a plan, and returns its report with the answer. It also stores the answer of a
// plan that wrote or was cancelled: the client may not receive it, and can then find out what was written.
func (r *Runner) Serve(ctx context.Context, p *Plan) (*Report, error) {
	confirmed, err := r.confirm(p)
	if err != nil {
		return nil, err
	}
	r.refused = func(c Call) error { return confirmed.check(c, p.discloses(c.Step), r.Settings()) }
	var loading sync.WaitGroup
	defer loading.Wait()
	loading.Go(func() { r.countTokens([]byte(" ")) }) // the first count of a process takes 0.1 s, which then pass during the calls
	report := r.Run(ctx, p)
	limit := limitOf(min(r.Settings().ResultTokens(p.Budget), r.Room()), r.Tokens)
	report.Structured, report.Blocks = report.Answer(p, limit, func(all []byte) string { return r.Keep("all results", all) })
	wrote := slices.ContainsFunc(report.Steps, func(st *Status) bool { return st.Step.Writes && st.Calls > 0 })
	if report.Cancelled = ctx.Err() != nil; report.Cancelled || wrote {
		r.Keep("result", report.Structured)
	}
	return report, nil
}

// confirm asks the user to confirm the plan's writes and disclosures to third parties, if there
// are any, and returns them. The error says why the plan must not run.
func (r *Runner) confirm(p *Plan) (risks, error) {
	needed := p.risks(r.Settings().Mutations == "confirm") // with "deny", Parse has refused writes
	if len(needed) == 0 {
		return nil, nil
	}
	if r.Ask == nil {
		return nil, unconfirmed(needed, "this client cannot be asked (it declares no elicitation by form)")
	}
	question, err := p.question(needed)
	if err == nil {
		if err = r.Ask(question); errors.Is(err, ErrUnread) {
			return nil, unconfirmed(needed, err.Error())
		} else if err != nil {
			err = fmt.Errorf("the plan was not run: %w", err)
		}
	}
	return needed, err
}

// maxChars limits an answer in characters, whatever its budget: a known client writes longer
// ones to a file, which its model then has to read.
const maxChars = 48_000

// limitOf returns the limit of an answer with the given budget of tokens, as count counts them.
func limitOf(tokens int, count func([]byte) int) excerpt.Limit {
	return excerpt.Limit{Tokens: tokens, Chars: maxChars, Count: count}
}
