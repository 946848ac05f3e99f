package plan

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// risk is a reason why a step needs confirmation.
type risk struct {
	step      *Step
	writes    bool    // it may write, and writes need confirmation
	disclosed []*Step // steps of which it discloses the outcomes to third parties; nil if none
}

// risks are the reasons for which a plan needs confirmation or, once it has it, that are confirmed.
type risks []risk

// risks returns the steps that the user must confirm: always those that disclose outcomes of
// other steps to third parties, and if writes is true also those that may write.
func (p *Plan) risks(writes bool) (all risks) {
	for _, s := range p.Steps {
		one := risk{s, writes && s.Writes, p.discloses(s)}
		if one.writes || one.disclosed != nil {
			all = append(all, one)
		}
	}
	return all
}

// discloses returns the steps of which third parties could learn the outcomes from calls of a step:
// those that its arguments, condition or items refer to, and those that prevent it from running
// if they fail. It returns nil if the step's tool does not disclose its arguments, or if its
// calls depend on nothing but the plan.
func (p *Plan) discloses(s *Step) []*Step {
	if !s.Tool.discloses() {
		return nil
	}
	var disclosed []*Step
	for i, to := range p.Steps {
		required := slices.Contains(s.Waits, i) && to.OnError == Fail
		mayStop := s.Writes && to.stopsWrites() && (i < s.Index || s.follows(i)) // as Report.failedWrite decides while the plan runs
		if slices.Contains(s.Needs, i) || required || mayStop {
			disclosed = append(disclosed, to)
		}
	}
	return disclosed
}

// String describes what must be confirmed.
func (k risk) String() string {
	why := "tells third parties " + outcomes(k.disclosed)
	switch {
	case k.writes && k.disclosed != nil:
		why = "may change something and " + why
	case k.writes:
		why = "may change something"
	}
	return fmt.Sprintf("step %q (%s) %s", k.step.ID, escapeInvisible(k.step.Tool.Name), why)
}

// outcomes describes the disclosed outcomes.
func outcomes(steps []*Step) string {
	var ids []string
	for _, s := range steps {
		ids = append(ids, strconv.Quote(s.ID))
	}
	return "the outcome of " + strings.Join(ids, ", ")
}

// maxQuestion is the maximum number of characters of a question. A plan that needs more is not
// run, because the truncated part could be the important one.
const maxQuestion = 6000

// question returns the question to the user. It shows everything that the plan says about the
// risky steps, those of which they disclose the outcomes and all that these refer to, and what takes
// the place of the result of a failed step.
func (p *Plan) question(all risks) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Run this plan? %d of its %d steps may change something or tell others:\n", len(all), len(p.Steps))
	if p.Params != nil {
		fmt.Fprintf(&b, "with params %s\n", legible(p.Params))
	}
	risky, before := make(map[*Step]bool), make(map[*Step]bool)
	for _, one := range all {
		one.step.describe(&b, "- ")
		risky[one.step] = true
		if one.disclosed != nil {
			fmt.Fprintf(&b, "  tells third parties %s\n", outcomes(one.disclosed))
		}
		p.markInputs(one.step, before)
		for _, s := range one.disclosed {
			before[s] = true
			p.markInputs(s, before)
		}
	}
	for _, s := range p.Steps {
		if before[s] && !risky[s] {
			s.describe(&b, "before that, ")
		}
	}
	for _, s := range p.Steps {
		switch {
		case s.OnError == Default:
			fmt.Fprintf(&b, "if %s fails, in place of its result: %s\n", s.ID, legible(s.Default))
		case s.OnError == Continue && (risky[s] || before[s]):
			fmt.Fprintf(&b, "if %s fails, the steps that use its result are not skipped: it is null in arguments, or the reference's default, and missing in conditions\n", s.ID)
		}
	}
	return bounded(b.String())
}

// markInputs marks the steps that a step refers to, directly or indirectly.
func (p *Plan) markInputs(s *Step, marked map[*Step]bool) {
	for _, i := range s.Needs {
		if to := p.Steps[i]; !marked[to] {
			marked[to] = true
			p.markInputs(to, marked)
		}
	}
}

// bounded returns a question, or an error if it is too long to be read.
func bounded(question string) (string, error) {
	if utf8.RuneCountInString(question) > maxQuestion {
		return "", fmt.Errorf("not run: what the user has to confirm takes more than %d characters to show, which is more than a user is asked to read; send it in parts", maxQuestion)
	}
	return question, nil
}

