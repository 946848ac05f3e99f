package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
)

// confirm has the user agree to what the plan may change, or tell others, where the
// operator wants that. The error says why the plan is not run.
func (r *planRun) confirm() error {
	if r.s.srv.policy.Load().Plans.Mutations != "confirm" {
		return nil // what is denied did not get here
	}
	risky := slices.DeleteFunc(slices.Clone(r.plan.Steps), func(st *plan.Step) bool { return !st.Writes && !tells(st) })
	if len(risky) == 0 {
		return nil
	}
	if !r.canElicit() {
		return fmt.Errorf("the plan was not run: %s may change something or tell others, and this client cannot be asked to confirm that. Call such tools by themselves; or the operator sets [plan].mutations to \"allow\"", listed(risky))
	}
	message, whole := r.request(risky)
	if !whole {
		return fmt.Errorf("the plan was not run: what it may change takes more than %d characters to show, so nobody could confirm it; send it in parts", mostShown)
	}
	params := jsonrpc.Set(nil, "message", jsonrpc.AppendString(nil, message))
	params = jsonrpc.Set(params, "requestedSchema", []byte(`{"type":"object","properties":{}}`))
	r.idle(1) // nothing else is under way
	answers, err := r.ask(r.ctx, []asked{{"confirm", "elicitation/create", params}})
	if err != nil {
		return fmt.Errorf("the plan was not run: it could not be confirmed: %s", err.Message)
	}
	if action, _ := jsonrpc.String(jsonrpc.Get(answers[0], "action")); action != "accept" {
		return errors.New("the plan was not run: the user did not confirm it; nothing was called")
	}
	r.confirmed = true
	return nil
}

// tells reports whether a step sends on to others what an earlier one may have read:
// its client would have asked before it made that call by itself.
func tells(st *plan.Step) bool {
	return st.Tool.Discloses && st.Arguments != nil && st.Arguments.Constant() == nil
}

// canElicit reports whether the client said that it can ask its user. One that says
// no more of it than that it can, can by a form.
func (r *planRun) canElicit() bool {
	capabilities := r.hop.Capabilities
	if !r.stateless {
		r.s.mu.Lock()
		capabilities = r.s.client.Capabilities
		r.s.mu.Unlock()
	}
	elicitation := object(jsonrpc.Get(capabilities, "elicitation"))
	onlyURLs := jsonrpc.Get(elicitation, "url") != nil && jsonrpc.Get(elicitation, "form") == nil
	return elicitation != nil && !onlyURLs
}

func listed(steps []*plan.Step) string {
	var names []string
	for _, st := range steps {
		names = append(names, fmt.Sprintf("step %q (%s)", st.ID, visible(st.Tool.Name)))
	}
	return strings.Join(names, ", ")
}

// mostShown is how many characters a user is asked to read. What takes more is not
// run at all: what is cut off could be what matters.
const mostShown = 6000

// request is what the user is asked; false if it is not all of it. It shows all that
// the plan itself says of these steps, and what it hands them in place of a result.
func (r *planRun) request(risky []*plan.Step) (message string, whole bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "Run this plan? %d of its %d steps may change something or tell others:\n", len(risky), len(r.plan.Steps))
	if r.plan.Params != nil {
		fmt.Fprintf(&b, "with params %s\n", legible(r.plan.Params))
	}
	for _, st := range risky {
		each := ""
		if st.ForEach != nil {
			each = fmt.Sprintf(" for each of up to %d items of %s,", st.MaxItems, legible(r.written(st, "for_each")))
		}
		arguments := r.written(st, "arguments")
		if text, ok := jsonrpc.String(arguments); ok && text != "" {
			arguments = []byte(text) // the guide's form
		}
		fmt.Fprintf(&b, "- %s: %s%s %s\n", st.ID, visible(st.Tool.Name), each, legible(arguments))
	}
	for _, st := range r.plan.Steps {
		if st.OnError == plan.Default {
			fmt.Fprintf(&b, "if %s fails, in place of its result: %s\n", st.ID, legible(st.Default))
		}
	}
	message = b.String()
	return message, utf8.RuneCountInString(message) <= mostShown
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
