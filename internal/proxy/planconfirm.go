package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/upstream"
)

// risk is why a step of a plan is not run unasked.
type risk struct {
	step   *plan.Step
	writes bool         // it may change something, and the operator wants that confirmed
	told   []*plan.Step // third parties learn what came of these; nil: of none
}

// risks are the steps that the user has to confirm: in every mode those that tell third
// parties what came of others.
func (r *planRun) risks() (all []risk) {
	confirms := r.s.srv.policy.Load().Plans.Mutations == "confirm" // else what is denied did not get here
	for _, st := range r.plan.Steps {
		one := risk{st, confirms && st.Writes, r.plan.Discloses(st)}
		if one.writes || one.told != nil {
			all = append(all, one)
		}
	}
	return all
}

// confirm has the user agree to what the plan may change or tells third parties. The
// error says why the plan is not run.
func (r *planRun) confirm() error {
	risks := r.risks()
	if len(risks) == 0 {
		return nil
	}
	if !r.canElicit() {
		return errors.New(r.unasked(risks))
	}
	message, whole := r.confirmation(risks)
	if !whole {
		return fmt.Errorf("the plan was not run: what has to be confirmed takes more than %d characters to show, which is more than a user is asked to read; send it in parts", mostShown)
	}
	params := jsonrpc.Set(nil, "message", jsonrpc.AppendString(nil, message))
	params = jsonrpc.Set(params, "requestedSchema", []byte(`{"type":"object","properties":{}}`))
	q := newQuestion("elicitation/create", params)
	answer, err := first(r.s.ask(r.work.ctx, r.work.began.way("confirm."), q))
	if err != nil {
		return fmt.Errorf("the plan was not run: it could not be confirmed: %s", err.Message)
	}
	if action, _ := jsonrpc.String(jsonrpc.Get(answer, "action")); action != "accept" {
		return errors.New("the plan was not run: the user did not confirm it; nothing was called")
	}
	r.confirmed = make(map[*plan.Step]risk)
	for _, one := range risks {
		r.confirmed[one.step] = one
	}
	return nil
}

// unasked is why a plan is not run where the client cannot ask its user: which steps have
// to be confirmed, and what would do instead.
func (r *planRun) unasked(risks []risk) string {
	var steps, lines []string
	for _, one := range risks {
		steps = append(steps, fmt.Sprintf("step %q (%s) %s", one.step.ID, visible(one.step.Tool.Name), one.reason()))
		lines = append(lines, r.lines(one)...)
	}
	slices.Sort(lines) // those of [plan] first
	lines = slices.Compact(lines)
	return fmt.Sprintf("the plan was not run: the user has to confirm it, and this client cannot be asked (it declares no elicitation by form). To be confirmed: %s. "+
		"Instead, make these calls by themselves; or the operator sets %s", strings.Join(steps, "; "), strings.Join(lines, ", "))
}

// reason is what the step does that has to be confirmed.
func (k risk) reason() string {
	var all []string
	switch {
	case k.writes && k.step.Tool.Unclassified:
		all = append(all, "is unclassified, so it may change something")
	case k.writes:
		all = append(all, "may change something")
	}
	if k.told != nil {
		all = append(all, "tells third parties "+outcomes(k.told))
	}
	return strings.Join(all, " and ")
}

// outcomes names what third parties learn.
func outcomes(told []*plan.Step) string {
	var ids []string
	for _, st := range told {
		ids = append(ids, strconv.Quote(st.ID))
	}
	return "what came of " + strings.Join(ids, ", ")
}

