package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/upstream"
)

// confirm has the user agree to what the plan may change or tells third parties. The
// error says why the plan is not run.
func (r *planRun) confirm() error {
	risks := r.plan.Risks(r.s.srv.policy.Load().Plans.Mutations == "confirm") // what is denied did not get here
	if len(risks) == 0 {
		return nil
	}
	if !r.canElicit() {
		return errors.New(r.unasked(risks, "this client cannot be asked (it declares no elicitation by form)"))
	}
	message, ok := r.plan.Confirmation(risks)
	if !ok {
		return fmt.Errorf("the plan was not run: what has to be confirmed takes more than %d characters to show, which is more than a user is asked to read; send it in parts", plan.MostShown)
	}
	params := jsonrpc.Set(nil, "message", jsonrpc.AppendString(nil, message))
	params = jsonrpc.Set(params, "requestedSchema", []byte(`{"type":"object","properties":{}}`))
	q := newQuestion("elicitation/create", params)
	answer, err := r.s.askOne(r.work.ctx, r.work.began.way("confirm."), q)
	if err != nil {
		return fmt.Errorf("the plan was not run: it could not be confirmed: %s", err.Message)
	}
	switch action, _ := jsonrpc.String(jsonrpc.Get(answer, "action")); action {
	case "accept":
	case "decline":
		return errors.New("the plan was not run: the user declined it; nothing was called")
	default: // clients that run without a user answer so at once
		return errors.New(r.unasked(risks, "the client closed the question without an answer"))
	}
	r.confirmed = make(map[*plan.Step]plan.Risk)
	for _, one := range risks {
		r.confirmed[one.Step] = one
	}
	return nil
}

// unasked is why a plan is not run where the user was not asked: which steps have to be
// confirmed, and what would do instead.
func (r *planRun) unasked(risks []plan.Risk, why string) string {
	var steps, lines []string
	for _, k := range risks {
		steps = append(steps, k.String())
		name := k.Step.Tool.Name
		if t, l := r.s.named(r.s.srv.policy.Load(), upstream.Tools, name); l != nil {
			name = t.upstream + "/" + t.name
		}
		if k.Writes {
			lines = append(lines, `[plan].mutations = "allow" for what may change something`)
		}
		if k.Writes && k.Step.Tool.Unclassified {
			lines = append(lines, fmt.Sprintf(`[tools.%q].side_effect_class = "read_only" if it only reads`, name))
		}
		if k.Told != nil {
			lines = append(lines, fmt.Sprintf(`[tools.%q].disclosure = "same_service" if it sends nothing to third parties`, name))
		}
	}
	slices.Sort(lines) // those of [plan] first
	lines = slices.Compact(lines)
	return fmt.Sprintf("the plan was not run: the user has to confirm it, and %s. To be confirmed: %s. "+
		"Instead, make these calls by themselves; or the operator sets %s", why, strings.Join(steps, "; "), strings.Join(lines, ", "))
}

// canElicit reports whether the client said that it can ask its user. One that says
// no more of it than that it can, can by a form.
func (r *planRun) canElicit() bool {
	capabilities := r.work.began.hop.Capabilities
	if !r.work.began.stateless {
		capabilities = r.s.client.facts().Capabilities
	}
	elicitation := object(jsonrpc.Get(capabilities, "elicitation"))
	onlyURLs := jsonrpc.Get(elicitation, "url") != nil && jsonrpc.Get(elicitation, "form") == nil
	return elicitation != nil && !onlyURLs
}