// ConfirmCall returns the question to the user about one call outside a plan, with all of its
// arguments, or why the tool does not take these; a nil schema takes any.
func ConfirmCall(tool string, input *schema.Schema, arguments []byte) (question string, err error) {
	if err := misfit(tool, input, arguments); err != nil {
		return "", err
	}
	return bounded(fmt.Sprintf("Call %s? It may change something.\nwith %s", escapeInvisible(tool), legible(arguments)))
}

// unconfirmed returns the error for a plan that the user could not be asked to confirm: the steps
// that need confirmation, and the alternatives.
func unconfirmed(needed risks, why string) error {
	var steps, lines []string
	instead := "Instead, make these calls by themselves; or the"
	for _, k := range needed {
		steps = append(steps, k.String())
		t := k.step.Tool
		if k.writes && t.Searched {
			instead = "The"
		}
		if k.writes {
			lines = append(lines, `[plan].mutations = "allow" for what may change something`)
		}
		if k.writes && t.Unclassified {
			lines = append(lines, fmt.Sprintf(`[tools.%q].side_effect_class = "read_only" if it only reads`, t.Configured))
		}
		if k.disclosed != nil {
			lines = append(lines, fmt.Sprintf(`[tools.%q].disclosure = "same_service" if it sends nothing to third parties`, t.Configured))
		}
	}
	slices.Sort(lines) // [plan] first
	lines = slices.Compact(lines)
	return fmt.Errorf("the plan was not run: the user has to confirm it, and %s. To be confirmed: %s. "+
		"%s operator can set %s", why, strings.Join(steps, "; "), instead, strings.Join(lines, ", "))
}

// check returns an error if a call may not be made under the settings in force: it discloses
// outcomes of other steps or may write, and these are not confirmed risks, or its server is
// another one now. The arguments were not known when the plan was accepted, and the rules may have
// changed.
func (confirmed risks) check(c Call, disclosed []*Step, settings *Settings) error {
	s, known := c.Step, risk{}
	if i := slices.IndexFunc(confirmed, func(k risk) bool { return k.step == s }); i >= 0 {
		known = confirmed[i]
	}
	switch replaced := s.Tool.Replaced; {
	case !settings.Enabled:
		return errors.New("not called: plans have been switched off since the plan started ([plan].enabled)")
	case (s.Writes || disclosed != nil) && replaced != nil && replaced():
		return errors.New("not called: the tool's server has been replaced since the plan started")
	case disclosed != nil && known.disclosed == nil:
		return fmt.Errorf("not called: it tells third parties %s, which was not known before, so the user has not confirmed it", outcomes(disclosed))
	case s.Writes && (settings.Mutations == "allow" || settings.Mutations == "confirm" && known.writes), !s.Tool.Writes(c.Arguments):
		return nil
	}
	return fmt.Errorf("not called: it may change something, which is not confirmed or no longer allowed ([plan].mutations = %q)", settings.Mutations)
}

// describe writes the step's condition, tool, items and arguments, as in the plan.
func (s *Step) describe(b *strings.Builder, mark string) {
	fmt.Fprintf(b, "%s%s: ", mark, s.ID)
	if s.When != nil {
		fmt.Fprintf(b, "if %s, ", legible(s.written["when"]))
	}
	b.WriteString(escapeInvisible(s.Tool.Name))
	if s.ForEach != nil {
		fmt.Fprintf(b, " for each of up to %d items of %s,", s.MaxItems, legible(s.written["for_each"]))
	}
	fmt.Fprintf(b, " %s\n", legible(s.written["arguments"]))
}

// stringForm matches the strings of a JSON text, the names of members among them.
var stringForm = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// legible returns JSON on one line, without unnecessary escapes and with invisible characters
// escaped, so that it cannot look like something else. [jsonrpc.AppendCanonical] would leave a value
// as it is that has a repeated name or half a surrogate pair. JSON that is too long to be shown is
// returned as it is, as 16 MiB take more than a second.
func legible(written []byte) string {
	switch {
	case len(written) == 0:
		return "{}"
	case len(written) > len(`\ud83d\ude00`)*maxQuestion:
		return string(written)
	}
	return escapeInvisible(string(stringForm.ReplaceAllFunc(compact(written), func(quoted []byte) []byte {
		text, _ := jsonrpc.String(quoted)
		return jsonrpc.AppendString(nil, text)
	})))
}

// escapeInvisible escapes invisible characters and all spaces but U+0020.
func escapeInvisible(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c == ' ' || unicode.IsGraphic(c) && !unicode.IsSpace(c) && !invisible(c) {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", c)
		}
	}
	return b.String()
}

// invisible reports whether a graphic character has no visible glyph: Hangul fillers, the empty
// Braille pattern, and marks that only modify the preceding character.
func invisible(c rune) bool {
	return c == 0x2800 || unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
