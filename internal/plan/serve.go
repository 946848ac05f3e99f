package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Read parses and checks a plan: the arguments of execute_tool_plan or, unless n is nil, those of
// the tool of a configured plan.
func Read(arguments []byte, n *Named, o Options) (p *Plan, err error) {
	if n != nil {
		if o.Params, err = n.Fill(arguments); err != nil {
			return nil, err
		}
		arguments = n.Body()
	}
	p, defects := Parse(arguments, o)
	if defects != nil {
		return nil, defects
	}
	return p, nil
}

// Host connects a plan with its client and with the servers of its tools.
type Host struct {
	Runner
	Settings func() *Settings                       // in force now; a reload may change them while the plan runs
	Ask      func(question string) error            // asks the user to confirm, and returns why not; nil if the client cannot be asked
	Keep     func(what string, value []byte) string // stores a result of the plan and returns its handle; "" if it does not
	Room     func() int                             // tokens that the client's budget leaves for the answer
}

// ErrUnread is returned by Host.Ask if the client closed the question unanswered.
var ErrUnread = errors.New("the client closed the question without an answer")

// Serve confirms and runs a plan, and returns its report with the answer. It stores an answer that
// the client may not receive, so that the client can find out what was written.
func (h *Host) Serve(ctx context.Context, p *Plan) (*Report, error) {
	confirmed, err := h.confirm(p)
	if err != nil {
		return nil, err
	}
	h.refused = func(c Call) error { return confirmed.Check(c, p.Discloses(c.Step), h.Settings()) }
	r := h.Run(ctx, p)
	limit := limitOf(min(h.Settings().ResultTokens(p.Budget), h.Room()), h.Tokens)
	r.Structured, r.Blocks = r.Answer(p, limit, func(all []byte) string { return h.Keep("all results", all) })
	if r.Cancelled = ctx.Err() != nil; r.Cancelled || slices.ContainsFunc(r.Steps, func(st *Status) bool { return st.Step.Writes && st.Calls > 0 }) {
		h.Keep("result", r.Structured)
	}
	return r, nil
}

// confirm asks the user to confirm the plan's writes and disclosures to third parties, if there
// are any, and returns them. The error says why the plan must not run.
func (h *Host) confirm(p *Plan) (Risks, error) {
	risks := p.Risks(h.Settings().Mutations == "confirm") // with "deny", Parse has refused writes
	if len(risks) == 0 {
		return nil, nil
	}
	if h.Ask == nil {
		return nil, Unconfirmed(risks, "this client cannot be asked (it declares no elicitation by form)")
	}
	question, err := p.Confirmation(risks)
	if err == nil {
		if err = h.Ask(question); errors.Is(err, ErrUnread) {
			return nil, Unconfirmed(risks, err.Error())
		} else if err != nil {
			err = fmt.Errorf("the plan was not run: %w", err)
		}
	}
	return risks, err
}

// maxChars limits an answer in characters, whatever its budget: a known client writes longer
// ones to a file, which its model then has to read.
const maxChars = 48_000

// limitOf returns the limit of an answer with the given budget of tokens, as count counts them.
func limitOf(tokens int, count func([]byte) int) excerpt.Limit {
	return excerpt.Limit{Tokens: tokens, Chars: maxChars, Count: count}
}