// lines are those of the configuration with which a step would be run unasked.
func (r *planRun) lines(k risk) (lines []string) {
	name := k.step.Tool.Name
	if t, l := r.s.named(r.s.srv.policy.Load(), upstream.Tools, name); l != nil {
		name = t.upstream + "/" + t.name
	}
	if k.writes {
		lines = append(lines, `[plan].mutations = "allow" for what may change something`)
	}
	if k.writes && k.step.Tool.Unclassified {
		lines = append(lines, fmt.Sprintf(`[tools.%q].side_effect_class = "read_only" if it only reads`, name))
	}
	if k.told != nil {
		lines = append(lines, fmt.Sprintf(`[tools.%q].disclosure = "same_service" if it sends nothing to third parties`, name))
	}
	return lines
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

// mostShown is how many characters a user is asked to read. What takes more is not
// run at all: what is cut off could be what matters.
const mostShown = 6000

// confirmation is what the user is asked; false if it is not all of it. It shows all that
// the plan itself says of these steps, where what they tell comes from, and what it
// hands them in place of a result.
func (r *planRun) confirmation(risks []risk) (message string, whole bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "Run this plan? %d of its %d steps may change something or tell others:\n", len(risks), len(r.plan.Steps))
	if r.plan.Params != nil {
		fmt.Fprintf(&b, "with params %s\n", legible(r.plan.Params))
	}
	for _, one := range risks {
		r.describe(&b, "- ", one.step)
		if one.told != nil {
			fmt.Fprintf(&b, "  tells third parties %s\n", outcomes(one.told))
		}
	}
	for _, st := range r.sources(risks) {
		r.describe(&b, "before that, ", st)
	}
	for _, st := range r.plan.Steps {
		if st.OnError == plan.Default {
			fmt.Fprintf(&b, "if %s fails, in place of its result: %s\n", st.ID, legible(st.Default))
		}
	}
	message = b.String()
	return message, utf8.RuneCountInString(message) <= mostShown
}

// describe shows a step: what the plan says of when, how often and with what its tool
// is called.
func (r *planRun) describe(b *strings.Builder, mark string, st *plan.Step) {
	if when := r.written(st, "when"); st.When != nil {
		fmt.Fprintf(b, "%s%s: if %s, %s", mark, st.ID, legible(when), visible(st.Tool.Name))
	} else {
		fmt.Fprintf(b, "%s%s: %s", mark, st.ID, visible(st.Tool.Name))
	}
	if st.ForEach != nil {
		fmt.Fprintf(b, " for each of up to %d items of %s,", st.MaxItems, legible(r.written(st, "for_each")))
	}
	arguments := r.written(st, "arguments")
	if text, ok := jsonrpc.String(arguments); ok && text != "" {
		arguments = []byte(text) // the guide's form
	}
	fmt.Fprintf(b, " %s\n", legible(arguments))
}

// sources are the steps that what is told to third parties comes from, at any remove,
// without those that are shown anyway.
func (r *planRun) sources(risks []risk) (all []*plan.Step) {
	shown, from := make([]bool, len(r.plan.Steps)), make([]bool, len(r.plan.Steps))
	var follow func(st *plan.Step)
	follow = func(st *plan.Step) {
		if from[st.Index] {
			return
		}
		from[st.Index] = true
		for _, i := range st.Needs {
			follow(r.plan.Steps[i])
		}
	}
	for _, one := range risks {
		shown[one.step.Index] = true
		for _, to := range one.told {
			follow(to)
		}
	}
	for i, st := range r.plan.Steps {
		if from[i] && !shown[i] {
			all = append(all, st)
		}
	}
	return all
}

// written is a member of a step as the client wrote it.
func (r *planRun) written(st *plan.Step, member string) []byte {
	return jsonrpc.Get(jsonrpc.At(r.body, fmt.Sprintf("/steps/%d", st.Index)), member)
}

// legible shows JSON that others wrote so that nothing in it looks like anything
// else: on one line, without white space between its parts or escapes for what can
// be written, and with escapes for what cannot be seen.
func legible(written []byte) string {
	if len(written) == 0 {
		return "{}"
	}
	if canonical, ok := jsonrpc.AppendCanonical(nil, written); ok {
		written = canonical
	}
	return visible(string(written))
}

// visible shows what cannot be seen, or looks like a space and is none.
func visible(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c == ' ' || unicode.IsGraphic(c) && !unicode.IsSpace(c) && !blank(c) {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", c)
		}
	}
	return b.String()
}

// blank reports whether a letter is drawn as nothing: Hangul fillers, an empty
// Braille pattern, and marks that only change what stands before them.
func blank(c rune) bool {
	switch c {
	case 0x115f, 0x1160, 0x3164, 0xffa0, 0x2800, 0x034f, 0x17b4, 0x17b5:
		return true
	}
	return unicode.Is(unicode.Variation_Selector, c)
}
